//! Tests that a lane finds the rate of a port that is slower than its host's.

use anyhow::{Context, Result, ensure};
use approxlib::control::Client;
use std::{thread, time::Duration};
use testbed::{Family, Load, Star, Transfer};

// Senders must fill a port. An emulated machine is too slow for that.
crate::trials! {
    fn not_emulated:
    congestion__shaped_port_v4,
    congestion__shaped_port_v6,
}

/// A load of 2.4 s at 20 Mbit/s.
const LOAD: Load = Load::lines(5_000, 1_100);
const PORT_RATE_BYTES_PER_S: f64 = 2_500_000.0;

fn congestion__shaped_port_v4() -> Result<()> {
    through_a_shaped_port(Family::V4)
}

fn congestion__shaped_port_v6() -> Result<()> {
    through_a_shaped_port(Family::V6)
}

fn through_a_shaped_port(family: Family) -> Result<()> {
    let star = Star::new(2)?;
    star.shape(1, "20mbit", 4)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "40mbit"])?, to.daemon(&[])?);
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let transfer = Transfer { from, from_daemon, to, to_daemon, family, load: LOAD, msr: 0.8 };
    let (mut sending, receiving) = transfer.start()?;
    let mut rates = Vec::new();
    let mut snapshot = Client::connect(from_daemon.socket())?.snapshot()?;
    let (mut sent_packets, mut achieved) = (0, Vec::new());
    while sending.is_running()? {
        let lanes = snapshot.read().lanes;
        rates.extend(lanes.iter().map(|lane| lane.rate_bytes_per_s));
        achieved.extend(lanes.iter().filter_map(|lane| lane.achieved_bytes_per_s));
        sent_packets =
            lanes.iter().filter_map(|lane| lane.sent_packets).fold(sent_packets, u64::max);
        thread::sleep(Duration::from_millis(20));
    }
    let (report, _) = transfer.finish(sending, receiving)?;
    // The last look may miss some packets at the end; others leave as an epoch ends.
    let counted = sent_packets as f64 / report.packets_sent as f64;
    ensure!((0.5..=1.05).contains(&counted), "{sent_packets} packets counted: {report:?}");
    ensure!(
        achieved.iter().any(|rate| *rate as f64 > PORT_RATE_BYTES_PER_S / 4.0),
        "no rate was achieved: {achieved:?}"
    );
    let lost = report.packets_sent.saturating_sub(report.packets_arrived);
    ensure!(lost > 0, "the port dropped nothing: {report:?}");
    // The lane begins at its highest rate, twice the port's rate, and loses half of its packets. It
    // then stays above the port's rate by its slack. Near the end of the job it rises again. An
    // emulated machine takes only a dozen samples of this.
    let lowest = *rates.iter().min().context("no lane was seen")?;
    let of_port = lowest as f64 / PORT_RATE_BYTES_PER_S;
    ensure!(
        (0.1..=1.8).contains(&of_port),
        "the lowest rate is {of_port:.2} of the port's: {rates:?}"
    );
    Ok(())
}
