//! The Wireshark dissector and `atp-user decode` against a capture with packets of every kind.

use anyhow::{Context, Result, ensure};
use atp_common::{
    units::Msr,
    wire::{
        EpochArrivals, FIN_BODY_LEN_MAX, Fields, FinBody, FinGroup, Flags, GroupName, Header, Kind,
        Order, ProbeBody, REQUEST_BODY_LEN_MAX, ReceiptBody, ReceiptWord, RequestBody,
        TERMS_BODY_LEN_MAX, TermsBody, TermsGroup, member_header,
    },
};
use etherparse::PacketBuilder;
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus, Output, Stdio},
};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = match Command::new("tshark").arg("--version").output() {
        Ok(_) => None,
        Err(error) => Some(format!("needs tshark: can't run it: {error}")),
    };
    let dissector: [(&str, Test); 7] = [
        ("dissector__reads_what_was_written", dissector__reads_what_was_written),
        ("dissector__reads_packed_packets_as_decode_does", dissector__reads_packed_packets),
        ("dissector__reads_an_ack_s_time_of_arrival", dissector__reads_an_ack_s_time_of_arrival),
        ("dissector__prints_the_header_as_the_library_does", dissector__prints_the_header),
        ("dissector__reports_malformed_packets", dissector__reports_malformed_packets),
        ("dissector__recognizes_only_valid_headers", dissector__recognizes_only_valid_headers),
        ("dissector__prints_truncated_packets_as_decode_does", dissector__prints_truncated_packets),
    ];
    let decode: [(&str, Test); 2] = [
        ("decode__agrees_with_what_was_written", decode__agrees),
        ("decode__ends_when_its_output_does", decode__ends_when_its_output_does),
    ];
    let decode = decode.map(|(name, test)| trial(name, test, None, &arguments));
    let dissector = dissector.map(|(name, test)| trial(name, test, missing.as_deref(), &arguments));
    let trials = decode.into_iter().chain(dissector).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Test = fn() -> Result<()>;

/// A test. If something is missing it counts as ignored, and says why for the count of skips.
fn trial(name: &'static str, test: Test, missing: Option<&str>, arguments: &Arguments) -> Trial {
    let runner = move || test().map_err(|error| Failed::from(format!("{error:#}")));
    let trial = Trial::test(name, runner).with_ignored_flag(missing.is_some());
    if let Some(reason) = missing
        && !arguments.list
        && !arguments.is_filtered_out(&trial)
    {
        println!("skipped: {name}: {reason}");
    }
    trial
}

/// A UDP payload, with the header in it.
struct Written {
    header: Header,
    payload: Vec<u8>,
}

impl Written {
    fn new(kind: Kind, flags: Flags, body: &[u8]) -> Self {
        let number = kind as u32;
        let header = Header::new(&Fields {
            kind,
            flags,
            group: 200 + kind as u8,
            job: 4_000_000_000 + number,
            cookie: 0xdead_bee0 + number,
            message: 3_000_000_000 + number,
            index: 70_000 + number,
            count: 200_000 + number,
            epoch: if kind == Kind::Reset { 3 } else { 60_000 + kind as u16 },
            slot: 0xffff_ff80,
            time: 2_900_000_000 + number,
        });
        let header = header.with_segmentation(33);
        Self { header, payload: [&header.as_bytes()[..], body].concat() }
    }
}

const WORDS: [ReceiptWord; 2] = [
    ReceiptWord { group: 7, index: 9, bits: 0x8000_0000_0000_0001 },
    ReceiptWord { group: 8, index: 0xff_ffff, bits: 2 },
];
const GROUPS: [FinGroup; 2] = [
    FinGroup { group: 1, messages: 50, needed: 40, delivered: 41 },
    FinGroup { group: 255, messages: 5, needed: 5, delivered: 4 },
];

/// Terms of two groups.
fn terms() -> [TermsGroup; 2] {
    let name = |name| GroupName::new(name).expect("a short name");
    let msr = Msr::from_parts_per_billion(900_000_000).expect("below one");
    let known = TermsGroup {
        group: 1,
        exact: true,
        messages: Some(40),
        msr,
        order: Order::Ordered,
        shortest_first: false,
        name: name("first"),
    };
    let unknown = TermsGroup {
        group: 255,
        exact: false,
        messages: None,
        msr: Msr::NONE,
        order: Order::ShuffledAmong { log2_messages: 10 },
        shortest_first: true,
        name: name("second"),
    };
    [known, unknown]
}

