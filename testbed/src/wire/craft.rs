//! Hand-made packets.

use anyhow::{Context, Result, bail};
use atp_common::wire::{Fields, Header, Kind};
use etherparse::PacketBuilder;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

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
    spoof(source.into(), destination.into(), payloads)
}

/// Like [`spoof_v4`], for addresses of either family.
///
/// # Errors
/// The addresses have different families, or the kernel refuses.
pub fn spoof(source: SocketAddr, destination: SocketAddr, payloads: &[Vec<u8>]) -> Result<()> {
    let (from, to) = (source.ip(), destination.ip());
    let ip = || match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            Ok(PacketBuilder::ipv4(from.octets(), to.octets(), TTL))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            Ok(PacketBuilder::ipv6(from.octets(), to.octets(), TTL))
        }
        _ => bail!("{source} and {destination} have different families"),
    };
    // The address of a raw socket of IPv6 has no port.
    let at = SocketAddr::new(to, 0);
    let raw = Protocol::from(libc::IPPROTO_RAW);
    let socket = Socket::new(Domain::for_address(at), Type::RAW, Some(raw));
    let socket = socket.context("a raw socket")?;
    for payload in payloads {
        let mut packet = Vec::new();
        ip()?.udp(source.port(), destination.port()).write(&mut packet, payload)?;
        socket.send_to(&packet, &at.into()).context("sending a forged packet")?;
    }
    Ok(())
}
