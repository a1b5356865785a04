//! Tests the discovery of the path MTU: from the interface, from the route, and from ICMP errors of
//! a router.

use crate::library::LibraryJob;
use anyhow::{Result, ensure};
use approxlib::JobBuilder;
use atp_common::wire::{HEADER_LEN, Kind};
use testbed::{
    DEVICE, Daemon, Family, Host, Pair, Star,
    faults::{Injection, Trouble, wired_star},
    v4_counter,
    wire::Capture,
};

crate::trials! {
    path_mtu__of_the_interface_576,
    path_mtu__receipts_on_576,
    path_mtu__of_the_interface_1280,
    path_mtu__of_the_interface_9000,
    path_mtu__of_the_route,
    path_mtu__narrower_behind_a_router_v4,
    path_mtu__narrower_behind_a_router_v6,
}

/// The most message bytes that a receiver has room for in one packet.
const PAYLOAD_BYTES_MAX: usize = 8_900;
const ETHERNET_LEN: usize = 14;
const MESSAGES: u32 = 60;

/// IPv6 is left out, because its least MTU is 1,280.
fn path_mtu__of_the_interface_576() -> Result<()> {
    of_the_interface(576, &[Family::V4])
}

/// Receipts list the complete messages between incomplete ones. With many messages a receipt
/// exceeds the MTU of the sender's cable, which the receiver's host learns only from the router.
/// The host then fragments it.
fn path_mtu__receipts_on_576() -> Result<()> {
    const MTU: usize = 576;
    let star = wired_star(2)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    star.router.run(&format!("ip link set port0 mtu {MTU}"))?;
    set_mtu(from, MTU)?;
    let loss = Trouble::loss(0.1);
    let _injection = Injection::start(&star.router, &loss, &loss)?;
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "40mbit"])?, to.daemon(&[])?);
    let job = LibraryJob::new((from, &from_daemon), (to, &to_daemon));
    // The length of a receipt depends on the lost messages.
    for _ in 0..10 {
        LibraryJob { messages: 10_000, msr: 0.8, ..job }.run()?;
        let statistics = to.namespace.read("/proc/net/snmp")?;
        if v4_counter(&statistics, "Ip:", "FragCreates") > Some(0) {
            return Ok(());
        }
    }
    anyhow::bail!("in ten jobs no receipt was longer than the path")
}

fn path_mtu__of_the_interface_1280() -> Result<()> {
    of_the_interface(1_280, &[Family::V4, Family::V6])
}

fn path_mtu__of_the_interface_9000() -> Result<()> {
    of_the_interface(9_000, &[Family::V4, Family::V6])
}

fn of_the_interface(mtu: usize, families: &[Family]) -> Result<()> {
    let pair = Pair::new()?;
    for host in [&pair.a, &pair.b] {
        set_mtu(host, mtu)?;
    }
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    families.iter().try_for_each(|family| {
        let lens = lens_at_the_receiver((&pair.a, &a), (&pair.b, &b), *family)?;
        expect_full(&lens, mtu, *family)
    })
}

fn path_mtu__of_the_route() -> Result<()> {
    const MTU: usize = 1_000;
    let pair = Pair::new()?;
    pair.a.namespace.run(&format!("ip route change 10.99.0.0/24 dev {DEVICE} mtu {MTU}"))?;
    set_segmentation(&pair.a)?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let lens = lens_at_the_receiver((&pair.a, &a), (&pair.b, &b), Family::V4)?;
    expect_full(&lens, MTU, Family::V4)
}

fn path_mtu__narrower_behind_a_router_v4() -> Result<()> {
    narrower_behind_a_router(Family::V4, 576)
}

/// The sender tries this MTU only after an ICMP error.
fn path_mtu__narrower_behind_a_router_v6() -> Result<()> {
    narrower_behind_a_router(Family::V6, 1_340)
}