/// One packet of each kind, by number.
fn every_kind() -> Vec<Written> {
    let probe = ProbeBody::default();
    let mut probe_ack = probe;
    probe_ack.set_word(0, 0x8000_0003);
    probe_ack.set_word(7, 1);
    probe_ack.set_epoch(2, EpochArrivals { epoch: 6, arrived: 100, marked: 3 });
    let mut receipt = [0; 12 + 2 * 12];
    ReceiptBody::write(&mut receipt, 11, 12, 13, &WORDS).expect("the buffer fits");
    let mut fin = [0; FIN_BODY_LEN_MAX];
    let fin_len = FinBody::write(&mut fin, 14, &GROUPS).expect("the buffer fits");
    let data_flags = Flags::RETRANSMIT.with(Flags::BACKLOGGED).with(Flags::NO_ACK);
    let ack_flags = Flags::CONGESTION.with(Flags::ORDERED);
    let mut terms_body = [0; TERMS_BODY_LEN_MAX];
    let terms_len =
        TermsBody::write(&mut terms_body, 15, 16, terms().into_iter()).expect("it fits");
    let mut request = [0; REQUEST_BODY_LEN_MAX];
    let rates = [(17, Msr::EXACT)].into_iter();
    let request_len = RequestBody::write(&mut request, true, rates).expect("it fits");
    let kinds: [(Flags, &[u8]); 10] = [
        (data_flags, b"message"),
        (ack_flags, &[0, 0, 0, 77]),
        (Flags::NONE, probe.as_bytes()),
        (Flags::NONE, &receipt),
        (Flags::FORCED, &fin[..fin_len]),
        (Flags::MORE.with(Flags::ENDED), &fin[..fin_len]),
        (Flags::NONE, &[]),
        (Flags::NONE, probe_ack.as_bytes()),
        (Flags::NONE, &terms_body[..terms_len]),
        (Flags::NONE, &request[..request_len]),
    ];
    let pairs = Kind::ALL.into_iter().zip(kinds);
    pairs.map(|(kind, (flags, body))| Written::new(kind, flags, body)).collect()
}

/// A packed packet of two messages, with padding.
fn packed() -> Written {
    let header = Header::new(&Fields {
        flags: Flags::PACKED,
        group: 1,
        job: 2,
        cookie: 3,
        message: 40,
        count: 2,
        epoch: 5,
        slot: 6,
        time: 7,
        ..Fields::of(Kind::Data)
    });
    let body = [&member_header(40, 3)[..], b"abc", &member_header(39, 0), b"pad"].concat();
    Written { header, payload: [&header.as_bytes()[..], &body].concat() }
}

/// The dissector's default port.
const PORT: u16 = 4747;
/// A port on which only the dissector's heuristic accepts packets.
const OTHER_PORT: u16 = 50_000;

/// [`capture_on`] both ports in turn.
fn capture(payloads: &[Vec<u8>]) -> Result<(tempfile::TempDir, PathBuf)> {
    capture_on([PORT, OTHER_PORT], 0, payloads)
}

/// A pcap file with these UDP payloads, in a folder of its own. The packets go to the ports in
/// turn. The capture lacks the last `missing` bytes of each packet.
fn capture_on(
    ports: [u16; 2],
    missing: usize,
    payloads: &[Vec<u8>],
) -> Result<(tempfile::TempDir, PathBuf)> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
    for (second, payload) in payloads.iter().enumerate() {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let builder = ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let port = ports[second % 2];
        let mut packet = Vec::new();
        builder.udp(40_000, port).write(&mut packet, payload)?;
        let captured = packet.len() - missing;
        let lengths = [captured as u32, packet.len() as u32];
        file.extend([second as u32, 0].into_iter().chain(lengths).flat_map(u32::to_le_bytes));
        file.extend(&packet[..captured]);
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("atp.pcap");
    std::fs::write(&path, file)?;
    Ok((folder, path))
}

