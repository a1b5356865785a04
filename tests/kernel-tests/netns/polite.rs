//! Tests fairness in a shared queue: lanes with the law `polite` (TFRC) take no more than a TCP
//! flow, and exact lanes react to a switch's marks.
//!
//! `beside_tcp` has the network of a job beside a flow.

use crate::beside_tcp::{missing_for_bbr, missing_for_cubic, shares_beside};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use testbed::{DEVICE, Family, Load, Namespace, Pair, Process, Star, Transfer, missing};

pub fn trials() -> Vec<libtest_mimic::Trial> {
    vec![
        crate::trial("yield__without_a_profile", missing, yield__without_a_profile),
        crate::trial("exact__gives_way_to_marks", missing_for_red, exact__gives_way_to_marks),
    ]
}

/// An emulated machine would take minutes, and would not fill the port.
pub fn not_emulated() -> Vec<libtest_mimic::Trial> {
    vec![
        crate::trial("polite__beside_cubic", missing_for_cubic, polite__beside_cubic),
        crate::trial("polite__beside_bbr", missing_for_bbr, polite__beside_bbr),
    ]
}

/// The marking port's queue.
const QUEUE_PACKETS: u32 = 50;
const LOAD: Load = Load::lines(1_000, 1_100);
/// A rate that an emulated machine beside other work exceeds: it sent 5,000 packets at less than
/// 20 Mbit/s.
const MARKING_RATE: &str = "2mbit";
/// RED that marks every packet behind more than 20 queued ones, and drops none before 260.
const MARKING: &str = "red limit 400000 min 30000 max 30001 avpkt 1500 burst 20 probability 1 \
                       bandwidth 2mbit ecn";

fn missing_for_red() -> Option<String> {
    // RED requires all of its options, so the test for it needs them too.
    let has_red = || Namespace::new()?.run(&format!("tc qdisc add dev lo root {MARKING}"));
    missing().or_else(|| has_red().is_err().then(|| "needs sch_red".to_owned()))
}

fn yield__without_a_profile() -> Result<()> {
    let pair = Pair::new()?;
    let (socket, state) = (pair.a.folder().join("atp.sock"), pair.a.folder().join("state"));
    let mut command = pair.a.atp()?;
    command.args(["run", "--iface", DEVICE, "--socket"]).arg(socket).arg("--state-dir").arg(state);
    command.arg("--object").arg(testbed::object()?);
    let mut daemon = Process::captured("a daemon without options", command)?;
    daemon.wait_until_it_says("ready")?;
    let log = daemon.stderr()?;
    let line = log.lines().find(|line| line.contains("assuming a network with one queue"));
    ensure!(line.is_some_and(|line| line.contains("yield")), "{log}");
    daemon.signal(Signal::SIGTERM)?;
    daemon.success().map(drop)
}

/// The paper's law relies on the switch's queues to protect other traffic. It must take a larger
/// share here, or this queue would be no test of the polite law.
fn polite__beside_cubic() -> Result<()> {
    let polite = share_beside("cubic", "polite")?;
    let paper = share_beside("cubic", "paper")?;
    expect_fair(polite, 0.2)?;
    // Beside two busy loops and builds (a load of 18) 2.4 times as much, with a standard deviation
    // of 0.2: the bound is six of them away, which a normal distribution passes in one of a
    // thousand million runs.
    ensure!(paper > 1.2 * polite, "the paper's law took {paper:.2}, the polite one {polite:.2}");
    Ok(())
}

fn polite__beside_bbr() -> Result<()> {
    expect_fair(share_beside("bbr", "polite")?, 0.02)
}

/// The share beside CUBIC is 0.8, and was 0.71 at a load of 18, with a standard deviation of 0.05:
/// both bounds are ten of them away. Beside BBR it was 0.3 to 0.5.
fn expect_fair(share: f64, least: f64) -> Result<()> {
    ensure!((least..=1.3).contains(&share), "the job used {share:.2} of its fair share");
    Ok(())
}

/// An exact lane finds the port's rate by a switch's marks, without losses.
fn exact__gives_way_to_marks() -> Result<()> {
    let star = Star::new(2)?;
    star.shape(1, MARKING_RATE, QUEUE_PACKETS)?;
    star.router.run(&format!("tc qdisc replace dev port1 parent 1:1 {MARKING}"))?;
    let [from, to] = &star.hosts[..] else { bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "100mbit"])?, to.daemon(&[])?);
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let (family, load) = (Family::V4, LOAD);
    let transfer = Transfer { from, from_daemon, to, to_daemon, family, load, msr: 1.0 };
    let (report, _) = transfer.run()?;
    let qdiscs = star.router.run("tc -s -j qdisc show dev port1")?;
    let qdiscs: serde_json::Value = serde_json::from_str(&qdiscs)?;
    let red = qdiscs.as_array().and_then(|all| all.iter().find(|qdisc| qdisc["kind"] == "red"));
    let red = red.context("no RED")?;
    println!("{} packets sent, {} marked", report.packets_sent, red["marked"]);
    // `early` counts the packets that RED dropped because it could not mark them. Overflows of the
    // queue are not counted: an emulated machine reacts slowly to marks.
    let (marked, early) = (red["marked"].as_u64(), red["early"].as_u64());
    let (marked, early) = marked.zip(early).with_context(|| format!("no counters: {red}"))?;
    ensure!(marked > 0, "nothing was marked: {red}");
    // DATA can be marked. A FIN belongs to no lane and cannot. It is repeated until one passes, at
    // growing intervals, while the queue empties in 1.6 s.
    ensure!(early <= 20, "the port dropped packets instead of marking them: {red}");
    Ok(())
}

/// The rate of a job beside one TCP flow, relative to half of their sum.
fn share_beside(tcp: &str, law: &str) -> Result<f64> {
    let shares = shares_beside(tcp, 1, law)?;
    // The port was not half idle.
    ensure!(shares.all() > 0.4, "{shares:?}");
    Ok(shares.own / (shares.all() / 2.0))
}
