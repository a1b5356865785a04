//! Receiving: up to a batch of packets in one system call, into buffers that are used again. What the
//! kernel hands over as one superpacket is taken apart here.

use super::{BATCH, socket::UdpSocket};
use std::{
    io, mem,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::AsRawFd,
    ptr,
};

/// Room for one packet: the largest payload of a 9,000-byte MTU. What is longer is cut, and
/// refused.
const PACKET_BYTES_MAX: usize = 9_216;

/// Room for a superpacket.
const SUPERPACKET_BYTES_MAX: usize = 1 << 16;
/// Superpackets that one call receives.
const SUPERPACKETS: usize = 16;

/// Room for a traffic class and a superpacket's segment length, each in a control message.
const CONTROL_BYTES: usize = 64;

/// A packet that came in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Its payload.
    pub bytes: &'a [u8],
    /// Where from.
    pub source: SocketAddr,
    /// The traffic class: DSCP and ECN.
    pub traffic_class: u8,
}

/// Buffers for [`BATCH`] packets, or for some superpackets.
pub struct ReceiveBatch {
    payloads: Box<[u8]>,
    /// Bytes of one of them.
    room: usize,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    arrived: Vec<Arrived>,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What the kernel said of one buffer.
#[derive(Clone, Copy)]
struct Arrived {
    len: usize,
    traffic_class: u8,
    /// Bytes of a packet in it.
    segment_len: usize,
    whole: bool,
}

impl ReceiveBatch {
    /// Empty buffers for packets.
    pub fn new() -> Self {
        Self::with_room(BATCH, PACKET_BYTES_MAX)
    }

    /// Empty buffers for superpackets, which a socket that is bound receives.
    pub fn for_superpackets() -> Self {
        Self::with_room(SUPERPACKETS, SUPERPACKET_BYTES_MAX)
    }

    fn with_room(buffers: usize, room: usize) -> Self {
        Self {
            payloads: vec![0; buffers * room].into(),
            room,
            // SAFETY: all-zero is a valid sockaddr_storage (of no family).
            names: Box::new(unsafe { mem::zeroed() }),
            controls: Box::new([Control([0; CONTROL_BYTES]); BATCH]),
            arrived: Vec::with_capacity(BATCH),
        }
    }

    /// Whether every buffer was used, so that more may wait.
    pub fn is_full(&self) -> bool {
        self.arrived.len() * self.room == self.payloads.len()
    }

    /// Receives what has arrived, without blocking, in place of what was here; returns how many
    /// packets, 0 if none waits.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.arrived.clear();
        // SAFETY: all-zero is a valid iovec (null, empty) and mmsghdr.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let buffers = self.payloads.len() / self.room;
        for (i, payload) in self.payloads.chunks_exact_mut(self.room).enumerate() {
            vectors[i] = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: self.room };
            let message = &mut messages[i].msg_hdr;
            message.msg_name = ptr::from_mut(&mut self.names[i]).cast();
            message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            message.msg_iov = ptr::from_mut(&mut vectors[i]);
            message.msg_iovlen = 1;
            message.msg_control = ptr::from_mut(&mut self.controls[i]).cast();
            message.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: every pointer in `messages` points into `vectors` or into `self`'s buffers, with
        // their true lengths; all outlive the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                buffers as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        let controls = self.controls.iter();
        self.arrived.extend(messages[..received as usize].iter().zip(controls).map(
            |(message, control)| {
                let len = message.msg_len as usize;
                let control = &control.0[..CONTROL_BYTES.min(message.msg_hdr.msg_controllen as _)];
                let Said { traffic_class, segment_len } = read_control(control);
                Arrived {
                    len,
                    traffic_class,
                    // Nothing says so of a packet that came alone.
                    segment_len: if segment_len == 0 { len.max(1) } else { segment_len },
                    whole: message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0,
                }
            },
        ));
        Ok(self
            .arrived
            .iter()
            .map(|arrived| arrived.len.div_ceil(arrived.segment_len).max(1))
            .sum())
    }

    /// What arrived last; packets too long for any sender of ours, or from no IP address, are left
    /// out.
    pub fn packets(&self) -> impl Iterator<Item = Incoming<'_>> {
        let buffers = self.payloads.chunks_exact(self.room);
        let messages = self.arrived.iter().zip(buffers).zip(self.names.iter());
        messages.flat_map(|((arrived, bytes), name)| {
            let source = address(name).filter(|_| arrived.whole);
            let bytes = bytes.get(..arrived.len).unwrap_or_default();
            // An empty packet is one, too.
            let empty = (bytes.is_empty() && source.is_some()).then_some(bytes);
            let segments = bytes.chunks(arrived.segment_len).chain(empty);
            segments.filter_map(move |bytes| {
                let traffic_class = arrived.traffic_class;
                Some(Incoming { bytes, source: source?, traffic_class })
            })
        })
    }
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
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

/// What control messages say; 0 where they don't.
#[derive(Default)]
struct Said {
    traffic_class: u8,
    segment_len: usize,
}

