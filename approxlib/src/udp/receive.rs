//! Receives a batch of packets in one system call, into buffers that are reused.

use super::{BATCH, socket::UdpSocket};
use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::AsRawFd,
    ptr,
};

/// Room for one packet: the largest payload at an MTU of 9,000 bytes. Longer packets are truncated
/// and dropped.
const PACKET_BYTES_MAX: usize = 9_216;

/// Room for four control messages: the traffic class, the segment length of a GRO buffer, the
/// destination, and the arrival interface with an IPv6 address.
const CONTROL_BYTES: usize = 192;

/// Buffers for [`BATCH`] packets of a connected socket, which receives from its peer only.
pub struct ReceiveBatch {
    payloads: Box<[u8]>,
    /// Length of each received packet, and whether the packet is complete.
    arrived: Vec<(usize, bool)>,
}

/// Control messages from the kernel beside a packet (cmsg(3)).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct Control([u8; CONTROL_BYTES]);

impl Control {
    pub const EMPTY: Self = Self([0; CONTROL_BYTES]);

    /// The first `len` bytes, which the kernel wrote.
    pub fn written(&self, len: usize) -> &[u8] {
        &self.0[..CONTROL_BYTES.min(len)]
    }
}

impl ReceiveBatch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self {
            payloads: vec![0; BATCH * PACKET_BYTES_MAX].into(),
            arrived: Vec::with_capacity(BATCH),
        }
    }

    /// Whether every buffer was used: then more packets may wait.
    pub fn is_full(&self) -> bool {
        self.arrived.len() == BATCH
    }

    /// Receives waiting packets without blocking, and replaces those of the last call. Returns the
    /// number of packets, 0 if none waits.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.arrived.clear();
        // SAFETY: all-zero is a valid iovec (null, empty) and mmsghdr.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let payloads = self.payloads.chunks_exact_mut(PACKET_BYTES_MAX);
        for ((payload, vector), message) in payloads.zip(&mut vectors).zip(&mut messages) {
            *vector = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
            message.msg_hdr.msg_iov = ptr::from_mut(vector);
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: every pointer in `messages` points into `vectors`, and from there into `self`'s
        // buffers, with their true lengths; all outlive the call.
        let received = unsafe { receive_into(socket, &mut messages) }?;
        self.arrived.extend(messages[..received].iter().map(|message| {
            let complete = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            (message.msg_len as usize, complete)
        }));
        Ok(received)
    }

    /// The packets received last, without those that were truncated: no ATP peer sends them.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let arrived = self.arrived.iter().zip(self.payloads.chunks_exact(PACKET_BYTES_MAX));
        arrived
            .filter(|((_, complete), _)| *complete)
            .filter_map(|((len, _), bytes)| bytes.get(..*len))
    }
}

/// Receives into `messages` without blocking, and returns how many were filled, 0 if none waits.
///
/// # Safety
/// Every pointer in `messages` is null, or points to memory of the length given beside it.
pub unsafe fn receive_into(
    socket: &UdpSocket,
    messages: &mut [libc::mmsghdr],
) -> io::Result<usize> {
    // SAFETY: as the caller promises.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            messages.len() as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    usize::try_from(received).or_else(|_| {
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        }
    })
}

/// The address that the kernel wrote; `None` if it is not an IP address.
pub fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: a sockaddr_storage holds, and is aligned for, every socket address; the
            // family says that the kernel wrote a sockaddr_in.
            let v4 = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, with a sockaddr_in6.
            let v6 = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The information in control messages; 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketInfo {
    pub traffic_class: u8,
    pub segment_len: usize,
    /// The index of the arrival interface.
    pub interface: u32,
    /// The destination, if it isn't a multicast or broadcast address of all networks.
    pub local: Option<IpAddr>,
}

