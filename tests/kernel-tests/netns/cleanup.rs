//! Tests that a daemon restores the host's network when it ends. After a crash the next daemon
//! does.

use anyhow::{Result, ensure};
use nix::sys::signal::{SigHandler, Signal, signal};
use std::{net::UdpSocket, os::unix::process::CommandExt, path::Path, time::Duration};
use testbed::{
    DEVICE, Daemon, Family, Finished, Host, Load, Pair, Process, Snapshot, TIMEOUT, Transfer,
};

crate::trials! {
    cleanup__stop_in_the_middle_of_a_job,
    cleanup__sigterm,
    cleanup__sigkill_leaves_the_network_usable,
    cleanup__stop_after_a_crash,
    cleanup__interface_goes_away,
}

crate::trials! {
    fn independent_of_pacing:
    cleanup__stop,
    cleanup__sigint,
    cleanup__sighup,
    cleanup__sighup_when_told_to_ignore_it,
    cleanup__stop_leaves_a_running_daemon_alone,
}

fn cleanup__stop() -> Result<()> {
    after_a_job(|daemon| daemon.stop())
}

fn cleanup__sigterm() -> Result<()> {
    after_a_job(|daemon| daemon.stop_by(Signal::SIGTERM))
}

fn cleanup__sigint() -> Result<()> {
    after_a_job(|daemon| daemon.stop_by(Signal::SIGINT))
}

fn cleanup__sighup() -> Result<()> {
    after_a_job(|daemon| daemon.stop_by(Signal::SIGHUP))
}

/// `nohup` starts a program with SIGHUP ignored.
fn cleanup__sighup_when_told_to_ignore_it() -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (socket, state) = (pair.a.folder().join("atp.sock"), pair.a.folder().join("state"));
    let mut command = Daemon::command(&pair.a, &socket, &state, &[])?;
    // SAFETY: between fork and exec only one system call is made.
    unsafe {
        command.pre_exec(|| Ok(signal(Signal::SIGHUP, SigHandler::SigIgn).map(drop)?));
    }
    let mut daemon = Process::captured("a daemon under nohup", command)?;
    daemon.wait_until_it_says("ready")?;
    daemon.signal(Signal::SIGHUP)?;
    let finished = stop(&pair.a, &socket, &state)?;
    ensure!(finished.stdout.trim() == "stopped", "{finished:?}");
    daemon.success()?;
    expect_as_found(&pair.a, &before)
}

fn after_a_job(end: impl FnOnce(Daemon) -> Result<()>) -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    ensure!(Snapshot::take(&pair.a)? != before, "the snapshot does not show a running daemon");
    job(&pair, &a, &b, Load::lines(300, 500)).run()?;
    end(a)?;
    expect_as_found(&pair.a, &before)
}

fn cleanup__stop_in_the_middle_of_a_job() -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "10mbit"])?, pair.b.daemon(&[])?);
    let long = job(&pair, &a, &b, Load::lines(2_000, 1_000));
    let (sending, receiving) = long.start()?;
    testbed::wait_for("the job to begin", || Ok((a.counter("ack_news")? > 50).then_some(())))?;
    a.stop()?;
    expect_as_found(&pair.a, &before)?;
    // The library continues without the daemon and keeps the promise.
    let report = sending.finish()?;
    let received = receiving.finish()?;
    let group = &report.groups[0];
    ensure!(group.delivered >= group.needed, "{group:?}");
    ensure!(received.messages >= group.needed, "{} arrived", received.messages);
    Ok(())
}

fn cleanup__sigkill_leaves_the_network_usable() -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "10mbit"])?, pair.b.daemon(&[])?);
    let long = job(&pair, &a, &b, Load::lines(5_000, 1_000));
    let (sending, receiving) = long.start()?;
    testbed::wait_for("the job to begin", || Ok((a.counter("ack_news")? > 50).then_some(())))?;
    a.kill();
    for family in [Family::V4, Family::V6] {
        echo(&pair, family)?;
    }
    drop((sending, receiving));
    let a = pair.a.daemon(&[])?;
    job(&pair, &a, &b, Load::lines(300, 500)).run()?;
    a.stop()?;
    expect_as_found(&pair.a, &before)
}

