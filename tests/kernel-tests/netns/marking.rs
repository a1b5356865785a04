//! Tests the DSCP, which names a lane's queue to the switches (NetApprox §5.2). Nothing else of a
//! packet changes.

use anyhow::{Context, Result, ensure};
use approxlib::control::Client;
use atp_common::wire::Kind;
use socket2::SockRef;
use std::{collections::BTreeSet, net::UdpSocket, os::fd::AsFd};
use testbed::{
    Family, Load, PORT, Pair, Transfer, one_group,
    wire::{self, Capture, Frame},
};

crate::trials! {
    marking__data_carries_its_queue_v4,
    marking__data_carries_its_queue_v6,
    marking__profile_sets_the_code_points,
    marking__ecn_bits_are_kept_v4,
    marking__ecn_bits_are_kept_v6,
}

/// The DSCPs of queues 1 to 7 in the default profile.
const APPROXIMATE: [u8; 7] = [3, 7, 11, 15, 19, 23, 27];
/// The DSCP of queue 4, the queue of TLR 0.5 (NetApprox §7.1.2, Figure 10).
const QUEUE_FOUR: u8 = 15;
const LOAD: Load = Load::lines(1_000, 600);

fn marking__data_carries_its_queue_v4() -> Result<()> {
    expect_marks(&frames_of_a_job(Family::V4, &[])?, QUEUE_FOUR, &APPROXIMATE)
}

fn marking__data_carries_its_queue_v6() -> Result<()> {
    expect_marks(&frames_of_a_job(Family::V6, &[])?, QUEUE_FOUR, &APPROXIMATE)
}

fn marking__profile_sets_the_code_points() -> Result<()> {
    let default = include_str!("../../../switch-profiles/default.toml");
    let mut profile = default.to_owned();
    for dscp in APPROXIMATE {
        profile = profile.replace(&format!("dscp = [{dscp}]"), &format!("dscp = [{}]", dscp + 32));
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("profile.toml");
    std::fs::write(&path, profile)?;
    let path = path.to_str().context("an odd name for a temporary folder")?;
    let frames = frames_of_a_job(Family::V4, &["--profile", path])?;
    expect_marks(&frames, QUEUE_FOUR + 32, &APPROXIMATE.map(|dscp| dscp + 32))
}

fn marking__ecn_bits_are_kept_v4() -> Result<()> {
    ecn_bits_are_kept(Family::V4)
}

fn marking__ecn_bits_are_kept_v6() -> Result<()> {
    ecn_bits_are_kept(Family::V6)
}

/// The frames that the receiver's host captures of a job of MSR 0.5.
fn frames_of_a_job(family: Family, options: &[&str]) -> Result<Vec<Frame>> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(options)?, pair.b.daemon(options)?);
    let capture = Capture::start(&pair.b)?;
    let transfer = Transfer {
        from: &pair.a,
        from_daemon: &a,
        to: &pair.b,
        to_daemon: &b,
        family,
        load: LOAD,
        msr: 0.5,
    };
    transfer.run()?;
    capture.finish()
}

fn expect_marks(frames: &[Frame], first: u8, approximate: &[u8]) -> Result<()> {
    let marks = |kind| -> Vec<_> {
        frames.iter().filter(|frame| frame.kind == kind).map(|frame| frame.dscp).collect()
    };
    let data = marks(Kind::Data);
    let begins_with = data.first().context("no DATA was captured")?;
    ensure!(*begins_with == first, "the first DATA has DSCP {begins_with}");
    let all: BTreeSet<_> = data.into_iter().collect();
    ensure!(all.iter().all(|dscp| approximate.contains(dscp)), "DATA has DSCPs {all:?}");
    // A probe takes the same queue as the packets that it asks about.
    ensure!(
        marks(Kind::Probe).iter().all(|dscp| approximate.contains(dscp)),
        "PROBEs in another queue"
    );
    for kinds in [&[Kind::Ack, Kind::ProbeAck][..], &[Kind::Receipt], &[Kind::Fin], &[Kind::FinAck]]
    {
        let all: BTreeSet<_> = kinds.iter().flat_map(|kind| marks(*kind)).collect();
        ensure!(all == [0].into(), "{kinds:?} have DSCPs {all:?}");
    }
    Ok(())
}

/// The library sets no ECN bits on approximate lanes. A socket that sets them keeps them.
fn ecn_bits_are_kept(family: Family) -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let capture = Capture::start(&pair.b)?;
    let there = pair.b.endpoint(family, PORT);
    let _listener = pair.b.namespace.enter(|| Ok(UdpSocket::bind(there)?))?;
    let here = pair.a.endpoint(family, 0);
    let socket = pair.a.namespace.enter(|| {
        let socket = UdpSocket::bind(here)?;
        socket.connect(there)?;
        Ok(socket)
    })?;
    let client = Client::connect(a.socket())?;
    let (grant, _fds) = client.sender_open(None, &one_group(500_000_000, 4), socket.as_fd())?;
    for (ecn, message) in [(0u8, 0u32), (1, 1), (2, 2), (3, 3)] {
        // The lane's DSCP replaces the application's.
        set_traffic_class(&socket, family, 46 << 2 | ecn)?;
        let fields = wire::data(grant.job, grant.cookie, message);
        socket.send(&wire::payload(&fields, &[0; 100]))?;
    }
    let frames = capture.finish()?;
    let seen: Vec<_> = frames
        .iter()
        .filter(|frame| frame.kind == Kind::Data)
        .map(|frame| (frame.header.message(), frame.dscp, frame.ecn))
        .collect();
    let expected = [(0, QUEUE_FOUR, 0), (1, QUEUE_FOUR, 1), (2, QUEUE_FOUR, 2), (3, QUEUE_FOUR, 3)];
    ensure!(seen == expected, "message, DSCP, ECN: {seen:?}");
    Ok(())
}

fn set_traffic_class(socket: &UdpSocket, family: Family, class: u8) -> Result<()> {
    let socket = SockRef::from(socket);
    match family {
        Family::V4 => socket.set_tos_v4(class.into())?,
        Family::V6 => socket.set_tclass_v6(class.into())?,
    }
    Ok(())
}