/// Runs tshark with the dissector; one row per packet, one column per field.
fn tshark(path: &Path, fields: &[&str]) -> Result<Vec<Vec<String>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/wireshark/atp.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    command.arg("-r").arg(path).args(["-T", "fields", "-E", "aggregator=,"]);
    // Another configuration could change ports and formats.
    command.env("HOME", path.parent().unwrap_or(path)).env_remove("XDG_CONFIG_HOME");
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().context("tshark")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tshark ended with {}: {stderr}", output.status);
    ensure!(!stderr.contains("Lua"), "the dissector failed: {stderr}");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn payloads(written: &[Written]) -> Vec<Vec<u8>> {
    written.iter().map(|written| written.payload.clone()).collect()
}

fn dissector__reads_what_was_written() -> Result<()> {
    let written = every_kind();
    let (_folder, path) = capture(&payloads(&written))?;
    let header_fields = [
        "approx.kind",
        "approx.flags",
        "approx.group",
        "approx.job",
        "approx.cookie",
        "approx.message",
        "approx.index",
        "approx.count",
        "approx.segmentation",
        "approx.epoch",
        "approx.slot",
        "approx.time",
        "approx.malformed",
    ];
    let rows = tshark(&path, &header_fields)?;
    ensure!(rows.len() == written.len(), "{} rows", rows.len());
    for (row, Written { header, .. }) in rows.iter().zip(&written) {
        let expected = [
            format!("{}", header.as_bytes()[1] & 0xf),
            format!("0x{:02x}", header.as_bytes()[2]),
            header.group().to_string(),
            header.job().to_string(),
            format!("0x{:08x}", header.cookie()),
            header.message().to_string(),
            header.index().to_string(),
            header.count().to_string(),
            header.segmentation().to_string(),
            header.epoch().to_string(),
            header.slot().to_string(),
            header.time().to_string(),
            String::new(),
        ];
        ensure!(*row == expected, "{header}: {row:?} instead of {expected:?}");
    }
    let body_fields = [
        "approx.data",
        "approx.receipt.cumulative",
        "approx.receipt.delivered",
        "approx.receipt.packets_arrived",
        "approx.receipt.word.group",
        "approx.receipt.word.index",
        "approx.receipt.word.bits",
        "approx.fin.window",
        "approx.fin.group",
        "approx.fin.messages",
        "approx.fin.needed",
        "approx.fin.delivered",
        "approx.reset.reason",
        "approx.probe.word",
        "approx.probe.epoch",
        "approx.probe.arrived",
        "approx.probe.marked",
        "approx.terms.window",
        "approx.terms.answered",
        "approx.terms.group",
        "approx.terms.messages",
        "approx.terms.msr",
        "approx.terms.name",
        "approx.request.end",
        "approx.request.group",
        "approx.request.msr",
        "approx.flags.retransmit",
        "approx.flags.no_ack",
    ];
    let fin = ["14", "1,255", "50,5", "40,5", "41,4"];
    let zeroes = ["0x00000000"; 8].join(",");
    let bits = format!("0x80000003,{},0x00000001", ["0x00000000"; 6].join(","));
    let words = "0x8000000000000001,0x0000000000000002";
    let bodies: [(usize, &[&str]); 10] = [
        (0, &["6d657373616765"]),
        (0, &[]),
        (13, &[&zeroes, "0,0,0,0", "0,0,0,0", "0,0,0,0"]),
        (1, &["11", "12", "13", "7,8", "9,16777215", words]),
        (7, &fin),
        (7, &fin),
        (12, &["3"]),
        (13, &[&bits, "0,0,6,0", "0,0,100,0", "0,0,3,0"]),
        (17, &["15", "16", "1,255", "40,0", "900000000,0", "first,second"]),
        (23, &["1", "17", "1000000000"]),
    ];
    for ((row, written), (first, values)) in
        tshark(&path, &body_fields)?.iter().zip(&written).zip(bodies)
    {
        let mut expected = vec![String::new(); body_fields.len() - 2];
        for (field, value) in expected[first..].iter_mut().zip(values) {
            *field = (*value).to_owned();
        }
        for flag in [Flags::RETRANSMIT, Flags::NO_ACK] {
            expected.push(u8::from(written.header.flags().contains(flag)).to_string());
        }
        ensure!(*row == expected, "{}: {row:?} instead of {expected:?}", written.header);
    }
    Ok(())
}

