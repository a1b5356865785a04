//! Tests jobs through a network that loses, delays, reorders, duplicates and damages packets.

use anyhow::{Result, ensure};
use testbed::{Family, Load, Star, Transfer};

crate::trials! { if missing_for_netem:
    bad_network__loss_both_ways,
    bad_network__reordering_and_duplicates,
    bad_network__damaged_packets_v4,
    bad_network__damaged_packets_v6,
    bad_network__everything_must_arrive,
}

const LOAD: Load = Load::lines(2_000, 500);

fn bad_network__loss_both_ways() -> Result<()> {
    through("delay 5ms loss 10%", Family::V4, 0.8)
}

fn bad_network__reordering_and_duplicates() -> Result<()> {
    through("delay 5ms 4ms duplicate 5%", Family::V4, 0.8)
}

fn bad_network__damaged_packets_v4() -> Result<()> {
    through("delay 2ms corrupt 5%", Family::V4, 0.8)
}

fn bad_network__damaged_packets_v6() -> Result<()> {
    through("delay 2ms corrupt 5%", Family::V6, 0.8)
}

fn bad_network__everything_must_arrive() -> Result<()> {
    through("delay 2ms 1ms loss 3% duplicate 1%", Family::V6, 1.0)
}

/// Runs a job through a router whose two ports have these netem faults.
fn through(faults: &str, family: Family, msr: f64) -> Result<()> {
    let star = Star::new(2)?;
    for port in ["port0", "port1"] {
        star.router.run(&format!("tc qdisc add dev {port} root netem limit 10000 {faults}"))?;
    }
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "20mbit"])?, to.daemon(&[])?);
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let transfer = Transfer { from, from_daemon, to, to_daemon, family, load: LOAD, msr };
    let (report, received) = transfer.run()?;
    ensure!(report.packets_sent > 0 && received.messages > 0);
    Ok(())
}