/// Reads control messages. Of the traffic class IPv4 says one byte (IP_TOS), IPv6 an int
/// (IPV6_TCLASS); of a superpacket's segments UDP an int (UDP_GRO).
fn read_control(mut control: &[u8]) -> Said {
    // struct cmsghdr: length (usize), level (int), type (int), then the data, padded to a usize.
    const LEVEL: usize = size_of::<usize>();
    const DATA: usize = LEVEL + 8;
    let mut said = Said::default();
    while let Some(len) = control.first_chunk() {
        let len = usize::from_ne_bytes(*len);
        let Some(message) = control.get(..len).filter(|_| len >= DATA) else { break };
        let int = |at: usize| {
            message.get(at..at + 4)?.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
        };
        match (int(LEVEL), int(LEVEL + 4)) {
            (Some(libc::IPPROTO_IP), Some(libc::IP_TOS)) => {
                said.traffic_class = message.get(DATA).copied().unwrap_or(0);
            }
            (Some(libc::IPPROTO_IPV6), Some(libc::IPV6_TCLASS)) => {
                said.traffic_class = int(DATA).map_or(0, |class| class as u8);
            }
            (Some(libc::SOL_UDP), Some(libc::UDP_GRO)) => {
                said.segment_len = int(DATA).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
            }
            _ => {}
        }
        control = control.get(len.next_multiple_of(LEVEL)..).unwrap_or_default();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Outgoing, SendBatch};

    /// Sends three marked packets and returns (bytes, source port, traffic class) of each.
    fn exchange(bind: &str, peer: &str) -> Vec<(Vec<u8>, bool, u8)> {
        let receiver = UdpSocket::bind(bind.parse().unwrap()).unwrap();
        let port = receiver.local_addr().unwrap().port();
        let sender = UdpSocket::connect(format!("{peer}:{port}").parse().unwrap()).unwrap();
        let packet = |head, body| Outgoing { head, body, to: None, traffic_class: 15 << 2 };
        let packets = [packet(b"ab", b"cde"), packet(b"", b""), packet(b"f", b"")];
        assert_eq!(SendBatch::new().send(&sender, &packets).unwrap(), 3);
        let mut batch = ReceiveBatch::new();
        assert_eq!(batch.receive(&receiver).unwrap(), 3);
        let from = sender.local_addr().unwrap().port();
        let seen = |packet: Incoming<'_>| {
            (packet.bytes.to_vec(), packet.source.port() == from, packet.traffic_class)
        };
        let packets = batch.packets().map(seen).collect();
        assert_eq!(batch.receive(&receiver).unwrap(), 0);
        assert_eq!(batch.packets().count(), 0);
        packets
    }

    #[test]
    fn receive__what_was_sent_with_source_and_traffic_class() {
        let cases = [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]"), ("[::]:0", "127.0.0.1")];
        for (bind, peer) in cases {
            let packets = exchange(bind, peer);
            let expected = [b"abcde".to_vec(), b"".to_vec(), b"f".to_vec()];
            let expected: Vec<_> = expected.into_iter().map(|b| (b, true, 15 << 2)).collect();
            assert_eq!(packets, expected, "{bind}");
        }
    }

    /// One superpacket, received as one and as its segments; the last is shorter.
    #[test]
    fn packets__takes_superpackets_apart() {
        for (bind, peer) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
            let receiver = UdpSocket::bind(bind.parse().unwrap()).unwrap();
            let port = receiver.local_addr().unwrap().port();
            let sender = UdpSocket::connect(format!("{peer}:{port}").parse().unwrap()).unwrap();
            let bytes: Vec<Vec<u8>> =
                (0..45).map(|i| vec![i; if i == 44 { 3 } else { 90 }]).collect();
            let packets: Vec<_> = bytes
                .iter()
                .map(|bytes| Outgoing {
                    head: &bytes[..2],
                    body: &bytes[2..],
                    to: None,
                    traffic_class: 15 << 2,
                })
                .collect();
            let bursts = |left: &[Outgoing<'_>]| if left.len() == 45 { 1 } else { 44 };
            assert_eq!(SendBatch::new().send_bursts(&sender, &packets, bursts).unwrap(), 45);
            let mut batch = ReceiveBatch::for_superpackets();
            let mut seen = Vec::new();
            while batch.receive(&receiver).unwrap() > 0 {
                assert!(!batch.is_full());
                seen.extend(batch.packets().map(|packet| {
                    assert_eq!(packet.traffic_class, 15 << 2);
                    packet.bytes.to_vec()
                }));
            }
            assert_eq!(seen, bytes, "{bind}");
        }
    }

    #[test]
    fn packets__leaves_out_what_is_too_long() {
        let receiver = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        sender.send_to(&[0; PACKET_BYTES_MAX + 1], to).unwrap();
        sender.send_to(&[1; PACKET_BYTES_MAX], to).unwrap();
        let mut batch = ReceiveBatch::new();
        assert_eq!(batch.receive(&receiver).unwrap(), 2);
        let whole: Vec<_> = batch.packets().map(|packet| packet.bytes[0]).collect();
        assert_eq!(whole, [1]);
    }

    #[test]
    fn take_errors__says_that_nobody_listens() {
        // Connected to itself: hears nobody else, and keeps the port from being drawn again.
        let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let closed = deaf.local_addr().unwrap();
        deaf.connect(closed).unwrap();
        let sender = UdpSocket::connect(closed).unwrap();
        let packet = Outgoing { head: b"x", body: b"", to: None, traffic_class: 0 };
        SendBatch::new().send(&sender, &[packet]).unwrap();
        assert!(sender.take_errors().refused);
        assert_eq!(sender.take_errors(), Default::default());
    }
}
