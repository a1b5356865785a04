//! Queries over the loopback interface: `atp-user recv --query`.

mod common;

use approx_answers::{RecordOrder, Table};
use approx_frames::Frame;
use approx_windows::{
    Cutter, Group, GroupId, Limits, Outbox, OutgoingWindow, Peer, Plan, Position, RecordRef, Rule,
    Sampling, Stream,
};
use approxlib::{Job, Order};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use common::atp;
use nix::{
    sys::signal::{SigHandler, Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    net::SocketAddr,
    os::unix::process::CommandExt,
    process::Stdio,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

const ROWS: u32 = 100;
/// The rows that arrive before the sender dies.
const BEFORE: u32 = 40;

/// Several functions of several keys, of the rows that match: from the file to JSON and text.
#[test]
fn recv__answers_sql() {
    let query = "SELECT avg(v), count(*), max(v) FROM t WHERE v > 1 AND k <> 'c' GROUP BY k, l";
    let file = tempfile::NamedTempFile::new().unwrap();
    let rows = ["a,x,3", "a,x,5", "a,x,1", "a,y,7", "b,x,NA", "b,x,2", "c,x,9"];
    std::fs::write(file.path(), format!("k,l,v\n{}\n", rows.join("\n"))).unwrap();
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 111, high, low], 4747));
    let said = |json: &str| {
        let mut receiving = atp(&format!("recv {address} --csv {json} --query"));
        let receiving = receiving.arg(query).stdout(Stdio::piped()).spawn().unwrap();
        let mut sending = atp(&format!("send {address} --csv --file"));
        assert!(sending.arg(file.path()).output().unwrap().status.success());
        let output = receiving.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let answer: Value = serde_json::from_str(&said("--json")).unwrap();
    let rows: Vec<(&Value, [&Value; 3])> = answer["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let of = ["avg(v)", "count(*)", "max(v)"];
            (&row["key"], of.map(|function| &row["answers"][function]["value"]))
        })
        .collect();
    let expected = [(["a", "x"], [4.0, 2.0, 5.0]), (["a", "y"], [7.0, 1.0, 7.0])];
    let expected = [expected[0], expected[1], (["b", "x"], [2.0, 1.0, 2.0])];
    let expected =
        expected.map(|(key, values)| (Value::from(key.to_vec()), values.map(Value::from)));
    let expected: Vec<_> = expected.iter().map(|(key, values)| (key, values.each_ref())).collect();
    assert_eq!(rows, expected, "{answer}");
    assert_eq!(answer["missing"], 0, "the row without a number doesn't meet the condition");
    let text = said("");
    assert!(text.contains("  a, x  avg(v)           4.0000   4.0000 to 4.0000 (95 %)"), "{text}");
}

/// A bound has no interval, of which an error could be accepted.
#[test]
fn recv__refuses_an_accepted_error_of_a_bound() {
    let output = atp("recv --query max(v) --csv --emax 0.1").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("max(v) is a bound for all rows and has no error to accept"), "{said}");
}

/// No message says that a sender has died, and its next run has another port and job: its records
/// are in the answer twice.
#[test]
fn recv__doubts_the_sum_of_a_sender_that_was_started_again() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 110, high, low], 4747));
    let mut receiving = atp(&format!("recv {address} --query sum(v) --csv --json"));
    let receiving = receiving.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    die_early(address);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("v\n{}", "2\n".repeat(ROWS as usize))).unwrap();
    let mut sending = atp(&format!("send {address} --csv --rows 1 --file"));
    assert!(sending.arg(file.path()).output().unwrap().status.success());

    let output = receiving.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the answer is in doubt"), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["verdict"], "in_doubt");
    let warnings = answer["warnings"].to_string();
    // The terms of a sender may be lost with it. A sum then leaves its records out.
    if warnings.contains("which has not said how many it sends") {
        assert_eq!(answer["rows"][0]["value"], f64::from(2 * ROWS), "{answer}");
        assert_eq!(answer["messages_left_out"], BEFORE, "{answer}");
        return;
    }
    assert_eq!(answer["rows"][0]["value"], f64::from(2 * 2 * ROWS), "{answer}");
    for words in [
        format!("has not ended, and the answer has {BEFORE} of {ROWS} messages of it"),
        "records of 2 senders, more than the 1 expected".to_owned(),
    ] {
        assert!(warnings.contains(&words), "{warnings}");
    }
}