fn dissector__reads_packed_packets() -> Result<()> {
    let packed = packed();
    let (_folder, path) = capture(std::slice::from_ref(&packed.payload))?;
    let fields = [
        "approx.packed.message",
        "approx.packed.length",
        "approx.data",
        "approx.packed.padding",
        "approx.flags.packed",
        "approx.flags.forced",
        "_ws.col.Info",
    ];
    let info = format!("{}, 18 bytes, messages 40:3 39:0", packed.header);
    let rows = tshark(&path, &fields)?;
    ensure!(rows == [["40,39", "3,0", "616263", "706164", "1", "", &info]], "{rows:?}");
    let name = path.to_str().context("a temporary folder has a plain name")?;
    let text = String::from_utf8(decode(&[name])?.stdout)?;
    ensure!(text.ends_with(&format!(": {info}\n")), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&decode(&[name, "--json"])?.stdout)?;
    ensure!(json["messages"][1]["message"] == 39 && json["messages"][0]["bytes"] == 3, "{json}");
    ensure!(json["data_bytes"] == 18 && json["flags"][0] == "PACKED", "{json}");
    Ok(())
}

fn dissector__reads_an_ack_s_time_of_arrival() -> Result<()> {
    let flags = Flags::CONGESTION;
    let bodies: [&[u8]; 4] = [&[], &[0, 0, 0, 77], &[0, 0, 0, 77, 1], &[1, 2]];
    let written = bodies.map(|body| Written::new(Kind::Ack, flags, body));
    let (_folder, path) = capture(&payloads(&written))?;
    let rows = tshark(&path, &["approx.ack.arrived", "approx.malformed"])?;
    let found: Vec<_> = rows.iter().map(|row| (&*row[0], row[1].is_empty())).collect();
    // Of earlier versions, of this one, of later ones, and malformed.
    ensure!(found == [("", true), ("77", true), ("77", true), ("", false)], "{rows:?}");
    Ok(())
}

fn dissector__prints_the_header() -> Result<()> {
    let mut written = every_kind();
    // Every reason of a RESET, and two unknown ones.
    written.extend((0..=8).map(|reason| {
        let header = Header::new(&Fields {
            group: 1,
            job: 2,
            cookie: 3,
            message: 4,
            epoch: reason,
            slot: 5,
            time: 6,
            ..Fields::of(Kind::Reset)
        });
        Written { header, payload: header.as_bytes().to_vec() }
    }));
    let (_folder, path) = capture(&payloads(&written))?;
    let lines = tshark(&path, &["_ws.col.Protocol", "_ws.col.Info"])?;
    for (line, Written { header, .. }) in lines.iter().zip(&written) {
        let header = header.to_string();
        let [protocol, info] = &line[..] else { anyhow::bail!("{line:?}") };
        ensure!(protocol == "ATP" && info.starts_with(&header), "{info:?}, not {header:?}");
    }
    ensure!(lines.len() == written.len(), "{lines:?}");
    Ok(())
}

/// The dissector and the library refuse the same packets.
fn dissector__reports_malformed_packets() -> Result<()> {
    let written = payloads(&every_kind());
    let [_, ack, probe, receipt, fin, ..] = &written[..] else { anyhow::bail!("eight kinds") };
    let packed = packed().payload;
    let invalid = invalid_headers(&written);
    ensure_malformed(&invalid, capture_on([PORT; 2], 0, &invalid)?)?;
    let malformed = [
        ack[..33].to_vec(),
        probe[..111].to_vec(),
        receipt[..receipt.len() - 1].to_vec(),
        fin[..fin.len() - 1].to_vec(),
        changed(fin, 36 + 1, 1),
        changed(fin, 36 + 8, 1),
        changed(fin, 36 + 16, 0),
        changed(&packed, 19, 1),
        changed(&packed, 21, 3),
        changed(&packed, 35, 41),
        packed[..46].to_vec(),
    ];
    ensure_malformed(&malformed, capture(&malformed)?)?;
    // Foreign packets on the port aren't ATP.
    ensure_foreign(capture(&[b"foreign".to_vec(), vec![0xa7], Vec::new()])?)
}