/// The sender's cable takes 9,000 bytes and the receiver's fewer. The router reports it by ICMP.
fn narrower_behind_a_router(family: Family, mtu: usize) -> Result<()> {
    const WIDE: usize = 9_000;
    let star = Star::new(2)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    for (port, host, mtu) in [("port0", from, WIDE), ("port1", to, mtu)] {
        star.router.run(&format!("ip link set {port} mtu {mtu}"))?;
        set_mtu(host, mtu)?;
    }
    let (from_daemon, to_daemon) = (from.daemon(&[])?, to.daemon(&[])?);
    let tap = Capture::start(from)?;
    let lens = lens_at_the_receiver((from, &from_daemon), (to, &to_daemon), family)?;
    expect_full(&lens, mtu, family)?;
    let longest = data_lens(tap, 0)?.into_iter().map(|(len, _)| len).max();
    ensure!(longest > Some(mtu), "no packet was too long for the router: {longest:?}");
    Ok(())
}

/// The IP lengths of a job's DATA at its receiver's interface, and whether the packet must have the
/// full length: every packet of a message except the last.
fn lens_at_the_receiver<'a>(
    from: (&'a Host, &'a Daemon),
    to: (&'a Host, &'a Daemon),
    family: Family,
) -> Result<Vec<(usize, bool)>> {
    let tap = Capture::start(to.0)?;
    let options = |builder: JobBuilder| builder.payload_bytes(PAYLOAD_BYTES_MAX as u32);
    let job = LibraryJob::new(from, to);
    LibraryJob { family, messages: MESSAGES, msr: 0.8, message, options, ..job }.run()?;
    for (host, _) in [from, to] {
        let errors = host.checksum_errors()?;
        ensure!(errors == 0, "{errors} packets with a wrong checksum");
    }
    data_lens(tap, MESSAGES as usize)
}

fn data_lens(mut tap: Capture, least: usize) -> Result<Vec<(usize, bool)>> {
    let frames = tap.take_whole(usize::MAX)?;
    let data = frames.iter().filter(|(frame, _)| frame.kind == Kind::Data);
    let lens: Vec<_> = data
        .map(|(frame, bytes)| {
            (bytes.len() - ETHERNET_LEN, frame.header.index() + 1 < frame.header.count())
        })
        .collect();
    ensure!(lens.len() > least, "only {} packets were captured", lens.len());
    Ok(lens)
}

/// Checks that every packet that must have the full length has it, and that none is longer.
fn expect_full(lens: &[(usize, bool)], mtu: usize, family: Family) -> Result<()> {
    let headers = HEADER_LEN + if family == Family::V6 { 48 } else { 28 };
    let full = mtu.min(PAYLOAD_BYTES_MAX + headers);
    let full_ones = lens.iter().filter(|(_, is_full)| *is_full);
    ensure!(full_ones.clone().count() * 2 > lens.len(), "few packets had to have the full length");
    let other = full_ones.clone().find(|(len, _)| *len != full);
    ensure!(other.is_none(), "{family:?}: {other:?} instead of {full} bytes");
    let longer = lens.iter().find(|(len, _)| *len > full);
    ensure!(longer.is_none(), "{family:?}: {longer:?} on a path of {mtu} bytes");
    Ok(())
}

/// A message of several packets on every path.
fn message(id: u32) -> Vec<u8> {
    (0..30_000u32).map(|at| (id.wrapping_mul(31) ^ at.wrapping_mul(7) ^ (at >> 8)) as u8).collect()
}

fn set_mtu(host: &Host, mtu: usize) -> Result<()> {
    host.namespace.run(&format!("ip link set {DEVICE} mtu {mtu}"))?;
    set_segmentation(host)
}

/// The sending host segments GSO buffers, as a NIC would, and the receiver does not merge them.
fn set_segmentation(host: &Host) -> Result<()> {
    host.offload("tx-udp-segmentation off tso off gro off")
}
