//! Tests epochs in the kernel: the eBPF programs evaluate them, not the daemon.

use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, HostStats, LaneStats};
use atp_common::{laws::lane::EPOCHS, wire::Kind};
use nix::sys::signal::Signal;
use std::{
    thread,
    time::{Duration, Instant},
};
use testbed::{
    Daemon, Family, Load, Pair, Process, Snapshot, Star, TIMEOUT, Transfer,
    wire::{Capture, Frame},
};

crate::trials! {
    if missing_for_fq:
    epochs__go_on_while_the_daemon_sleeps,
    epochs__jobs_do_not_share_state_of_a_law,
}

/// Tests of refused options, which run on every machine. They name HTB, which every machine has.
pub fn refusals() -> Vec<libtest_mimic::Trial> {
    let missing = testbed::missing;
    vec![
        crate::trial("epochs__need_fq", missing, epochs__need_fq),
        crate::trial("epochs__bounds", missing, epochs__bounds),
    ]
}

/// A load of 4.4 s at 20 Mbit/s.
const LOAD: Load = Load::lines(10_000, 1_100);

/// The port is half as fast as the host. The programs must find its rate, because the daemon is
/// stopped. It is stopped for less than the age limit of its heartbeat.
fn epochs__go_on_while_the_daemon_sleeps() -> Result<()> {
    const SLEEP: Duration = Duration::from_millis(400);
    let star = Star::new(2)?;
    star.shape(1, "20mbit", 4)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let from_daemon = from.daemon(&["--rate-max", "40mbit", "--epochs", "kernel"])?;
    let to_daemon = to.daemon(&["--epochs", "kernel"])?;
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let family = Family::V4;
    let transfer = Transfer { from, from_daemon, to, to_daemon, family, load: LOAD, msr: 0.8 };
    let (sending, receiving) = transfer.start()?;
    let before = wait_for_lane(from_daemon)?;
    // Starting a process would give the awake daemon more time.
    let mut snapshot = Client::connect(from_daemon.socket())?.snapshot()?;
    from_daemon.signal(Signal::SIGSTOP)?;
    thread::sleep(SLEEP);
    let asleep = snapshot.read();
    let awake = Instant::now();
    from_daemon.signal(Signal::SIGCONT)?;
    let stats = testbed::wait_for("the daemon's next tick", || {
        Ok(Some(snapshot.read()).filter(|stats| stats.uptime_s > asleep.uptime_s))
    })?;
    let after = lane(&stats).context("the job was over too soon")?;
    // The daemon opens one epoch per tick of 2 ms, and may evaluate a ring of earlier ones.
    let by_daemon = awake.elapsed().as_millis() as u32 / 2 + EPOCHS as u32;
    let (report, _) = transfer.finish(sending, receiving)?;
    ensure!(report.datapath == "ebpf" && report.pacing == "fq", "{report:?}");
    let evaluated = after.epochs_evaluated - before.epochs_evaluated;
    ensure!(
        evaluated > by_daemon,
        "{evaluated} epochs in {SLEEP:?}, of which the daemon may have evaluated {by_daemon}"
    );
    ensure!(after.rtt_us > Some(0.0), "{after:?}");
    let lost = report.packets_sent.saturating_sub(report.packets_arrived);
    ensure!(lost > 0, "the port dropped nothing: {report:?}");
    // At 40 Mbit/s half of the packets would be lost.
    let loss = lost as f64 / report.packets_sent as f64;
    ensure!(loss < 0.45, "{loss:.2} of the packets were lost: the rate did not fall");
    Ok(())
}

/// Lanes are reused. An exact job after an approximate one has queue 0 and loses nothing.
fn epochs__jobs_do_not_share_state_of_a_law() -> Result<()> {
    const LOAD: Load = Load::lines(1_000, 300);
    for law in ["paper", "polite"] {
        let pair = Pair::new()?;
        let options =
            ["--rate-max", "40mbit", "--epochs", "kernel", "--epoch", "1ms", "--law", law];
        let (a, b) = (pair.a.daemon(&options)?, pair.b.daemon(&options)?);
        for msr in [0.5, 1.0, 0.9] {
            let transfer = Transfer {
                from: &pair.a,
                from_daemon: &a,
                to: &pair.b,
                to_daemon: &b,
                family: Family::V6,
                load: LOAD,
                msr,
            };
            let capture = Capture::start(&pair.b)?;
            let (report, received) = transfer.run()?;
            ensure!(report.datapath == "ebpf", "{law}: {report:?}");
            let mut data = capture.finish()?;
            data.retain(|frame| frame.kind == Kind::Data);
            ensure!(!data.is_empty(), "{law}: no packet was captured");
            // Only exact lanes keep the DSCP and allow switches to mark.
            let is_exact = |frame: &Frame| (frame.dscp, frame.ecn) == (0, 2);
            let all_fit = data.iter().all(|frame| is_exact(frame) == (msr == 1.0));
            ensure!(all_fit, "{law}, MSR {msr}: wrong queue");
            let arrived = received.messages;
            ensure!(msr < 1.0 || arrived == LOAD.messages, "{law}: {arrived} arrived");
        }
    }
    Ok(())
}

fn lane(stats: &HostStats) -> Option<LaneStats> {
    stats.lanes.first().cloned()
}

fn wait_for_lane(daemon: &Daemon) -> Result<LaneStats> {
    testbed::wait_for("an epoch to be evaluated", || {
        Ok(lane(&daemon.stats()?).filter(|lane| lane.epochs_evaluated > 0))
    })
}

fn epochs__need_fq() -> Result<()> {
    let htb = ["--pacing", "htb", "--epochs", "kernel", "--profile", "default"];
    refused(&htb, &["fq", "--epochs daemon"])
}

fn epochs__bounds() -> Result<()> {
    refused(&["--epoch", "100us"], &["--epoch 100", "1ms to 1s"])?;
    refused(&["--epochs", "kernel", "--epoch", "1us", "--law", "paper"], &["--epoch 1", "10"])
}

/// Checks that a daemon with these options fails with these words and leaves nothing behind.
fn refused(options: &[&str], words: &[&str]) -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (socket, state) = (pair.a.folder().join("atp.sock"), pair.a.folder().join("state"));
    let mut command = pair.a.atp()?;
    command.args(["run", "--iface", "eth0", "--socket"]).arg(&socket);
    command.arg("--state-dir").arg(&state).arg("--object").arg(testbed::object()?);
    command.args(options);
    let finished = Process::captured("the daemon", command)?.end(TIMEOUT)?;
    ensure!(!finished.status.success(), "the daemon accepts {options:?}");
    let missing: Vec<_> = words.iter().filter(|word| !finished.stderr.contains(**word)).collect();
    ensure!(missing.is_empty(), "{:?} lacks {missing:?}", finished.stderr);
    ensure!(!socket.exists(), "the daemon left its socket");
    before.expect_same(&pair.a)
}
