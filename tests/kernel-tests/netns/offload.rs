//! Tests that checksums stay right, both if the interface computes them and if the kernel does. A
//! veth interface leaves them open.

use anyhow::{Result, ensure};
use atp_common::wire::Kind;
use testbed::{
    Family, Load, Pair, Star, Transfer,
    wire::{Capture, Checksum, Frame},
};

crate::trials! {
    offload__tx_checksum_on_v4,
    offload__tx_checksum_on_v6,
    offload__tx_checksum_off_v4,
    offload__tx_checksum_off_v6,
    offload__tx_checksum_off_behind_a_router,
}

const LOAD: Load = Load::lines(1_000, 600);

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

/// A router's interfaces compute the checksums that the host's interface left open.
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

/// Runs a job between two hosts with this setting. Returns the frames at the receiver.
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
        ensure!(errors == 0, "{errors} packets with a wrong checksum");
    }
    capture.finish()
}

fn expect_checksums(frames: &[Frame]) -> Result<()> {
    // A slow lane gets an ACK per packet, a fast lane sends probes.
    let acked = [Kind::Ack, Kind::ProbeAck];
    let kinds = [&[Kind::Data][..], &acked, &[Kind::Receipt], &[Kind::Fin], &[Kind::FinAck]];
    for kinds in kinds {
        let of_kinds: Vec<_> = frames.iter().filter(|frame| kinds.contains(&frame.kind)).collect();
        ensure!(!of_kinds.is_empty(), "no {kinds:?} was captured");
        let bad = of_kinds.iter().filter(|frame| frame.checksum != Checksum::Right).count();
        ensure!(bad == 0, "{bad} of {} {kinds:?} have a bad checksum", of_kinds.len());
    }
    Ok(())
}