/// On a port that isn't ATP's, a packet with an invalid header is of another protocol.
fn dissector__recognizes_only_valid_headers() -> Result<()> {
    let written = payloads(&every_kind());
    ensure_foreign(capture_on([OTHER_PORT; 2], 0, &invalid_headers(&written))?)?;
    let (_folder, path) = capture_on([OTHER_PORT; 2], 0, &written)?;
    let rows = tshark(&path, &["_ws.col.Protocol"])?;
    ensure!(rows.len() == Kind::ALL.len() && rows.iter().all(|row| row[0] == "ATP"), "{rows:?}");
    Ok(())
}

fn dissector__prints_truncated_packets() -> Result<()> {
    let mut written = payloads(&every_kind());
    // The captured part of each packet has its header.
    written.retain(|payload| payload.len() > 32 + 3);
    let (_folder, path) = capture_on([PORT, OTHER_PORT], 3, &written)?;
    let rows = tshark(&path, &["approx.malformed", "_ws.col.Info", "_ws.lua.error"])?;
    let output = decode(&[path.to_str().context("a temporary folder has a plain name")?])?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(rows.len() == written.len() && text.lines().count() == rows.len(), "{rows:?}, {text}");
    for (row, line) in rows.iter().zip(text.lines()) {
        let [malformed, info, error] = &row[..] else { anyhow::bail!("{row:?}") };
        ensure!(error.is_empty() && malformed.is_empty(), "{row:?}");
        ensure!(line.ends_with(&format!(": {info}")), "{info:?}, not {line:?}");
    }
    let ends = [", 7 bytes"].into_iter().chain([", the capture lacks 3 bytes"; 5]);
    ensure!(rows.iter().zip(ends).all(|(row, end)| row[1].ends_with(end)), "{rows:?}");
    // The capture lacks the end of the header.
    let header_only = every_kind()[0].payload[..32].to_vec();
    for (port, info) in [(PORT, true), (OTHER_PORT, false)] {
        let (_folder, path) = capture_on([port; 2], 1, std::slice::from_ref(&header_only))?;
        let rows = tshark(&path, &["approx.malformed", "_ws.col.Info", "_ws.lua.error"])?;
        let [row] = &rows[..] else { anyhow::bail!("{rows:?}") };
        ensure!(row[0].is_empty() && row[2].is_empty(), "{row:?}");
        let expected = "header not captured, the capture lacks 1 bytes";
        ensure!((row[1] == expected) == info, "{row:?}");
    }
    Ok(())
}

/// The payload with another byte.
fn changed(payload: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut payload = payload.to_vec();
    payload[at] = byte;
    payload
}

/// ATP packets with one error in the header each.
fn invalid_headers(written: &[Vec<u8>]) -> [Vec<u8>; 5] {
    let (data, probe) = (&written[0], &written[2]);
    [
        data[..31].to_vec(),
        changed(data, 1, 0x1f),
        changed(data, 2, 1),
        changed(data, 16, 255),
        changed(probe, 27, 1),
    ]
}

fn ensure_malformed(
    payloads: &[Vec<u8>],
    (_folder, path): (tempfile::TempDir, PathBuf),
) -> Result<()> {
    let rows = tshark(&path, &["approx.malformed", "_ws.col.Info", "_ws.lua.error"])?;
    ensure!(rows.len() == payloads.len(), "{rows:?}");
    for (number, row) in rows.iter().enumerate() {
        let [malformed, info, error] = &row[..] else { anyhow::bail!("{row:?}") };
        ensure!(error.is_empty() && !malformed.is_empty(), "packet {number}: {row:?}");
        ensure!(info.contains("malformed: "), "packet {number}: {info}");
    }
    Ok(())
}

fn ensure_foreign((_folder, path): (tempfile::TempDir, PathBuf)) -> Result<()> {
    let rows = tshark(&path, &["_ws.col.Protocol"])?;
    ensure!(!rows.is_empty() && rows.iter().all(|row| row[0] != "ATP"), "{rows:?}");
    Ok(())
}

