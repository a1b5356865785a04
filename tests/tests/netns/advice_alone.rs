//! Tests the advice of a receiver without a daemon: its library gives it.

use anyhow::{Result, ensure};
use approxlib::{
    Job,
    control::{Client, Snapshot},
};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use testbed::{Daemon, Family, Host, PORT, Pair, Process, wait_for};

crate::trials! {
    advice__passes_from_the_library_to_the_daemon_and_back,
}

/// The library advises the lane as long as no daemon serves the receiver, and only then: the daemon
/// gives no advice here. That the lane is advised also shows that the library reads the counters
/// of its own network namespace.
fn advice__passes_from_the_library_to_the_daemon_and_back() -> Result<()> {
    let pair = Pair::new()?;
    let from_daemon = pair.a.daemon(&["--rate-max", "40mbit"])?;
    let address = pair.b.endpoint(Family::V4, PORT);
    let mut command = pair.b.atp()?;
    command.env("ATP_SOCKET", pair.b.folder().join("atp.sock"));
    command.args(["recv", &address.to_string(), "--out", "/dev/null", "--line-rate", "40mbit"]);
    let mut receiver = Process::captured("the receiver", command)?;
    receiver.wait_until_it_says("receiving without a daemon")?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_until(&over, &pair.a, &from_daemon, address));
        let outcome = watch(&from_daemon, &pair.b, &mut receiver);
        over.store(true, Ordering::Relaxed);
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        outcome.and(sent)
    })
}

fn watch(from_daemon: &Daemon, to: &Host, receiver: &mut Process) -> Result<()> {
    let mut snapshot = Client::connect(from_daemon.socket())?.snapshot()?;
    wait_for("the library's advice", || Ok(is_advised(&mut snapshot).filter(|is| *is)))?;
    let to_daemon = to.daemon(&["--advice", "off"])?;
    receiver.wait_until_it_says("registered with the ATP daemon")?;
    // So many packets later, the sender thread has read the library's last receipt with advice.
    let sent = |packets: u64| {
        let before = to_daemon.counter("ack_sent")?;
        wait_for("the daemon's ACKs", || {
            Ok((to_daemon.counter("ack_sent")? > before + packets).then_some(()))
        })
    };
    sent(2_000)?;
    wait_for("the end of advice", || Ok(is_advised(&mut snapshot).filter(|is| !is)))?;
    for _ in 0..20 {
        sent(100)?;
        ensure!(is_advised(&mut snapshot) != Some(true), "the library advises beside the daemon");
    }
    to_daemon.stop()?;
    wait_for("the library's advice again", || Ok(is_advised(&mut snapshot).filter(|is| *is)))?;
    Ok(())
}

/// Whether the host's lane has advice; `None` if there is no lane.
fn is_advised(snapshot: &mut Snapshot) -> Option<bool> {
    snapshot.read().lanes.first().map(|lane| lane.advice_bytes_per_s.is_some())
}

fn send_until(over: &AtomicBool, from: &Host, daemon: &Daemon, to: SocketAddr) -> Result<()> {
    from.namespace.enter(|| {
        let socket = Some(daemon.socket().to_owned());
        let mut job = Job::builder().msr(0.5).control_socket(socket).connect(to)?;
        while !over.load(Ordering::Relaxed) {
            job.send(&[7; 1_100])?;
        }
        Ok(())
    })
}
