//! Tests the log of single packets (`--log-packets`).

use anyhow::{Context, Result, ensure};
use atp_common::maps::Event;
use std::net::SocketAddrV4;
use testbed::{Daemon, Family, Load, PORT, Pair, Transfer, wait_for, wire};

crate::trials! {
    packet_log__names_a_packet_and_the_reason,
    packet_log__has_each_ack_at_level_trace,
    packet_log__is_off_by_default,
}

/// Small jobs, whose lines all fit into the log.
const LOAD: Load = Load::lines(300, 1_000);

fn packet_log__names_a_packet_and_the_reason() -> Result<()> {
    let (pair, daemon) = after_garbage(&["--log-packets"])?;
    let text = Event::Malformed.text();
    let line = wait_for("the line", || Ok(lines(&daemon, text).into_iter().next()))?;
    for part in ["DEBUG", &format!("from={}:999", pair.a.ipv4), &format!("to={}", pair.b.ipv4)] {
        ensure!(line.contains(part), "no {part} in {line}");
    }
    // Ordinary packets are for level trace.
    ensure!(lines(&daemon, Event::AckSent.text()).is_empty(), "{}", daemon.log());
    daemon.stop()
}

fn packet_log__has_each_ack_at_level_trace() -> Result<()> {
    let (_pair, daemon) = after_garbage(&["--log-packets=trace"])?;
    let sent = daemon.counter("ack_sent")?;
    ensure!(sent > 0, "the programs sent no ACK");
    let acks = || lines(&daemon, Event::AckSent.text());
    wait_for("a line for each ACK", || {
        Ok((acks().len() as u64 == daemon.counter("ack_sent")?).then_some(()))
    })?;
    let ack = acks().into_iter().next().context("no line")?;
    for part in ["TRACE", "kind=\"ACK\"", "job=", "group=0", "slot=", "epoch="] {
        ensure!(ack.contains(part), "no {part} in {ack}");
    }
    ensure!(!daemon.log().contains("were lost"), "{}", daemon.log());
    daemon.stop()
}

fn packet_log__is_off_by_default() -> Result<()> {
    let (_pair, daemon) = after_garbage(&[])?;
    ensure!(daemon.counter("malformed")? > 0 && daemon.counter("ack_sent")? > 0);
    ensure!(lines(&daemon, Event::Malformed.text()).is_empty(), "{}", daemon.log());
    daemon.stop()
}

/// Runs a job, and sends its receiver a packet that isn't ATP. Returns the hosts and the receiving
/// host's daemon, which has counted the packet.
fn after_garbage(options: &[&str]) -> Result<(Pair, Daemon)> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(options)?);
    let transfer = Transfer {
        from: &pair.a,
        from_daemon: &a,
        to: &pair.b,
        to_daemon: &b,
        family: Family::V4,
        load: LOAD,
        msr: 1.0,
    };
    let (sending, receiving) = transfer.start()?;
    let (from, to) = (SocketAddrV4::new(pair.a.ipv4, 999), SocketAddrV4::new(pair.b.ipv4, PORT));
    let counted = pair.a.namespace.enter(|| wire::spoof_v4(from, to, &[b"garbage".to_vec()]));
    counted.and_then(|()| {
        wait_for("the packet to be counted", || Ok((b.counter("malformed")? > 0).then_some(())))
    })?;
    transfer.finish(sending, receiving)?;
    Ok((pair, b))
}

/// The lines of a daemon's log with this text.
fn lines(daemon: &Daemon, text: &str) -> Vec<String> {
    let log = daemon.log();
    log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}