/// Runs `atp-user decode`.
fn decode(options: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-user"));
    Ok(command.arg("decode").args(options).output()?)
}

/// `decode` ends without a word when its reader does, as in `decode FILE | head`.
fn decode__ends_when_its_output_does() -> Result<()> {
    let (_folder, path) = capture(&payloads(&every_kind()))?;
    let run = |stdout: Stdio| -> Result<(ExitStatus, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atp-user"));
        let child = command.arg("decode").arg(&path).stdout(stdout).stderr(Stdio::piped());
        let output = child.spawn()?.wait_with_output()?;
        Ok((output.status, String::from_utf8(output.stderr)?))
    };
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let (status, stderr) = run(writer.into())?;
    ensure!(status.code() == Some(141) && stderr.is_empty(), "{status}: {stderr}");
    let full = std::fs::File::options().write(true).open("/dev/full")?;
    let (status, stderr) = run(full.into())?;
    let error = "error: can't write to standard output: ";
    ensure!(stderr.lines().any(|line| line.starts_with(error)), "{stderr}");
    ensure!(status.code() == Some(1), "{status}");
    Ok(())
}

fn decode__agrees() -> Result<()> {
    let written = every_kind();
    let (_folder, path) = capture(&[payloads(&written), vec![b"foreign".to_vec()]].concat())?;
    let run = |options: &[&str]| -> Result<(bool, String, String)> {
        let output = decode(options)?;
        let (stdout, stderr) =
            (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        Ok((output.status.success(), stdout, stderr))
    };
    let name = path.to_str().context("a temporary folder has a plain name")?;
    let (success, text, counts) = run(&[name])?;
    ensure!(success && counts == "10 ATP packets, 1 other packets\n", "{counts}");
    let bodies = [
        ", 7 bytes",
        " arrived 77",
        "",
        ", cumulative 11 delivered 12 packets arrived 13, group 7 messages 576+0x8000000000000001, \
         group 8 messages 1073741760+0x2",
        ", window 14, group 1 delivered 41 needed 40 messages 50, \
         group 255 delivered 4 needed 5 messages 5",
        ", window 14, group 1 delivered 41 needed 40 messages 50, \
         group 255 delivered 4 needed 5 messages 5",
        "",
        ", 4 arrived 4294967168-4294967169 4294967199 96, epoch 6 arrived 100 marked 3",
        ", window 15 answered 16, group 1 \"first\" MSR 0.9 messages 40, group 255 \"second\" MSR 0",
        ", end, group 17 MSR 1",
    ];
    for (number, ((line, Written { header, .. }), body)) in
        text.lines().zip(&written).zip(bodies).enumerate()
    {
        let port = [PORT, OTHER_PORT][number % 2];
        let ends = format!("{number}.000000000 10.0.0.1:40000 > 10.0.0.2:{port}: ");
        ensure!(line == format!("{ends}{header}{body}"), "{line}");
    }
    let (_, json, _) = run(&[name, "--json", "--kind", "fin"])?;
    let fin: serde_json::Value = serde_json::from_str(&json)?;
    ensure!(fin["fin"]["groups"][1]["delivered"] == 4 && fin["flags"][0] == "FORCED", "{json}");
    let mut wifi = std::fs::read(&path)?;
    wifi[20] = 105;
    std::fs::write(&path, wifi)?;
    let (success, text, error) = run(&[name])?;
    let expected = "0 ATP packets, 11 other packets\nerror: ";
    ensure!(!success && text.is_empty() && error.starts_with(expected), "{error}");
    let ending = "link type 105, which is not supported: capture on Ethernet, `any` or raw IP\n";
    ensure!(error.ends_with(ending), "{error}");
    let (success, _, error) = run(&[env!("CARGO_MANIFEST_DIR")])?;
    ensure!(!success && error.starts_with("error: can't decode the capture"), "{error}");
    let (success, _, error) = run(&[&format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"))])?;
    ensure!(!success && error.lines().count() == 1, "{error}");
    ensure!(error.ends_with("neither a pcap nor a pcapng capture\n"), "{error}");
    Ok(())
}
