//! What the program says to people: refusals in a sentence, files that tell how they were made.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-sim"));
    command.args(words);
    command
}

fn output(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const SMALL: [&str; 5] = ["run", "--network", "leaf-spine:2,3,2", "--duration-us", "60"];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn run__refuses_in_a_sentence() {
    for (words, about) in [
        (&["--load", "-1"][..], "0.001 to 10"),
        (&["--load", "nan"], "0.001 to 10"),
        (&["--seed", "-1"], "whole number from 0"),
        (&["--msr", "2"], "above 0 and up to 1"),
        (&["--buffer", "12k"], "whole number from 10000"),
        (&["--gbit", "0"], "1 to 400"),
        (&["--slow-hosts", "0.5"], "SHARE:TIMES"),
        (&["--slow-hosts", "0.5:1"], "says nothing here"),
        (&["--slow-hosts", "0:4"], "says nothing here"),
        (&["--slow-links", "0.01:4"], "says nothing here"),
        (&["--pattern", "incast:6"], "6 senders"),
        (&["--profile", "no/such"], "no/such"),
        (&["--profile", "/dev/zero"], "longer than"),
        (&["--sizes", "/dev/zero"], "longer than"),
        (&["--trace", "/dev/zero"], "longer than"),
        (&["--trace", "/dev/null"], "no message in it"),
        (&["--trace", "x", "--load", "1"], "cannot be used with"),
        (&["--coflows", "x", "--pattern", "incast"], "cannot be used with"),
        (&["--trace", "x", "--coflows-first", "3"], "cannot be used with"),
        (&["--vector-bytes", "9"], "says nothing here"),
        (&["--exact", "1", "--msr", "0.5"], "says nothing here"),
        (&["--scheme", "udp", "--packet-limits"], "says nothing here"),
        (&["--scheme", "atp:base:frugal"], "write atp:base"),
        (&["--msr", "1", "--scheme", "udp,atp:base:pi:-evaluate-late"], "write atp:base"),
        (&["--json", "no/such/file"], "no/such/file"),
    ] {
        let output = output(&small(words));
        let said = said(&output);
        assert!(!output.status.success() && said.contains(about), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
        let cause = "No such file or directory (os error 2)";
        assert!(said.matches(cause).count() <= 1, "{said}");
    }
}

/// The file, the line, and what is expected there.
#[test]
fn run__a_table_of_sizes_without_a_mean_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sizes.txt");
    for mean in ["0", "-3", "inf", "nan"] {
        std::fs::write(&path, format!("# bytes\n{mean}\n10 1\n")).unwrap();
        let output = output(&small(&["--sizes", path.to_str().unwrap()]));
        let said = said(&output);
        assert!(!output.status.success() && said.contains("sizes.txt"), "{said}");
        assert!(said.contains(&format!("line 2: \"{mean}\": expected the mean")), "{said}");
    }
}

/// The line under the table says what was run: files by their names, durations where they matter.
#[test]
fn run__its_caption_names_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(&path, text).unwrap();
        path
    };
    let trace = write("trace.txt", "0 1 0 300\n");
    let sizes = write("sizes.txt", "15\n10 0\n20 1\n");
    let coflows = write("coflows.txt", "3 1\n1 0 1 0 1 2:1\n");
    for (words, expected) in [
        (&["--duration-us", "60"][..], "fbkv at load 0.6 for 60 us".to_owned()),
        (&["--duration-us", "60", "--sizes", "500"], "500 bytes at load 0.6 for 60 us".to_owned()),
        (&["--duration-us", "60", "--sizes", &sizes], format!("{sizes} at load 0.6 for 60 us")),
        (&["--trace", &trace], format!("messages of {trace}")),
        (
            &["--coflows", &coflows, "--load", "0.1"],
            format!("coflows of {coflows}, messages of fbkv at load 0.1 for 1000 us"),
        ),
        (
            &["--pattern", "ring-allreduce", "--sizes", "1400", "--vector-bytes", "9000"],
            "ring all-reduce of 9000 bytes, messages of 1400 bytes".to_owned(),
        ),
    ] {
        let output = output(&[&["run", "--network", "star:4", "--scheme", "udp"], words].concat());
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let expected = format!("\nstar:4 (4 hosts), {expected}, MSR 0.5, seed 1\n");
        assert!(text.contains(&expected), "{expected}{text}");
    }
}

/// Messages of 100 KB at a thousandth of a line's rate: none comes in a microsecond.
#[test]
fn run__nothing_to_send_is_no_success() {
    let words = ["run", "--network", "star:4", "--duration-us", "1", "--sizes", "100000"];
    let output = output(&[&words[..], &["--load", "0.001"]].concat());
    assert!(!output.status.success() && said(&output).contains("no message"));
}

