//! Tests that lanes without a daemon fall to the safe rate, and recover with the daemon.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use std::{
    thread,
    time::{Duration, Instant},
};
use testbed::{Daemon, Family, Host, Load, Pair, Transfer, wait_for};

crate::trials! {
    unattended__stopped_daemon_means_the_safe_rate,
}

/// A load of 2.8 s at 40 Mbit/s.
const LOAD: Load = Load::lines(12_000, 1_100);
const RATE_MAX_BYTES_PER_S: f64 = 5_000_000.0;

fn unattended__stopped_daemon_means_the_safe_rate() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "40mbit"])?, pair.b.daemon(&[])?);
    let transfer = Transfer {
        from: &pair.a,
        from_daemon: &a,
        to: &pair.b,
        to_daemon: &b,
        family: Family::V4,
        load: LOAD,
        msr: 0.8,
    };
    let (mut sending, receiving) = transfer.start()?;
    wait_for("the job to begin", || Ok((pair.a.sent_bytes()? > 500_000).then_some(())))?;
    let share = share_while_stopped(&pair.a, &a)?;
    ensure!(sending.is_running()?, "the job was over too soon");
    // The safe rate of 1 Mbit/s is a share of 0.025. Packets queued before also count.
    ensure!(share < 0.15, "a lane without a daemon used {share:.3} of its rate");
    let (report, _) = transfer.finish(sending, receiving)?;
    ensure!(a.counter("unattended")? > 0, "no packet was counted as unattended");
    let last = report.timeline.last().context("no timeline")?;
    ensure!(last.rate_bytes_per_s > 125_000, "the lane did not recover: {last:?}");
    Ok(())
}

/// Stops the daemon for a while. Returns the share of the highest rate that the host uses
/// meanwhile.
fn share_while_stopped(host: &Host, daemon: &Daemon) -> Result<f64> {
    daemon.signal(Signal::SIGSTOP)?;
    // The heartbeat expires after half a second; the rest is for packets already queued.
    thread::sleep(Duration::from_millis(1_000));
    let (before, since) = (host.sent_bytes()?, Instant::now());
    thread::sleep(Duration::from_millis(1_000));
    let (after, elapsed) = (host.sent_bytes()?, since.elapsed());
    daemon.signal(Signal::SIGCONT)?;
    Ok((after - before) as f64 / elapsed.as_secs_f64() / RATE_MAX_BYTES_PER_S)
}
