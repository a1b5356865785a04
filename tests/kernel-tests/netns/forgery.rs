//! Tests forged packets of a third host that knows everything about a job except its cookie.

use anyhow::{Context, Result, ensure};
use approxlib::Receiver;
use atp_common::wire::{Fields, Flags, HEADER_LEN, Header, Kind, ProbeBody, probe_packet};
use std::{
    net::{SocketAddrV4, UdpSocket},
    time::Duration,
};
use testbed::{Daemon, Family, Load, PORT, Star, Transfer, wait_for, wire};

crate::trials! {
    forgery__acks_change_nothing,
    forgery__resets_and_receipts_change_nothing,
    forgery__garbage_at_the_receiver_is_counted,
    forgery__strangers_replace_no_record_of_a_known_source,
}

/// A load of 10 s at 10 Mbit/s: longer than the attack, also on an emulated machine.
const LOAD: Load = Load::lines(12_000, 1_000);
const FORGED: u32 = 500;

fn forgery__acks_change_nothing() -> Result<()> {
    attacked(
        |star, sender, job| {
            let receiver = SocketAddrV4::new(star.hosts[1].ipv4, PORT);
            let intruder = SocketAddrV4::new(star.hosts[2].ipv4, PORT);
            let acks: Vec<_> = (0..FORGED).map(|slot| forged(job, Kind::Ack, slot)).collect();
            star.hosts[2].namespace.enter(|| {
                wire::spoof_v4(receiver, sender, &acks)?;
                wire::spoof_v4(intruder, sender, &acks)
            })
        },
        |daemon| {
            // The programs count only the ACKs with the receiver's address. Those with the
            // intruder's address belong to no flow, and the library refuses them.
            wait_for("the forged ACKs to be counted", || {
                let forged = daemon.stats()?.counters["ack_forged"];
                Ok((forged == u64::from(FORGED)).then_some(()))
            })
        },
    )
}

fn forgery__resets_and_receipts_change_nothing() -> Result<()> {
    attacked(
        |star, sender, job| {
            let receiver = SocketAddrV4::new(star.hosts[1].ipv4, PORT);
            let mut packets = Vec::new();
            for _ in 0..20 {
                packets.push(wire::payload(&fields(job, Kind::Reset, 0), &[]));
                // The body claims all messages: cumulative, delivered, arrived.
                let body: Vec<u8> =
                    [LOAD.messages; 3].iter().flat_map(|n| n.to_be_bytes()).collect();
                packets.push(wire::payload(&fields(job, Kind::Receipt, 0), &body));
            }
            star.hosts[2].namespace.enter(|| wire::spoof_v4(receiver, sender, &packets))
        },
        |_| Ok(()),
    )
}

/// Sends truncated and damaged packets to a job's receiver.
fn forgery__garbage_at_the_receiver_is_counted() -> Result<()> {
    const PACKETS: u64 = 300;
    let star = Star::new(3)?;
    let (from, to) = (&star.hosts[0], &star.hosts[1]);
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "10mbit"])?, to.daemon(&[])?);
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let transfer =
        Transfer { from, from_daemon, to, to_daemon, family: Family::V4, load: LOAD, msr: 0.8 };
    let (mut sending, receiving) = transfer.start()?;
    wait_for("the job to begin", || Ok((to_daemon.counter("data_arrived")? > 100).then_some(())))?;
    let good = wire::payload(&wire::data(7, 7, 7), &[0; 200]);
    let garbage: Vec<_> = (0..PACKETS as usize).map(|number| damaged(&good, number)).collect();
    let (intruder, port) = (&star.hosts[2], SocketAddrV4::new(to.ipv4, PORT));
    intruder
        .namespace
        .enter(|| wire::spoof_v4(SocketAddrV4::new(intruder.ipv4, 999), port, &garbage))?;
    wait_for("the garbage to be counted", || {
        Ok((to_daemon.counter("malformed")? == PACKETS).then_some(()))
    })?;
    ensure!(sending.is_running()?, "the job was over before the attack was");
    transfer.finish(sending, receiving).map(drop)
}

