//! Tests that lanes without a daemon fall to the safe rate, and recover with the daemon.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use std::{
    fs, thread,
    time::{Duration, Instant},
};
use testbed::{Daemon, Family, Host, Load, PORT, Pair, Process, Transfer, wait_for};

crate::trials! {
    unattended__stopped_daemon_means_the_safe_rate,
    unattended__receiver_that_started_before_its_daemon,
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

/// A receiver that found no daemon uses the daemon once it runs.
fn unattended__receiver_that_started_before_its_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let socket = pair.b.folder().join("atp.sock");
    let address = pair.b.endpoint(Family::V4, PORT).to_string();
    let mut command = pair.b.atp()?;
    command.env("ATP_SOCKET", &socket).args(["recv", &address, "--out", "/dev/null"]);
    let mut receiver = Process::captured("the receiver", command)?;
    receiver.wait_until_it_says("receiving without a daemon")?;
    let daemon = pair.b.daemon(&[])?;
    ensure!(daemon.socket() == socket, "the daemon's socket is {}", daemon.socket().display());
    receiver.wait_until_it_says("registered with the ATP daemon")?;
    let mut command = pair.a.atp()?;
    let input = pair.a.folder().join("input");
    fs::write(&input, vec![7; 1_000_000])?;
    command.args(["send", &address, "--bytes", "1000", "--msr", "0.8", "--file"]).arg(input);
    let sender = Process::captured("the sender", command)?;
    sender.success()?;
    receiver.success()?;
    ensure!(daemon.counter("ack_sent")? > 0, "the daemon's programs acknowledged no packet");
    Ok(())
}

/// Stops the daemon for a while. Returns the share of the highest rate that the host uses
/// meanwhile.
fn share_while_stopped(host: &Host, daemon: &Daemon) -> Result<f64> {
    daemon.signal(Signal::SIGSTOP)?;
    // The heartbeat expires after half a second; the rest is for packets already queued.
    thread::sleep(Duration::from_millis(1_000));
    // In this order, delays of the test make the share smaller only.
    let (since, before) = (Instant::now(), host.sent_bytes()?);
    thread::sleep(Duration::from_millis(1_000));
    let (after, elapsed) = (host.sent_bytes()?, since.elapsed());
    daemon.signal(Signal::SIGCONT)?;
    Ok((after - before) as f64 / elapsed.as_secs_f64() / RATE_MAX_BYTES_PER_S)
}