/// An interrupt ends the wait, and not the answer.
#[test]
fn recv__answers_when_it_is_interrupted() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 112, high, low], 4747));
    let mut receiving = atp(&format!("recv {address} --query avg(v) --csv --json"));
    let receiving = receiving.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // By then the receiver has read its messages, and waits for more.
    die_early(address);
    kill(Pid::from_raw(receiving.id() as i32), Signal::SIGINT).unwrap();
    let output = receiving.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["rows"][0]["value"], 2.0, "{answer}");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("interrupted: the answer has what had arrived"), "{warnings}");
}

/// Each window of a stream has answers of its own, with the lost records counted.
#[test]
fn recv__answers_windows() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 116, high, low], 4747));
    let mut receiving = atp(&format!("recv {address} --windows --json --query"));
    receiving.arg("SELECT avg(t), count(*) GROUP BY room");
    let receiving = receiving.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let limits = Limits { window_bytes_max: 1 << 20, record_bytes_max: 1 << 16 };
    let sampling = Sampling::new(vec![Group { name: "all".into(), msr: 0.8 }]).unwrap();
    let plan = Plan { rule: Rule::Records(2_000), limits, sampling: sampling.clone() };
    let mut cutter = Cutter::new(plan, Position::begin(0), 1);
    for offset in 0..4_000 {
        let (room, t) = (["a", "b"][offset as usize % 2], 20 + offset / 2_000);
        let value = format!("{{\"room\": \"{room}\", \"t\": {t}}}");
        let value = Some(value.as_bytes());
        cutter.push(&RecordRef { offset, value, ..RecordRef::default() }, GroupId::at(0));
    }
    let stream = Stream { topic: "rooms".into(), ..Stream::default() };
    let windows = std::iter::from_fn(|| cutter.pop());
    let windows: Vec<_> = windows.map(|cut| OutgoingWindow::closed(cut, &stream)).collect();
    let options = Job::builder().control_socket(None);
    let peer = Peer { address: address.to_string(), options };
    let mut outbox = Outbox::open(&peer, &stream, &sampling).unwrap();
    windows.iter().for_each(|window| outbox.send(window).unwrap());
    // By then both answers are written.
    outbox.finish().unwrap();
    kill(Pid::from_raw(receiving.id() as i32), Signal::SIGINT).unwrap();
    let output = receiving.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{said}");
    for (line, t) in lines.iter().zip([20.0, 21.0]) {
        assert_eq!((&line["topic"], &line["records"]), (&"rooms".into(), &2_000.into()));
        assert!(line["received"].as_u64() >= Some(1_600), "{line}");
        for row in line["answers"]["rows"].as_array().unwrap() {
            let mean = row["answers"]["avg(t)"]["value"].as_f64().unwrap();
            assert!((mean - t).abs() < 1e-9, "{row}");
            let count = &row["answers"]["count(*)"];
            let [low, high] = ["low", "high"].map(|end| count[end].as_f64().unwrap());
            assert!(low <= high && (800.0..=2_000.0).contains(&high), "{count}");
        }
    }
}

/// Shells start background jobs so: an interrupt is for the one in front.
#[test]
fn recv__leaves_an_ignored_interrupt_alone() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 114, high, low], 4747));
    let mut receiving = atp(&format!("recv {address} --query avg(v) --csv --json"));
    // SAFETY: `signal` may be called between fork and exec.
    unsafe {
        receiving.pre_exec(|| {
            nix::sys::signal::signal(Signal::SIGINT, SigHandler::SigIgn)?;
            Ok(())
        });
    }
    let receiving = receiving.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut job = begin(address);
    kill(Pid::from_raw(receiving.id() as i32), Signal::SIGINT).unwrap();
    for _ in BEFORE..ROWS {
        job.send_in(Table::ROWS_GROUP, b"2\n").unwrap();
    }
    job.finish().unwrap();
    let output = receiving.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!answer["warnings"].to_string().contains("interrupted"), "{answer}");
    assert!(answer["rows"][0]["messages"].as_u64() >= Some(90), "{answer}");
}