/// A source that the receiving library has admitted keeps its record of arrivals, while a stranger
/// sends DATA without ACKs under 10,000 cookies.
fn forgery__strangers_replace_no_record_of_a_known_source() -> Result<()> {
    const STRANGERS: u32 = 10_000;
    const COOKIE: u32 = 0x0123_4567;
    let star = Star::new(3)?;
    let (known, to, intruder) = (&star.hosts[0], &star.hosts[1], &star.hosts[2]);
    let daemon = to.daemon(&[])?;
    let receiver = to.namespace.enter(|| {
        let builder = Receiver::builder().control_socket(Some(daemon.socket().to_owned()));
        Ok(builder.bind(to.endpoint(Family::V4, PORT))?)
    })?;
    ensure!(receiver.datapath() == "ebpf");
    let address = SocketAddrV4::new(to.ipv4, PORT);
    let socket = known.namespace.enter(|| {
        let socket = UdpSocket::bind((known.ipv4, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(socket)
    })?;
    let fields = |cookie, slot| Fields { flags: Flags::NO_ACK, ..wire::data(7, cookie, slot) };
    socket.send(&wire::payload(&fields(COOKIE, 0), b"a message"))?;
    // The library's RECEIPT shows that it knows the source.
    next_of_kind(&socket, Kind::Receipt)?;
    socket.send(&wire::payload(&fields(COOKIE, 1), b"another"))?;
    let flood: Vec<_> = (0..STRANGERS)
        .map(|n| wire::payload(&fields(n.wrapping_mul(2_654_435_761) | 1 << 31, n), b"x"))
        .collect();
    intruder
        .namespace
        .enter(|| wire::spoof_v4(SocketAddrV4::new(intruder.ipv4, 999), address, &flood))?;
    wait_for("the strangers' packets to be counted", || {
        Ok((daemon.counter("data_arrived")? == u64::from(STRANGERS) + 2).then_some(()))
    })?;
    let probe = Fields { kind: Kind::Probe, index: 1, count: 0, ..wire::data(7, COOKIE, 0) };
    let header = Header::new(&Fields { message: 256, ..probe });
    socket.send(&probe_packet(&header))?;
    let answer = next_of_kind(&socket, Kind::ProbeAck)?;
    let body = ProbeBody::parse(&answer[HEADER_LEN..]).context("the answer's length")?;
    ensure!(body.word(0) == 0b11, "the record is {:b}", body.word(0));
    // The stranger has one address, so it got no more than its share of the places.
    ensure!(receiver.stats().sources <= 194, "{:?}", receiver.stats());
    Ok(())
}

/// The next packet of this kind.
fn next_of_kind(socket: &UdpSocket, kind: Kind) -> Result<Vec<u8>> {
    let mut bytes = [0; 2_000];
    loop {
        let len = socket.recv(&mut bytes).with_context(|| format!("waiting for {kind:?}"))?;
        if Header::parse(&bytes[..len]).is_ok_and(|(_, found)| found == kind) {
            return Ok(bytes[..len].to_vec());
        }
    }
}

/// An invalid packet: truncated, or with one of its first three bytes changed.
fn damaged(good: &[u8], number: usize) -> Vec<u8> {
    let mut packet = good.to_vec();
    match number % 4 {
        0 => packet.truncate(number % 32),
        // The bytes of the magic, of version and kind, and of the flags.
        at => packet[at - 1] ^= 0xff,
    }
    packet
}

/// Runs a job from host 0 to host 1. In its middle, runs `attack` with the sender's address and
/// job, then `check` with the sender's daemon. The job must keep its promise.
fn attacked(
    attack: impl FnOnce(&Star, SocketAddrV4, u32) -> Result<()>,
    check: impl FnOnce(&Daemon) -> Result<()>,
) -> Result<()> {
    let star = Star::new(3)?;
    let (from, to) = (&star.hosts[0], &star.hosts[1]);
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "10mbit"])?, to.daemon(&[])?);
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let transfer =
        Transfer { from, from_daemon, to, to_daemon, family: Family::V4, load: LOAD, msr: 0.8 };
    let (mut sending, receiving) = transfer.start()?;
    let job = wait_for("the job to begin", || {
        let stats = from_daemon.stats()?;
        Ok(stats.lanes.first().filter(|_| stats.counters["ack_news"] > 100).map(|lane| lane.job))
    })?;
    let ports = from.ports_connected_to(PORT)?;
    let port = *ports.first().context("the sender's socket is not in /proc/net/udp")?;
    attack(&star, SocketAddrV4::new(from.ipv4, port), job)?;
    check(from_daemon)?;
    ensure!(sending.is_running()?, "the job was over before the attack was");
    transfer.finish(sending, receiving).map(drop)
}

fn forged(job: u32, kind: Kind, slot: u32) -> Vec<u8> {
    wire::payload(&fields(job, kind, slot), &[])
}

fn fields(job: u32, kind: Kind, slot: u32) -> Fields {
    Fields { kind, slot, ..wire::data(job, 0x0bad_c0de, slot) }
}
