//! Receiving: up to a batch of packets in one system call, into buffers that are used again.

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

/// Room for a traffic class and a superpacket's segment length, each in a control message.
const CONTROL_BYTES: usize = 64;

/// A packet that came in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Its header, as much of it as there is.
    pub head: &'a [u8],
    /// What follows.
    pub body: &'a [u8],
    /// Where from.
    pub source: SocketAddr,
    /// The traffic class: DSCP and ECN.
    pub traffic_class: u8,
}

/// Buffers for [`BATCH`] packets of a connected socket: whoever sends to it is its peer.
pub struct ReceiveBatch {
    payloads: Box<[u8]>,
    /// Of each packet that came: how long it is, and whether that is all of it.
    arrived: Vec<(usize, bool)>,
}

/// What the kernel says beside a packet (cmsg(3)).
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

    /// Whether every buffer was used, so that more may wait.
    pub fn is_full(&self) -> bool {
        self.arrived.len() == BATCH
    }

    /// Receives what has arrived, without blocking, in place of what was here; returns how many
    /// packets, 0 if none waits.
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
            let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            (message.msg_len as usize, whole)
        }));
        Ok(received)
    }

    /// What arrived last; packets too long for any peer of ours are left out.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let arrived = self.arrived.iter().zip(self.payloads.chunks_exact(PACKET_BYTES_MAX));
        arrived.filter(|((_, whole), _)| *whole).filter_map(|((len, _), bytes)| bytes.get(..*len))
    }
}

/// Receives into as many of `messages` as have arrived, without blocking; 0 if none waits.
///
/// # Safety
/// Every pointer in them is null or points to as much memory as is said beside it.
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

/// The address that the kernel wrote; `None` if it is of no IP address.
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

/// What control messages say; 0 where they don't.
#[derive(Default)]
pub struct Said {
    pub traffic_class: u8,
    pub segment_len: usize,
}

/// Reads control messages. Of the traffic class IPv4 says one byte (IP_TOS), IPv6 an int
/// (IPV6_TCLASS); of a superpacket's segments UDP an int (UDP_GRO).
pub fn read_control(mut control: &[u8]) -> Said {
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

    #[test]
    fn receive__what_the_peer_sent() {
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

    #[test]
    fn packets__leaves_out_what_is_too_long() {
        let far = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::connect(far.local_addr().unwrap()).unwrap();
        let back = near.local_addr().unwrap();
        far.send_to(&[0; PACKET_BYTES_MAX + 1], back).unwrap();
        far.send_to(&[1; PACKET_BYTES_MAX], back).unwrap();
        let mut batch = ReceiveBatch::new();
        assert_eq!(batch.receive(&near).unwrap(), 2);
        let whole: Vec<_> = batch.packets().map(|packet| packet[0]).collect();
        assert_eq!(whole, [1]);
    }

    #[test]
    fn take_errors__says_that_nobody_listens() {
        // Connected to itself: hears nobody else, and keeps the port from being drawn again.
        let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let closed = deaf.local_addr().unwrap();
        deaf.connect(closed).unwrap();
        let sender = UdpSocket::connect(closed).unwrap();
        SendBatch::new().send(&sender, &[Outgoing::control(b"x")]).unwrap();
        assert!(sender.take_errors().refused);
        assert_eq!(sender.take_errors(), Default::default());
    }
}