/// The sender has more messages, which no answer needs.
#[test]
fn recv__refuses_an_unknown_column_at_once() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 115, high, low], 4747));
    let mut receiving = atp(&format!("recv {address} --query avg(x) --csv --timeout 600s"));
    let receiving = receiving.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut job = connect(address);
    job.send_in(Table::HEADER_GROUP, b"v\n").unwrap();
    let output = receiving.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no column \"x\"") && !said.contains("still sending"), "{said}");
    drop(job);
}

/// A frame needs no option: its header says how it is written.
#[test]
fn recv__answers_frames() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 113, high, low], 4747));
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "b"].repeat(50)));
    let values: ArrayRef = Arc::new((0..100i64).map(Some).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap();
    let frame = Frame::new(&batch.schema(), &[batch], Some(10), RecordOrder::Shuffled).unwrap();
    let mut receiving = atp(&format!("recv {address} --json --query"));
    let query = "SELECT sum(v), count(*) GROUP BY k";
    let receiving = receiving.arg(query).stdout(Stdio::piped()).spawn().unwrap();
    let rows = approxlib::Group::new(Table::ROWS_GROUP).messages(frame.messages().len() as u32);
    let rows = rows.order(Order::Shuffled { buffer: None });
    let groups = [rows, approxlib::Group::new(Table::HEADER_GROUP).messages(2)];
    let mut job = Job::builder().control_socket(None).groups(groups).connect(address).unwrap();
    for head in [frame.header.clone(), frame.totals.to_string().into_bytes()] {
        job.send_in(Table::HEADER_GROUP, &head).unwrap();
    }
    for message in frame.messages() {
        job.send_in(Table::ROWS_GROUP, &message).unwrap();
    }
    job.finish().unwrap();
    let output = receiving.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (row, (key, sum)) in [("a", 2450.0), ("b", 2500.0)].into_iter().enumerate() {
        let found = &answer["rows"][row];
        assert_eq!(found["key"], key, "{answer}");
        assert_eq!(found["answers"]["sum(v)"]["value"], sum, "{answer}");
        assert_eq!(found["answers"]["count(*)"]["value"], 50.0, "{answer}");
    }
}

/// The totals that a sender of CSV states are no records.
#[test]
fn recv__writes_the_file_of_csv_without_its_totals() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 111, high, low], 4747));
    let rows: String = (0..ROWS).map(|row| format!("{row}\n")).collect();
    let (sent, received) = (tempfile::NamedTempFile::new(), tempfile::NamedTempFile::new());
    let (sent, received) = (sent.unwrap(), received.unwrap());
    std::fs::write(sent.path(), format!("v\n{rows}")).unwrap();
    for options in ["--csv --raw", "--csv --raw --query sum(v)"] {
        let mut receiving = atp(&format!("recv {address} {options} --out"));
        let receiving = receiving.arg(received.path()).stdout(Stdio::null()).spawn().unwrap();
        let mut sending = atp(&format!("send {address} --csv --ordered --rows 1 --file"));
        assert!(sending.arg(sent.path()).output().unwrap().status.success());
        assert!(receiving.wait_with_output().unwrap().status.success());
        let text = std::fs::read_to_string(received.path()).unwrap();
        let mut found: Vec<&str> = text.lines().collect();
        let mut expected: Vec<&str> = std::iter::once("v").chain(rows.lines()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{options}");
    }
}

/// Sends a part of the rows, and vanishes.
fn die_early(address: SocketAddr) {
    drop(begin(address));
}

/// A job of a table of one column.
fn connect(address: SocketAddr) -> Job {
    let rows = approxlib::Group::new(Table::ROWS_GROUP).msr(0.9).messages(ROWS);
    let rows = rows.order(Order::Shuffled { buffer: None });
    let groups = [rows, approxlib::Group::new(Table::HEADER_GROUP).messages(1)];
    Job::builder().control_socket(None).groups(groups).connect(address).unwrap()
}

/// Sends a part of the rows. They have arrived.
fn begin(address: SocketAddr) -> Job {
    let mut job = connect(address);
    job.send_in(Table::HEADER_GROUP, b"v\n").unwrap();
    for _ in 0..BEFORE {
        job.send_in(Table::ROWS_GROUP, b"2\n").unwrap();
    }
    let began = Instant::now();
    while job.progress().delivered < 1 + BEFORE {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", job.progress());
        thread::sleep(Duration::from_millis(5));
    }
    job
}
