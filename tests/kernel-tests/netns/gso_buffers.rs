//! Tests bursts as GSO buffers, over both families: buffers that cross a cable unsegmented, and
//! buffers that a router segments.

use anyhow::{Context, Result, ensure};
use atp_common::wire::{Flags, Kind};
use std::{fs, path::PathBuf};
use testbed::{
    self, Daemon, Family, Host, Load, Pair, Star, Transfer,
    wire::{Capture, Checksum, Frame},
};

// Runs with every pacing backend. The backends treat the other cases alike.
crate::trials! {
    gso_buffers__unsegmented_v6,
}

crate::trials! {
    fn independent_of_pacing:
    gso_buffers__unsegmented_v4,
    gso_buffers__segmented_v4,
    gso_buffers__segmented_v6,
}

/// Each message has 72 packets: a burst of 44 and one of 28.
const LOAD: Load = Load::pieces(60, 100_000);
/// The greatest length of an Ethernet frame without offloads.
const FRAME_BYTES_MAX: usize = 1_514;

fn gso_buffers__unsegmented_v4() -> Result<()> {
    unsegmented(Family::V4)
}

fn gso_buffers__unsegmented_v6() -> Result<()> {
    unsegmented(Family::V6)
}

fn gso_buffers__segmented_v4() -> Result<()> {
    segmented(Family::V4)
}

fn gso_buffers__segmented_v6() -> Result<()> {
    segmented(Family::V6)
}

fn unsegmented(family: Family) -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (deep_daemon(&pair.a)?, deep_daemon(&pair.b)?);
    let tap = Capture::start(&pair.b)?;
    burst((&pair.a, &a), (&pair.b, &b), family)?;
    let data = data(tap)?;
    let (long, short): (Vec<_>, Vec<_>) = data.iter().partition(|(_, len)| *len > FRAME_BYTES_MAX);
    ensure!(!long.is_empty(), "no GSO buffer among {} packets", short.len());
    let wants_acks = long.iter().find(|(frame, _)| !frame.header.flags().contains(Flags::NO_ACK));
    ensure!(wants_acks.is_none(), "a GSO buffer without NO_ACK: {wants_acks:?}");
    Ok(())
}

/// A router's port segments the buffers and computes each segment's checksum.
fn segmented(family: Family) -> Result<()> {
    let star = Star::new(2)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    star.router.run("ethtool -K port1 tx off")?;
    to.offload("gro off")?;
    let (from_daemon, to_daemon) = (deep_daemon(from)?, deep_daemon(to)?);
    let (before, behind) = (Capture::start(from)?, Capture::start(to)?);
    burst((from, &from_daemon), (to, &to_daemon), family)?;
    let buffers = data(before)?.iter().filter(|(_, len)| *len > FRAME_BYTES_MAX).count();
    ensure!(buffers > 0, "the sender sent no GSO buffer");
    let segments = data(behind)?;
    ensure!(segments.len() > buffers, "{} packets of {buffers} GSO buffers", segments.len());
    for (frame, len) in &segments {
        ensure!(*len <= FRAME_BYTES_MAX, "a GSO buffer behind the router: {frame:?}");
        ensure!(frame.checksum == Checksum::Right, "{frame:?}");
    }
    Ok(())
}

/// Runs a job at its lane's first rate. The job must keep its promise, and probes must be answered.
fn burst(from: (&Host, &Daemon), to: (&Host, &Daemon), family: Family) -> Result<()> {
    let ((from, from_daemon), (to, to_daemon)) = (from, to);
    Transfer { from, from_daemon, to, to_daemon, family, load: LOAD, msr: 0.8 }.run()?;
    for host in [from, to] {
        let errors = host.checksum_errors()?;
        ensure!(errors == 0, "{errors} packets with a wrong checksum");
    }
    let (ours, theirs) = (from_daemon.stats()?.counters, to_daemon.stats()?.counters);
    let all = format!("sender {ours:?}, receiver {theirs:?}");
    ensure!(theirs["probe_answered"] > 0 && ours["probe_news"] > 0, "no probe was answered: {all}");
    for counter in ["malformed", "unsendable", "ack_forged", "ack_unknown", "probe_failed"] {
        ensure!(ours[counter] + theirs[counter] == 0, "{counter}: {all}");
    }
    Ok(())
}

/// A daemon for switches whose queues hold two GSO buffers.
fn deep_daemon(host: &Host) -> Result<Daemon> {
    let mut profile =
        "mtu_bytes = 1500\nport_buffer_bytes = 4_000_000\n[[queue]]\nnumber = 0\n".to_owned();
    for queue in 1..=7 {
        let dscp = 4 * queue - 1;
        profile += &format!("[[queue]]\nnumber = {queue}\ndscp = [{dscp}]\nlimit_mtus = 88\n");
    }
    let path: PathBuf = host.folder().join("profile.toml");
    fs::write(&path, profile)?;
    let path = path.to_str().context("an odd name for a temporary folder")?;
    host.daemon(&["--rate-max", "10gbit", "--profile", path])
}

/// The captured DATA with the lengths of its frames. A GSO buffer is one frame.
fn data(mut tap: Capture) -> Result<Vec<(Frame, usize)>> {
    let frames = tap.take_whole(usize::MAX)?.into_iter();
    let frames = frames.map(|(frame, bytes)| (frame, bytes.len()));
    Ok(frames.filter(|(frame, _)| frame.kind == Kind::Data).collect())
}
