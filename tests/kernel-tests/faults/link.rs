//! Tests outages of interfaces, and a path that drops long packets.

use crate::{
    row::Row,
    runs::{Plan, Running, count, sender_daemon, two, wait_until_it_runs},
};
use anyhow::{Context, Result, ensure};
use std::{thread, time::Duration};
use testbed::{
    DEVICE, Load, Star,
    faults::{Injection, Trouble, wired_star},
};

crate::trials! { if missing:
    link__interface_of_the_sender_down_for_2_s,
    ; not emulated:
    link__port_of_the_receiver_down_for_2_s,
    link__port_of_the_receiver_down_for_good,
    link__long_packets_vanish_from_the_start,
    link__long_packets_vanish_in_the_middle,
}

const OUTAGE: Duration = Duration::from_secs(2);

fn link__interface_of_the_sender_down_for_2_s(row: &mut Row) -> Result<()> {
    row.set_injected("the sender's interface taken down for 2 s in the middle of a job");
    interrupted(row, |star| {
        let namespace = &star.hosts[0].namespace;
        namespace.run(&format!("ip link set {DEVICE} down"))?;
        thread::sleep(OUTAGE);
        namespace.run(&format!("ip link set {DEVICE} up"))?;
        // The kernel removed the route. On a real host the network configuration restores it.
        namespace.run("ip route replace default via 10.99.0.1").map(drop)
    })
}

fn link__port_of_the_receiver_down_for_2_s(row: &mut Row) -> Result<()> {
    row.set_injected("the router's port to the receiver down for 2 s in the middle of a job");
    interrupted(row, |star| {
        star.router.run("ip link set port1 down")?;
        thread::sleep(OUTAGE);
        star.router.run("ip link set port1 up").map(drop)
    })
}

/// Runs a long job to its end, with an outage in its middle.
fn interrupted(row: &mut Row, outage: impl FnOnce(&Star) -> Result<()>) -> Result<()> {
    let star = Star::new(2)?;
    let [from, to] = two(&star)?;
    // 10 s at least, of which a busy machine may take most before the network is back.
    let plan = Plan { load: Load::pieces(30_000, 1_000), ..Plan::long() };
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let mut job = Running::start(from, &from_daemon, to, &to_daemon, plan)?;
    wait_until_it_runs(&from_daemon)?;
    let before = to_daemon.counter("data_arrived")?;
    outage(&star)?;
    row.count("packets before the outage", before);
    ensure!(job.sending.is_running()?, "the job was over before the network was back");
    let report = job.end()?.expect_complete(row, "")?;
    row.count("packets after the outage", to_daemon.counter("data_arrived")? - before);
    ensure!(report.elapsed_s > OUTAGE.as_secs_f64(), "the job took only {} s", report.elapsed_s);
    ensure!(report.pacing != "userspace", "the job left the daemon's datapath: {}", report.pacing);
    count(row, "sender", &from_daemon, &["ack_news", "too_far"])
}

fn link__port_of_the_receiver_down_for_good(row: &mut Row) -> Result<()> {
    row.set_injected("the router's port to the receiver down for good, in the middle of a job");
    let star = Star::new(2)?;
    let [from, to] = two(&star)?;
    let plan = Plan { timeout_s: 3, ..Plan::long() };
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let job = Running::start(from, &from_daemon, to, &to_daemon, plan)?;
    wait_until_it_runs(&from_daemon)?;
    star.router.run("ip link set port1 down")?;
    job.end()?.expect_error(row, "", "did not answer")
}

fn link__long_packets_vanish_from_the_start(row: &mut Row) -> Result<()> {
    black_hole(row, false)
}

fn link__long_packets_vanish_in_the_middle(row: &mut Row) -> Result<()> {
    black_hole(row, true)
}

/// A path that drops long packets without ICMP errors. DATA of 1,400 bytes does not get through;
/// FIN and receipts do.
fn black_hole(row: &mut Row, in_the_middle: bool) -> Result<()> {
    let trouble = Trouble { longest: 1_200, ..Trouble::default() };
    let when = if in_the_middle { "in the middle of a job" } else { "from the start" };
    row.set_injected(format!("both ways, {when}: {}", trouble.describe()));
    let star = wired_star(2)?;
    let mut injection = None;
    if !in_the_middle {
        injection = Some(Injection::start(&star.router, &trouble, &trouble)?);
    }
    let plan = Plan { load: Load::pieces(8_000, 1_350), timeout_s: 10, ..Plan::long() };
    let [from, to] = two(&star)?;
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let job = Running::start(from, &from_daemon, to, &to_daemon, plan)?;
    if in_the_middle {
        wait_until_it_runs(&from_daemon)?;
        injection = Some(Injection::start(&star.router, &trouble, &trouble)?);
    }
    let ended = job.end()?;
    let injection = injection.context("no injection")?;
    row.set_injector(injection.injector());
    row.count_all(injection.counts()?);
    ensure!(row.counter("too long") > 0, "no long packet was dropped");
    ended.expect_complete(row, "").map(drop)
}
