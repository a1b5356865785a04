//! Hand-made packets.

use anyhow::{Context, Result};
use atp_common::wire::{Fields, Header, Kind};
use etherparse::PacketBuilder;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddrV4;

const TTL: u8 = 64;

/// The fields of the only packet of message `message` of a job.
pub const fn data(job: u32, cookie: u32, message: u32) -> Fields {
    Fields { job, cookie, message, count: 1, slot: message, ..Fields::of(Kind::Data) }
}

/// An ATP header followed by `body`.
pub fn payload(fields: &Fields, body: &[u8]) -> Vec<u8> {
    [Header::new(fields).as_bytes(), body].concat()
}

/// Sends UDP packets with a forged source address from the calling thread's network.
pub fn spoof_v4(
    source: SocketAddrV4,
    destination: SocketAddrV4,
    payloads: &[Vec<u8>],
) -> Result<()> {
    let raw = Protocol::from(libc::IPPROTO_RAW);
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(raw)).context("a raw socket")?;
    for payload in payloads {
        let mut packet = Vec::new();
        PacketBuilder::ipv4(source.ip().octets(), destination.ip().octets(), TTL)
            .udp(source.port(), destination.port())
            .write(&mut packet, payload)?;
        socket.send_to(&packet, &destination.into()).context("sending a forged packet")?;
    }
    Ok(())
}