/// Reads control messages: the traffic class is one byte over IPv4 (IP_TOS) and an int over IPv6
/// (IPV6_TCLASS), the segment length of a GRO buffer is an int (UDP_GRO). The arrival interface
/// begins struct in_pktinfo, and follows the address in struct in6_pktinfo. The destination is a
/// sockaddr_in or sockaddr_in6.
pub fn read_control(mut control: &[u8]) -> PacketInfo {
    // struct cmsghdr: length (usize), level (int), type (int), then the data, padded to a usize.
    const LEVEL: usize = size_of::<usize>();
    const DATA: usize = LEVEL + 8;
    let mut info = PacketInfo::default();
    while let Some(len) = control.first_chunk() {
        let len = usize::from_ne_bytes(*len);
        let Some(message) = control.get(..len).filter(|_| len >= DATA) else { break };
        let int = |at: usize| {
            message.get(at..at + 4)?.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
        };
        match (int(LEVEL), int(LEVEL + 4)) {
            (Some(libc::IPPROTO_IP), Some(libc::IP_TOS)) => {
                info.traffic_class = message.get(DATA).copied().unwrap_or(0);
            }
            (Some(libc::IPPROTO_IPV6), Some(libc::IPV6_TCLASS)) => {
                info.traffic_class = int(DATA).map_or(0, |class| class as u8);
            }
            (Some(libc::SOL_UDP), Some(libc::UDP_GRO)) => {
                info.segment_len = int(DATA).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
            }
            (Some(libc::IPPROTO_IP), Some(libc::IP_PKTINFO)) => {
                info.interface = int(DATA).map_or(0, |index| index as u32);
            }
            (Some(libc::IPPROTO_IPV6), Some(libc::IPV6_PKTINFO)) => {
                info.interface = int(DATA + size_of::<Ipv6Addr>()).map_or(0, |index| index as u32);
            }
            (Some(libc::IPPROTO_IP), Some(libc::IP_ORIGDSTADDR)) => {
                let ip = message.get(DATA + 4..).and_then(<[u8]>::first_chunk);
                info.local = ip.map(|ip: &[u8; 4]| Ipv4Addr::from(*ip).into());
            }
            (Some(libc::IPPROTO_IPV6), Some(libc::IPV6_ORIGDSTADDR)) => {
                let ip = message.get(DATA + 8..).and_then(<[u8]>::first_chunk);
                info.local = ip.map(|ip: &[u8; 16]| Ipv6Addr::from(*ip).to_canonical());
            }
            _ => {}
        }
        control = control.get(len.next_multiple_of(LEVEL)..).unwrap_or_default();
    }
    let is_broadcast = |ip: &IpAddr| matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    info.local = info.local.filter(|ip| !ip.is_multicast() && !is_broadcast(ip));
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{GroBatch, Outgoing, SendBatch};
    use atp_proto::endpoint::Buffer as _;

    #[test]
    fn receive__returns_the_packets_of_the_peer() {
        for (bind, to) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
            let far = std::net::UdpSocket::bind(bind).unwrap();
            let port = far.local_addr().unwrap().port();
            let near = UdpSocket::connect(format!("{to}:{port}").parse().unwrap()).unwrap();
            let mut batch = ReceiveBatch::new();
            assert_eq!(batch.receive(&near).unwrap(), 0);
            let back = near.local_addr().unwrap();
            for bytes in [&b"abcde"[..], b"", b"f"] {
                far.send_to(bytes, back).unwrap();
            }
            assert_eq!(batch.receive(&near).unwrap(), 3);
            assert!(batch.packets().eq([&b"abcde"[..], b"", b"f"]) && !batch.is_full());
            assert_eq!(batch.receive(&near).unwrap(), 0);
            assert_eq!(batch.packets().count(), 0);
        }
    }

    /// A host with several addresses: a connected sender takes answers from one of them only.
    #[test]
    fn ends__an_answer_comes_from_the_address_that_was_asked() {
        for (bind, asked) in [
            ("0.0.0.0:0", "127.0.0.5"),
            ("[::]:0", "127.0.0.5"),
            ("[::]:0", "[::1]"),
            ("127.0.0.5:0", "127.0.0.5"),
        ] {
            let far = UdpSocket::bind(bind.parse().unwrap()).unwrap();
            let port = far.local_addr().unwrap().port();
            let asked: SocketAddr = format!("{asked}:{port}").parse().unwrap();
            let near = UdpSocket::connect(asked).unwrap();
            let mut send = SendBatch::new();
            send.send(&near, &[Outgoing::control(b"packet")]).unwrap();
            let mut received = GroBatch::new();
            assert_eq!(received.receive(&far).unwrap(), 1);
            let ends = received.buffers().next().unwrap().ends();
            assert_eq!(ends.local, (!bind.starts_with("127")).then_some(asked.ip()), "{bind}");
            let answer = Outgoing { to: Some(ends), ..Outgoing::control(b"answer") };
            send.send(&far, &[answer]).unwrap();
            let mut batch = ReceiveBatch::new();
            assert_eq!(batch.receive(&near).unwrap(), 1, "{bind} {asked}");
            assert!(batch.packets().eq([b"answer"]));
        }
    }

    #[test]
    fn packets__leaves_out_truncated_packets() {
        let far = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::connect(far.local_addr().unwrap()).unwrap();
        let back = near.local_addr().unwrap();
        far.send_to(&[0; PACKET_BYTES_MAX + 1], back).unwrap();
        far.send_to(&[1; PACKET_BYTES_MAX], back).unwrap();
        let mut batch = ReceiveBatch::new();
        assert_eq!(batch.receive(&near).unwrap(), 2);
        let complete: Vec<_> = batch.packets().map(|packet| packet[0]).collect();
        assert_eq!(complete, [1]);
    }

    #[test]
    fn take_errors__reports_a_closed_port() {
        // Connected to itself: it receives from no other socket, and keeps the port in use.
        let holder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let closed = holder.local_addr().unwrap();
        holder.connect(closed).unwrap();
        let sender = UdpSocket::connect(closed).unwrap();
        SendBatch::new().send(&sender, &[Outgoing::control(b"x")]).unwrap();
        assert!(sender.take_errors().port_unreachable);
        assert_eq!(sender.take_errors(), Default::default());
    }
}