/// `atp-user stop` cleans up after a crash, as a restart does.
fn cleanup__stop_after_a_crash() -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "10mbit"])?, pair.b.daemon(&[])?);
    let (socket, state) = (a.socket().to_owned(), a.state().to_owned());
    // HTB comes with the first lane.
    let running = job(&pair, &a, &b, Load::lines(5_000, 1_000)).start()?;
    testbed::wait_for("the job to begin", || Ok((b.counter("data_arrived")? > 50).then_some(())))?;
    a.kill();
    drop(running);
    ensure!(Snapshot::take(&pair.a)? != before, "the crash left nothing behind");
    let finished = stop(&pair.a, &socket, &state)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    for word in ["qdisc of eth0", "atp.sock"] {
        ensure!(finished.stdout.contains(word), "{word} is not in: {}", finished.stdout);
    }
    expect_as_found(&pair.a, &before)?;
    ensure!(!stop(&pair.a, &socket, &state)?.status.success(), "a second stop succeeded");
    Ok(())
}

/// The command names another socket than the running daemon's.
fn cleanup__stop_leaves_a_running_daemon_alone() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let before = Snapshot::take(&pair.a)?;
    let elsewhere = pair.a.folder().join("elsewhere");
    let finished = stop(&pair.a, &elsewhere.join("atp.sock"), &elsewhere)?;
    ensure!(!finished.status.success(), "{}", finished.stdout);
    before.expect_same(&pair.a)?;
    a.stats()?;
    a.stop()
}

fn stop(host: &Host, socket: &Path, state: &Path) -> Result<Finished> {
    let mut command = host.atp()?;
    command.args(["stop", "--socket"]).arg(socket).arg("--state-dir").arg(state);
    Process::captured("atp-user stop", command)?.end(TIMEOUT)
}

/// The daemon continues without the interface and can still be stopped.
fn cleanup__interface_goes_away() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&["--iface", "lo", "--rate-max", "10mbit"])?, pair.b.daemon(&[])?);
    let (sending, receiving) = job(&pair, &a, &b, Load::lines(5_000, 1_000)).start()?;
    testbed::wait_for("the job to begin", || Ok((a.counter("ack_news")? > 50).then_some(())))?;
    pair.a.namespace.run(&format!("ip link delete {DEVICE}"))?;
    drop((sending, receiving));
    for daemon in [a, b] {
        daemon.stats()?;
        daemon.stop()?;
    }
    for host in [&pair.a, &pair.b] {
        let left = Daemon::leftovers(host)?;
        ensure!(left.is_empty(), "files are left: {left:?}");
    }
    let qdiscs = pair.a.namespace.run("tc qdisc show")?;
    ensure!(!qdiscs.contains("a7a7:"), "a qdisc is left: {qdiscs}");
    Ok(())
}

fn job<'a>(pair: &'a Pair, a: &'a Daemon, b: &'a Daemon, load: Load) -> Transfer<'a> {
    let (from, to) = (&pair.a, &pair.b);
    Transfer { from, from_daemon: a, to, to_daemon: b, family: Family::V4, load, msr: 0.8 }
}

fn expect_as_found(host: &Host, before: &Snapshot) -> Result<()> {
    before.expect_same(host)?;
    let left = Daemon::leftovers(host)?;
    ensure!(left.is_empty(), "files are left: {left:?}");
    Ok(())
}

/// Sends 20 packets there and back. All must arrive.
fn echo(pair: &Pair, family: Family) -> Result<()> {
    let socket = |host: &Host| {
        host.namespace.enter(|| {
            let socket = UdpSocket::bind(host.endpoint(family, 0))?;
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
            Ok(socket)
        })
    };
    let (here, there) = (socket(&pair.a)?, socket(&pair.b)?);
    let mut buffer = [0; 64];
    for _ in 0..20 {
        here.send_to(b"hello", there.local_addr()?)?;
        let (len, from) = there.recv_from(&mut buffer)?;
        there.send_to(&buffer[..len], from)?;
        ensure!(here.recv(&mut buffer)? == 5, "an echo of another length");
    }
    Ok(())
}
