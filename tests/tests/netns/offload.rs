//! Checksums stay right, whoever computes them: the interface (or, on veth, nobody) or the kernel
//! before it. The same goes for superpackets: whole on a cable that takes them, or cut up on the way.

use anyhow::{Context, Result, ensure};
use atp_common::wire::{Flags, Kind};
use atp_tests::hosts::{
    Daemon, Family, Host, Load, Pair, Star, Transfer,
    wire::{Capture, Checksum, Frame},
};
use std::{fs, path::PathBuf};

crate::trials! {
    offload__tx_checksum_on_v4,
    offload__tx_checksum_on_v6,
    offload__tx_checksum_off_v4,
    offload__tx_checksum_off_v6,
    offload__tx_checksum_off_behind_a_router,
    offload__superpackets_whole_v4,
    offload__superpackets_whole_v6,
    offload__superpackets_cut_up_v4,
    offload__superpackets_cut_up_v6,
}

const LOAD: Load = Load::lines(1_000, 600);
/// 72 packets each: bursts of 44 and of what is left.
const LONG: Load = Load::pieces(60, 100_000);
/// An Ethernet frame without offloads.
const FRAME_BYTES_MAX: usize = 1_514;

fn offload__tx_checksum_on_v4() -> Result<()> {
    on_a_cable(Family::V4, "on").map(drop)
}

fn offload__tx_checksum_on_v6() -> Result<()> {
    on_a_cable(Family::V6, "on").map(drop)
}

fn offload__tx_checksum_off_v4() -> Result<()> {
    expect_checksums(&on_a_cable(Family::V4, "off")?)
}

fn offload__tx_checksum_off_v6() -> Result<()> {
    expect_checksums(&on_a_cable(Family::V6, "off")?)
}

/// A router's interfaces compute what the host's left open.
fn offload__tx_checksum_off_behind_a_router() -> Result<()> {
    let star = Star::new(2)?;
    for port in ["port0", "port1"] {
        star.router.run(&format!("ethtool -K {port} tx off"))?;
    }
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&[])?, to.daemon(&[])?);
    for family in [Family::V4, Family::V6] {
        let capture = Capture::start(to)?;
        let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
        Transfer { from, from_daemon, to, to_daemon, family, load: LOAD, msr: 0.8 }.run()?;
        let frames = capture.finish()?;
        let arrived: Vec<_> = frames
            .into_iter()
            .filter(|frame| frame.destination.ip() == to.address(family))
            .collect();
        ensure!(arrived.iter().all(|frame| frame.checksum == Checksum::Right), "{family:?}");
    }
    ensure!(from.checksum_errors()? + to.checksum_errors()? == 0, "wrong checksums");
    Ok(())
}

/// Runs a job between two hosts with that setting and returns what the receiving one saw.
fn on_a_cable(family: Family, tx_checksum: &str) -> Result<Vec<Frame>> {
    let pair = Pair::new()?;
    pair.a.offload(&format!("tx {tx_checksum}"))?;
    pair.b.offload(&format!("tx {tx_checksum}"))?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let capture = Capture::start(&pair.b)?;
    let transfer = Transfer {
        from: &pair.a,
        from_daemon: &a,
        to: &pair.b,
        to_daemon: &b,
        family,
        load: LOAD,
        msr: 0.8,
    };
    transfer.run()?;
    for host in [&pair.a, &pair.b] {
        let errors = host.checksum_errors()?;
        ensure!(errors == 0, "{errors} packets were refused for their checksum");
    }
    capture.finish()
}

fn expect_checksums(frames: &[Frame]) -> Result<()> {
    // A fast lane asks for what a slow one gets packet by packet.
    let acked = [Kind::Ack, Kind::ProbeAck];
    let kinds = [&[Kind::Data][..], &acked, &[Kind::Receipt], &[Kind::Fin], &[Kind::FinAck]];
    for kinds in kinds {
        let of_kinds: Vec<_> = frames.iter().filter(|frame| kinds.contains(&frame.kind)).collect();
        ensure!(!of_kinds.is_empty(), "no {kinds:?} was seen");
        let bad = of_kinds.iter().filter(|frame| frame.checksum != Checksum::Right).count();
        ensure!(bad == 0, "{bad} of {} {kinds:?} have a bad checksum", of_kinds.len());
    }
    Ok(())
}

fn offload__superpackets_whole_v4() -> Result<()> {
    superpackets_whole(Family::V4)
}

fn offload__superpackets_whole_v6() -> Result<()> {
    superpackets_whole(Family::V6)
}

fn offload__superpackets_cut_up_v4() -> Result<()> {
    superpackets_cut_up(Family::V4)
}

fn offload__superpackets_cut_up_v6() -> Result<()> {
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
    let unasked = long.iter().find(|(frame, _)| !frame.header.flags().contains(Flags::PROBED));
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
fn burst(from: (&Host, &Daemon<'_>), to: (&Host, &Daemon<'_>), family: Family) -> Result<()> {
    let ((from, from_daemon), (to, to_daemon)) = (from, to);
    Transfer { from, from_daemon, to, to_daemon, family, load: LONG, msr: 0.8 }.run()?;
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
fn deep_daemon(host: &Host) -> Result<Daemon<'_>> {
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
