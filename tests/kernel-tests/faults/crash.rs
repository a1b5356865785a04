//! Tests crashes of daemons, receivers and senders (SIGKILL).

use crate::{
    row::Row,
    runs::{
        LIMIT, Plan, Running, Staying, count, last_line, send, sender_daemon, two,
        wait_until_it_runs,
    },
};
use anyhow::{Result, ensure};
use approxlib::Report;
use std::{thread, time::Duration};
use testbed::{Daemon, Host, Load, Receiving, Signal, Snapshot, Star, check_promise, wait_for};

crate::trials! { if missing:
    crash__daemon_of_the_sender_killed_and_restarted,
    ; not emulated:
    crash__receiver_killed_and_restarted,
    crash__daemon_of_the_receiver_killed_and_restarted,
    crash__receiver_killed_for_good,
    crash__sender_killed,
}

fn crash__daemon_of_the_sender_killed_and_restarted(row: &mut Row) -> Result<()> {
    row.set_injected(
        "SIGKILL to the sender's daemon in the middle of a job, a new one 0.3 s later",
    );
    let star = Star::new(2)?;
    // Without a daemon only losses limit the rate.
    star.shape(1, "20mbit", 50)?;
    let [from, to] = two(&star)?;
    let before = Snapshot::take(from)?;
    // Long enough for the job's return to a daemon in an emulated machine.
    let plan = Plan { load: Load::pieces(30_000, 1_000), ..Plan::long() };
    let (first, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let job = Running::start(from, &first, to, &to_daemon, plan)?;
    wait_until_it_runs(&first)?;
    first.kill();
    let left = Daemon::leftovers(from)?.len();
    row.count("files left by the daemon", left as u64);
    ensure!(left > 0, "the daemon left no files: it was not killed");
    thread::sleep(Duration::from_millis(300));
    // However long the new daemon takes to start, the job isn't over before.
    job.sending.signal(Signal::SIGSTOP)?;
    let second = sender_daemon(from, plan.rate)?;
    job.sending.signal(Signal::SIGCONT)?;
    wait_for("the job to return to the new daemon", || {
        Ok((second.stats()?.coverage.returned_flows == 1).then_some(()))
    })?;
    next_job(row, from, &second, to, &to_daemon)?;
    let report = job.end()?.expect_complete(row, "job under way")?;
    ensure!(report.datapath == "ebpf", "the datapath is {}, not ebpf", report.datapath);
    second.stop()?;
    expect_clean(&before, from)
}

fn crash__daemon_of_the_receiver_killed_and_restarted(row: &mut Row) -> Result<()> {
    row.set_injected(
        "SIGKILL to the receiver's daemon in the middle of a job, a new one 0.3 s later",
    );
    let star = Star::new(2)?;
    star.shape(1, "20mbit", 50)?;
    let [from, to] = two(&star)?;
    let before = Snapshot::take(to)?;
    let (from_daemon, first) = (sender_daemon(from, Plan::long().rate)?, to.daemon(&[])?);
    // 12 s at least, of which a busy machine may take four before the sender is stopped.
    let plan = Plan { load: Load::pieces(30_000, 1_000), ..Plan::long() };
    let mut receiving = Receiving::start(to, &first, plan.family, plan.load)?;
    let sending = send(from, &from_daemon, to, plan)?;
    wait_until_it_runs(&from_daemon)?;
    first.kill();
    let left = Daemon::leftovers(to)?.len();
    row.count("files left by the daemon", left as u64);
    ensure!(left > 0, "the daemon left no files: it was not killed");
    thread::sleep(Duration::from_millis(300));
    // However long the new daemon takes to start, the job isn't over before.
    sending.signal(Signal::SIGSTOP)?;
    let second = to.daemon(&[])?;
    receiving.wait_until_it_says("registered with the ATP daemon")?;
    sending.signal(Signal::SIGCONT)?;
    wait_for("the new daemon to acknowledge", || {
        Ok((second.counter("ack_sent")? > 50).then_some(()))
    })?;
    next_job(row, from, &from_daemon, to, &second)?;
    let report = sending.finish()?;
    let received = receiving.finish()?;
    row.complete("job under way", &report, &received);
    check_promise(&report, &received, plan.load, plan.msr)?;
    count(row, "new daemon", &second, &["data_arrived"])?;
    second.stop()?;
    expect_clean(&before, to)
}

/// The receiver loses its state and the messages that it had not written.
fn crash__receiver_killed_and_restarted(row: &mut Row) -> Result<()> {
    row.set_injected("SIGKILL to the receiving process in the middle of a job, a new one at once");
    let star = Star::new(2)?;
    let [from, to] = two(&star)?;
    let plan = Plan::long();
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let first = Receiving::start(to, &to_daemon, plan.family, plan.load)?;
    let sending = send(from, &from_daemon, to, plan)?;
    wait_until_it_runs(&from_daemon)?;
    let lost = first.kill()?;
    row.count("messages in the killed receiver's file", lost.into());
    let second = Staying::start(to, &to_daemon, plan)?;
    let ended = Running::of(sending, second, plan).end()?;
    // Either the new receiver has all needed messages, or the sender reports an error.
    ended.expect_end(row, "")?;
    next_job(row, from, &from_daemon, to, &to_daemon)
}

fn crash__receiver_killed_for_good(row: &mut Row) -> Result<()> {
    row.set_injected("SIGKILL to the receiving process in the middle of a job");
    let star = Star::new(2)?;
    let [from, to] = two(&star)?;
    let plan = Plan { timeout_s: 3, ..Plan::long() };
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let receiving = Receiving::start(to, &to_daemon, plan.family, plan.load)?;
    let sending = send(from, &from_daemon, to, plan)?;
    wait_until_it_runs(&from_daemon)?;
    let delivered = receiving.kill()?;
    let finished = sending.end_within(LIMIT)?;
    let error = last_line(&finished.stderr);
    row.ended("", plan.load, plan.msr, delivered, &error, Duration::ZERO);
    ensure!(!finished.status.success(), "reported complete: {}", finished.stdout);
    for words in ["nothing listens there", "needed messages delivered"] {
        ensure!(error.contains(words), "the error lacks {words:?}: {error}");
    }
    next_job(row, from, &from_daemon, to, &to_daemon)
}

fn crash__sender_killed(row: &mut Row) -> Result<()> {
    row.set_injected("SIGKILL to the sending process in the middle of a job");
    let star = Star::new(2)?;
    let [from, to] = two(&star)?;
    let plan = Plan { timeout_s: 3, ..Plan::long() };
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let receiver = Staying::start(to, &to_daemon, plan)?;
    let sending = send(from, &from_daemon, to, plan)?;
    wait_until_it_runs(&from_daemon)?;
    drop(sending);
    wait_for("the daemon to forget the job", || {
        let stats = from_daemon.stats()?;
        Ok((stats.jobs.is_empty() && stats.lanes.is_empty()).then_some(()))
    })?;
    next_job(row, from, &from_daemon, to, &to_daemon)?;
    // The receiver waits for its sender until its timeout.
    let delivered = receiver.end()?;
    row.ended("job under way", plan.load, plan.msr, delivered, "killed", Duration::ZERO);
    ensure!(
        delivered < 8_000,
        "all needed messages were delivered: the sender was not killed in time"
    );
    Ok(())
}

/// Runs a job after the fault, with another receiver, on the kernel datapath at both ends.
fn next_job(
    row: &mut Row,
    from: &Host,
    from_daemon: &Daemon,
    to: &Host,
    to_daemon: &Daemon,
) -> Result<()> {
    let acknowledged = to_daemon.counter("ack_sent")?;
    let job = Running::start(from, from_daemon, to, to_daemon, Plan::short())?;
    let report: Report = job.end()?.expect_complete(row, "next job")?;
    ensure!(report.datapath == "ebpf", "the next job's datapath is {}", report.datapath);
    ensure!(to_daemon.counter("ack_sent")? > acknowledged, "the receiving kernel sent no ACK");
    Ok(())
}

fn expect_clean(before: &Snapshot, host: &Host) -> Result<()> {
    before.expect_same(host)?;
    let left = Daemon::leftovers(host)?;
    ensure!(left.is_empty(), "files are left: {left:?}");
    Ok(())
}
