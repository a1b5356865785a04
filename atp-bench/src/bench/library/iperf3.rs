//! iperf3: one TCP stream with CUBIC.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::endpoint::{Sink, Stream, print_ready};
use super::tally::Tally;
use testbed::{Process, Signal};

/// The port of iperf3, free in the benchmark's own namespace.
const PORT: u16 = 5201;
/// The time limit for a server to listen.
const START_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// The state `TCP_LISTEN` in /proc/net/tcp.
const LISTENS: &str = "0A";

/// Sends for the given time, rounded up to whole seconds as iperf3 requires.
pub fn send(stream: &Stream) -> Result<Tally> {
    let mut command = iperf3();
    command.args(["--client", &stream.to.ip().to_string()]);
    command.args(["--port", &stream.to.port().to_string()]);
    command.args(["--time", &stream.seconds.ceil().to_string()]);
    command.args(["--length", &stream.bytes.to_string(), "--congestion", "cubic"]);
    let Sum { bytes, seconds } = run(command, || Ok(()))?.sum_sent;
    Ok(Tally { bytes, active_s: seconds, ..Tally::default() })
}

/// Receives one stream.
pub fn receive(sink: &Sink) -> Result<Tally> {
    let mut command = iperf3();
    command.args(["--server", "--one-off", "--bind", &sink.at.ip().to_string()]);
    command.args(["--port", &PORT.to_string()]);
    let mut at = sink.at;
    at.set_port(PORT);
    let ready = || {
        wait_until_it_listens()?;
        print_ready(at)
    };
    let Sum { bytes, seconds } = run(command, ready)?.sum_received;
    Ok(Tally { bytes, active_s: seconds, ..Tally::default() })
}

fn iperf3() -> Command {
    let mut command = Command::new("iperf3");
    command.arg("--json");
    command
}

/// Runs iperf3 to its end; calls `started` once it runs.
fn run(mut command: Command, started: impl FnOnce() -> Result<()>) -> Result<End> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::spawn(command, Signal::SIGKILL)?;
    let mut output = process.child().stdout.take().context("its output was piped")?;
    started()?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    let status = process.child().wait()?;
    if !status.success() && text.is_empty() {
        bail!("iperf3 failed ({status})");
    }
    parse(&text)
}

/// The end of iperf3's JSON output.
#[derive(Debug, PartialEq, Deserialize)]
struct End {
    sum_sent: Sum,
    sum_received: Sum,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Sum {
    bytes: u64,
    seconds: f64,
}

fn parse(text: &str) -> Result<End> {
    #[derive(Deserialize)]
    struct Said {
        error: Option<String>,
        end: serde_json::Value,
    }
    let said: Said = serde_json::from_str(text).context("iperf3's output is not JSON")?;
    if let Some(error) = said.error {
        bail!("iperf3: {error}");
    }
    serde_json::from_value(said.end).context("iperf3's output has no results")
}

/// Reads the kernel's table: a test connection would use up the one stream that iperf3 serves.
fn wait_until_it_listens() -> Result<()> {
    let started = Instant::now();
    while !is_listening(&fs::read_to_string("/proc/net/tcp")?) {
        if started.elapsed() > START_MAX {
            bail!("iperf3 did not listen within {START_MAX:?}");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Whether a program listens at the port. The second word of a line is the local address, and the
/// fourth the state.
fn is_listening(sockets: &str) -> bool {
    let port = format!(":{PORT:04X}");
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1).step_by(2);
        words.next().is_some_and(|local| local.ends_with(&port)) && words.next() == Some(LISTENS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse__takes_the_sums_or_the_error() {
        let said = r#"{"start": {}, "end": {"streams": [],
            "sum_sent": {"start": 0, "end": 1.5, "seconds": 1.5, "bytes": 300, "sender": true},
            "sum_received": {"seconds": 1.25, "bytes": 200, "bits_per_second": 1280.0}}}"#;
        let sum = |bytes, seconds| Sum { bytes, seconds };
        let expected = End { sum_sent: sum(300, 1.5), sum_received: sum(200, 1.25) };
        assert_eq!(parse(said).unwrap(), expected);
        let error = parse(r#"{"end": {}, "error": "no route"}"#).unwrap_err();
        assert_eq!(error.to_string(), "iperf3: no route");
        assert!(parse("").is_err() && parse(r#"{"end": {}}"#).is_err());
    }

    #[test]
    fn is_listening__at_the_port_in_that_state() {
        let header = "  sl  local_address rem_address   st tx_queue rx_queue";
        let line = |port, state| {
            format!("{header}\n   0: 0200A70A:{port} 00000000:0000 {state} 00000000:00000000 00")
        };
        assert!(is_listening(&line("1451", "0A")));
        assert!(!is_listening(&line("1451", "01")));
        assert!(!is_listening(&line("1452", "0A")));
        assert!(!is_listening(header));
    }
}