/// 0.95 of 19 messages, rounded up, is 19, and of 20 it is 19.
#[test]
fn run__jobs_too_small_for_their_sampling_rate_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    let lines = |from: u32, number| format!("{from} {from} 0 100\n").repeat(number);
    std::fs::write(&path, lines(1, 19) + &lines(2, 20) + &lines(3, 2)).unwrap();
    let note = |msr| {
        let words = ["run", "--network", "star:4", "--scheme", "atp", "--msr", msr, "--trace"];
        let output = output(&[&words[..], &[path.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", said(&output));
        said(&output).lines().find(|line| line.contains("need all")).map(str::to_owned)
    };
    let expected = "note: 2 of 3 jobs need all of their messages: at MSR 0.95 a job of fewer than 20 can spare none";
    assert_eq!(note("0.95").as_deref(), Some(expected));
    assert!(note("0.5").is_none() && note("1").is_none());
}

/// The words that made a file make it again.
#[test]
fn run__its_json_says_how_to_run_it_again() {
    let json = |words: &[&str]| -> Value {
        let output = output(words);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let mut first = json(&small(&["--scheme", "atp,udp", "--exact", "0.3", "--json", "-"]));
    let settings = &first["settings"];
    assert_eq!((&settings["hosts"], &settings["duration_us"]), (&6.into(), &60.0.into()));
    assert_eq!((&settings["pattern"], &settings["sizes"]), (&"random".into(), &"fbkv".into()));
    let words = first["command"].as_array().unwrap().clone();
    let words: Vec<&str> = words.iter().skip(1).map(|word| word.as_str().unwrap()).collect();
    let mut again = json(&words);
    for document in [&mut first, &mut again] {
        for scheme in document["schemes"].as_array_mut().unwrap() {
            assert!(scheme["wall_s"].take().is_number());
        }
    }
    assert_eq!(first, again);
    assert_eq!(first["schemes"][1]["scheme"], "udp");
    assert!(first["schemes"][0]["summary"]["completion"]["mean_us"].is_number());
}

/// Whose job it is, as the trace has it.
#[test]
fn run__its_json_names_the_hosts_of_each_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    std::fs::write(&path, "0 2 0 300\n1 0 3 500\n2 2 0 100\n").unwrap();
    let words = ["run", "--network", "star:4", "--scheme", "udp", "--json", "-", "--trace"];
    let output = output(&[&words[..], &[path.to_str().unwrap()]].concat());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let jobs = json["schemes"][0]["jobs"].as_array().unwrap().iter();
    let ends: Vec<[&Value; 3]> =
        jobs.map(|job| ["source", "destination", "messages"].map(|name| &job[name])).collect();
    assert_eq!(ends, [[0, 3, 1], [2, 0, 2]]);
}

#[test]
fn run__ends_without_words_when_nobody_reads() {
    let mut child = command(&small(&["--scheme", "udp"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert!(!said(&output).contains("pipe"), "{}", said(&output));
}

#[test]
fn figure__quick_says_that_it_is_quick() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let output = output(&["figure", "14", "--quick", "--out", path]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("quick: "));
    let text = std::fs::read_to_string(folder.path().join("figure-14.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["extent"], &json["settings"]["hosts"]), (&"quick".into(), &12.into()));
}

/// A map of messages as they are chosen, which maps that vary their lengths can't be.
#[test]
fn map__has_the_sizes_that_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = ["--quick", "--out", path, "--sizes", "3000"];
    assert!(output(&[&["map", "fan-in"], &words[..]].concat()).status.success());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("map-fan-in.json")).unwrap();
    assert_eq!(json["settings"]["sizes"], "3000");
    assert!(read("map-fan-in.svg").contains("messages of 3000 bytes"));
    for map in ["message-size", "spread", "msr-spread"] {
        let refused = output(&[&["map", map], &words[..]].concat());
        assert!(!refused.status.success(), "{map}");
        assert!(said(&refused).contains("--sizes says nothing here"), "{}", said(&refused));
    }
}

#[test]
fn map__refuses_messages_that_would_take_hours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("maps");
    let words = ["map", "--quick", "--out", path.to_str().unwrap(), "--sizes", "67108864"];
    let output = output(&words);
    assert!(
        !output.status.success() && said(&output).contains("up to 10000000"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("not message-size, spread, msr-spread"), "{}", said(&output));
    assert!(!path.exists());
}

#[test]
fn figure__draw_says_when_nothing_can_be_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures");
    let draw = |number| output(&["figure", number, "--draw", "--out", path.to_str().unwrap()]);
    let refused = draw("10");
    assert!(!refused.status.success() && refused.stdout.is_empty() && !path.exists());
    assert!(said(&refused).contains("without --draw"), "{}", said(&refused));
    let plain = said(&draw("14"));
    assert!(plain.contains("for N = 14: run") && !plain.contains("quick"), "{plain}");
    std::fs::create_dir_all(path.join("quick")).unwrap();
    std::fs::write(path.join("quick/figure-14.json"), "{}").unwrap();
    let hint = format!("or choose --out {}", path.join("quick").display());
    assert!(said(&draw("14")).contains(&hint), "{}", said(&draw("14")));
}

/// What is there is drawn, whatever else is missing; what isn't is named once all is done.
#[test]
fn figure__draw_goes_on_past_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(output(&["figure", "14", "--quick", "--out", path]).status.success());
    std::fs::remove_file(folder.path().join("figure-14.svg")).unwrap();
    std::fs::write(folder.path().join("figure-6.json"), "{").unwrap();
    let output = output(&["figure", "all", "--draw", "--out", path]);
    let said = said(&output);
    assert!(!output.status.success() && folder.path().join("figure-14.svg").exists(), "{said}");
    assert!(said.contains("for N = 5, 7, 8, 9, 11, 12, 13: run"), "{said}");
    assert!(said.contains("figure-6.json: EOF") && said.trim_end().lines().count() == 1, "{said}");
}
