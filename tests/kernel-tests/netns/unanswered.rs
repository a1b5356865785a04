//! Tests jobs that nothing answers: they end at their timeout, and don't flood the network.

use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use testbed::{DEVICE, Daemon, Family, Finished, Load, PORT, Pair, Process, Sending, Signal};

crate::trials! {
    send__neighbor_that_never_answers,
    send__neighbor_that_never_answers_without_a_daemon,
    send__black_hole,
    send__closed_port_gets_few_packets,
}

const LOAD: Load = Load::lines(10, 100);
const TIMEOUT_S: f64 = 2.0;
/// Less than the default of 10 s. The sender measures the silence itself, and looks at it when the
/// timeout is due. So 7 s more need a thread that is ready for as long, which takes 2,000 others
/// with slices of 3 ms on its core. The transport doesn't even count an own absence above 2 s.
const SILENCE_S_MAX: f64 = 9.0;

fn expect_silence(finished: &Finished, words: &str) -> Result<()> {
    let error = finished.stderr.lines().last().unwrap_or_default();
    ensure!(finished.status.code() == Some(1), "{}", finished.stderr);
    let told = error.split_once("did not answer for ").and_then(|(_, rest)| rest.split_once(" s"));
    let silence_s: f64 = told.with_context(|| error.to_owned())?.0.parse()?;
    ensure!((TIMEOUT_S..SILENCE_S_MAX).contains(&silence_s), "{error}");
    ensure!(error.contains(words), "{error}");
    Ok(())
}

/// The kernel would ask for the link address for hours. So a job that waits for its answer, instead
/// of the timeout, doesn't end within this test.
fn never_ask_in_vain(pair: &Pair) -> Result<()> {
    for family in ["ipv4", "ipv6"] {
        pair.a.namespace.set(&format!("net/{family}/neigh/{DEVICE}/mcast_solicit"), "100000")?;
    }
    Ok(())
}

fn absent(family: Family) -> SocketAddr {
    let address = if family == Family::V4 { "10.99.0.77:4747" } else { "[fd99::77]:4747" };
    address.parse().expect("a literal address")
}

fn send__neighbor_that_never_answers() -> Result<()> {
    let pair = Pair::new()?;
    never_ask_in_vain(&pair)?;
    for law in ["paper", "polite"] {
        let a = pair.a.daemon(&["--law", law])?;
        for family in [Family::V4, Family::V6] {
            let options = ["--timeout", "2s", "--msr", "0.8"];
            let sending = Sending::start(&pair.a, &a, absent(family), LOAD, &options)?;
            expect_silence(&sending.end()?, "0 of 8")?;
        }
        let stats = a.stats()?;
        ensure!(stats.jobs.is_empty() && stats.lanes.is_empty(), "left over: {stats:?}");
        a.stop()?;
    }
    Ok(())
}

fn send__neighbor_that_never_answers_without_a_daemon() -> Result<()> {
    let pair = Pair::new()?;
    never_ask_in_vain(&pair)?;
    let file = pair.a.folder().join("messages");
    LOAD.write(&file)?;
    for family in [Family::V4, Family::V6] {
        let mut command = pair.a.atp()?;
        command.args(["send", &absent(family).to_string(), "--timeout", "2s"]);
        command.args(["--msr", "0.8", "--file"]).arg(&file);
        let finished = Process::captured("the sender", command)?.end(testbed::TIMEOUT)?;
        expect_silence(&finished, "0 of 8")?;
    }
    Ok(())
}

/// Packets leave, and nothing comes back.
fn send__black_hole() -> Result<()> {
    let pair = Pair::new()?;
    pair.b.namespace.run(&format!("ip route add blackhole {}/32", pair.a.ipv4))?;
    pair.b.namespace.run(&format!("ip -6 route add blackhole {}/128", pair.a.ipv6))?;
    let a = pair.a.daemon(&[])?;
    for family in [Family::V4, Family::V6] {
        let to = pair.b.endpoint(family, PORT);
        let options = ["--timeout", "2s", "--msr", "0.8"];
        let finished = Sending::start(&pair.a, &a, to, LOAD, &options)?.end()?;
        expect_silence(&finished, "0 of 8")?;
    }
    Ok(())
}

/// Law `paper` would send at its full rate until the timeout: 24,000 packets of these.
fn send__closed_port_gets_few_packets() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&["--law", "paper", "--rate-max", "100mbit"])?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let options = ["--timeout", "2s", "--msr", "0.5", "--no-packing"];
    let finished = Sending::start(&pair.a, &a, to, Load::lines(20_000, 1_000), &options)?.end()?;
    expect_silence(&finished, "nothing listens there")?;
    // Those that were in the socket when the answer came, 2 ms at this rate, and one for each
    // pause, which grow to half a second. A job that takes a minute has 120 of them.
    let packets = paced(&a)?;
    ensure!(packets < 1_000, "{packets} packets left");
    a.stop_by(Signal::SIGTERM)
}

fn paced(daemon: &Daemon) -> Result<u64> {
    daemon.counter("paced").context("no counter of packets")
}
