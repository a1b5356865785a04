//! Bursts: superpackets that cross a cable whole, or are cut up on the way, over both families.

use anyhow::{Context, Result, ensure};
use atp_common::wire::{Flags, Kind};
use libtest_mimic::Trial;
use std::{fs, path::PathBuf};
use testbed::{
    self, Daemon, Family, Host, Load, Pair, Star, Transfer,
    wire::{Capture, Checksum, Frame},
};

// What every pacing backend has to do; the others' superpackets come to it alike.
crate::trials! {
    superpackets__whole_v6,
}

/// What has nothing to do with pacing.
pub fn others() -> Vec<Trial> {
    vec![
        crate::trial("superpackets__whole_v4", testbed::missing, superpackets__whole_v4),
        crate::trial("superpackets__cut_up_v4", testbed::missing, superpackets__cut_up_v4),
        crate::trial("superpackets__cut_up_v6", testbed::missing, superpackets__cut_up_v6),
    ]
}

/// 72 packets each: bursts of 44 and of what is left.
const LOAD: Load = Load::pieces(60, 100_000);
/// An Ethernet frame without offloads.
const FRAME_BYTES_MAX: usize = 1_514;

fn superpackets__whole_v4() -> Result<()> {
    superpackets_whole(Family::V4)
}

fn superpackets__whole_v6() -> Result<()> {
    superpackets_whole(Family::V6)
}

fn superpackets__cut_up_v4() -> Result<()> {
    superpackets_cut_up(Family::V4)
}

fn superpackets__cut_up_v6() -> Result<()> {
    superpackets_cut_up(Family::V6)
}

fn superpackets_whole(family: Family) -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (deep_daemon(&pair.a)?, deep_daemon(&pair.b)?);
    let tap = Capture::start(&pair.b)?;
    burst((&pair.a, &a), (&pair.b, &b), family)?;
    let data = data(tap)?;
    let (long, short): (Vec<_>, Vec<_>) = data.iter().partition(|(_, len)| *len > FRAME_BYTES_MAX);
    ensure!(!long.is_empty(), "no superpacket among {} packets", short.len());
    let unasked = long.iter().find(|(frame, _)| !frame.header.flags().contains(Flags::NO_ACK));
    ensure!(unasked.is_none(), "a superpacket that asks for an ACK of each: {unasked:?}");
    Ok(())
}

/// A router's port makes segments of them, with checksums of their own.
fn superpackets_cut_up(family: Family) -> Result<()> {
    let star = Star::new(2)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    star.router.run("ethtool -K port1 tx off")?;
    to.offload("gro off")?;
    let (from_daemon, to_daemon) = (deep_daemon(from)?, deep_daemon(to)?);
    let (before, behind) = (Capture::start(from)?, Capture::start(to)?);
    burst((from, &from_daemon), (to, &to_daemon), family)?;
    let whole = data(before)?.iter().filter(|(_, len)| *len > FRAME_BYTES_MAX).count();
    ensure!(whole > 0, "no superpacket left");
    let segments = data(behind)?;
    ensure!(segments.len() > whole, "{} packets of {whole} superpackets", segments.len());
    for (frame, len) in &segments {
        ensure!(*len <= FRAME_BYTES_MAX, "a superpacket behind the router: {frame:?}");
        ensure!(frame.checksum == Checksum::Right, "{frame:?}");
    }
    Ok(())
}

/// A job as fast as its lane begins, whose promise is kept, and which was asked about.
fn burst(from: (&Host, &Daemon), to: (&Host, &Daemon), family: Family) -> Result<()> {
    let ((from, from_daemon), (to, to_daemon)) = (from, to);
    Transfer { from, from_daemon, to, to_daemon, family, load: LOAD, msr: 0.8 }.run()?;
    for host in [from, to] {
        let errors = host.checksum_errors()?;
        ensure!(errors == 0, "{errors} packets were refused for their checksum");
    }
    let (ours, theirs) = (from_daemon.stats()?.counters, to_daemon.stats()?.counters);
    let all = format!("sender {ours:?}, receiver {theirs:?}");
    ensure!(theirs["probe_answered"] > 0 && ours["probe_news"] > 0, "nobody asked: {all}");
    for counter in ["malformed", "unsendable", "ack_forged", "ack_unknown", "probe_failed"] {
        ensure!(ours[counter] + theirs[counter] == 0, "{counter}: {all}");
    }
    Ok(())
}

/// A daemon for switches whose queues take a whole superpacket twice.
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

/// DATA that a tap saw, superpackets as one, with the lengths of their frames.
fn data(mut tap: Capture) -> Result<Vec<(Frame, usize)>> {
    let frames = tap.take_whole(usize::MAX)?.into_iter();
    let frames = frames.map(|(frame, bytes)| (frame, bytes.len()));
    Ok(frames.filter(|(frame, _)| frame.kind == Kind::Data).collect())
}
