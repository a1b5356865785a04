//! UDP between the testbed's hosts.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Result;
use socket2::{Domain, Protocol, Socket, Type};
use testbed::Host;

/// The payload of a full packet: 1,500 bytes with the headers of IPv6 and UDP.
const PAYLOAD: [u8; 1_452] = [0x55; 1_452];
/// The length of a full packet's frame over IPv4.
pub const FRAME_BYTES: u64 = 14 + 20 + 8 + PAYLOAD.len() as u64;
/// A port without a listener; the ICMP errors are few and small.
const PORT: u16 = 9;

/// Sends `packets` packets to `to` as fast as the NIC takes them, or fewer if `duration` ends
/// first. Returns the number of packets sent.
pub fn blast(from: &Host, to: IpAddr, dscp: u8, packets: u64, duration: Duration) -> Result<u64> {
    from.namespace.enter(|| {
        let socket = open(to, dscp)?;
        let deadline = Instant::now() + duration;
        let mut sent = 0;
        while sent < packets && Instant::now() < deadline {
            socket.send_to(&PAYLOAD, &SocketAddr::new(to, PORT).into())?;
            sent += 1;
        }
        Ok(sent)
    })
}

fn open(to: IpAddr, dscp: u8) -> Result<Socket> {
    let class = u32::from(dscp) << 2;
    Ok(match to {
        IpAddr::V4(_) => {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
            socket.set_tos_v4(class)?;
            socket
        }
        IpAddr::V6(_) => {
            let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
            socket.set_tclass_v6(class)?;
            socket
        }
    })
}
