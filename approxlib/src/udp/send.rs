//! Sends a batch of packets in one system call. Each packet is a header and a slice of a message.

use super::{BATCH, socket::UdpSocket};
use atp_common::laws::burst;
use atp_proto::endpoint::Ends;
use std::{
    io, mem,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
    ptr,
};

/// A packet to send. The kernel copies both parts from their place in memory.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The header, or the complete packet if it lies in one piece.
    pub head: &'a [u8],
    /// The bytes after the header.
    pub body: &'a [u8],
    /// The ends of the packet that this one answers; `None` on a connected socket.
    pub to: Option<Ends>,
    /// The traffic class (DSCP and ECN bits); 0 for the socket's own.
    pub traffic_class: u8,
    /// Group and epoch of a DATA packet without an ACK of its own. Only such packets may share a
    /// GSO buffer.
    pub lane: Option<(u8, u16)>,
}

/// The most packets of one call: four GSO buffers, and a probe.
const PACKETS_MAX: usize = 4 * burst::PACKETS_MAX as usize + 1;

/// Room for three control messages: the traffic class, the source address, and the segment length
/// of a GSO buffer.
const CONTROL_BYTES: usize = 96;

/// Control messages for the kernel beside a packet (cmsg(3)).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL_BYTES],
    len: usize,
}

/// Tables for the system call, reused for each batch.
pub struct SendBatch {
    names: Box<[socket2::SockAddr]>,
}

impl SendBatch {
    /// An empty batch.
    pub fn new() -> Self {
        let unused = SocketAddr::from(([0, 0, 0, 0], 0)).into();
        Self { names: vec![unused; BATCH].into() }
    }

    /// Sends the first [`BATCH`] of `packets` in order, without blocking, and returns how many
    /// left.
    ///
    /// # Errors
    /// The error of the first packet, if that one didn't leave: `WouldBlock` if the socket's buffer
    /// is full, ENOBUFS if this host dropped it.
    pub fn send(&mut self, socket: &UdpSocket, packets: &[Outgoing<'_>]) -> io::Result<usize> {
        self.send_segmented(socket, packets, |_| 1)
    }

    /// As [`SendBatch::send`], but combines packets to GSO buffers. `segments` gets the packets
    /// that are left, and returns how many of them form the next buffer, at least 1. All of these
    /// but the last must have one length. Sends at most [`BATCH`] buffers with at most
    /// [`PACKETS_MAX`] packets in total.
    ///
    /// # Errors
    /// As [`SendBatch::send`]; EIO or EINVAL if this host can't send GSO buffers on this path.
    pub fn send_segmented<'a>(
        &mut self,
        socket: &UdpSocket,
        packets: &[Outgoing<'a>],
        segments: impl Fn(&[Outgoing<'a>]) -> usize,
    ) -> io::Result<usize> {
        let packets = &packets[..packets.len().min(PACKETS_MAX)];
        // SAFETY: all-zero is a valid iovec (null, empty) and mmsghdr.
        let mut vectors: [[libc::iovec; 2]; PACKETS_MAX] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let mut controls = [Control::EMPTY; BATCH];
        let mut ends = [0; BATCH];
        for (vector, packet) in vectors.iter_mut().zip(packets) {
            *vector = [packet.head, packet.body].map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
        }
        let (mut count, mut start) = (0, 0);
        while start < packets.len() && count < BATCH {
            let first = packets[start];
            let segments = segments(&packets[start..]).clamp(1, packets.len() - start);
            let message = &mut messages[count].msg_hdr;
            message.msg_iov = ptr::from_mut(&mut vectors[start]).cast();
            // The kernel handles one vector faster than two.
            let vectors = if segments == 1 && first.body.is_empty() { 1 } else { 2 * segments };
            message.msg_iovlen = vectors as _;
            let control = &mut controls[count];
            if let Some(to) = first.to {
                self.names[count] = to.source.into();
                message.msg_name = self.names[count].as_ptr().cast_mut().cast();
                message.msg_namelen = self.names[count].len();
                if let Some(local) = to.local {
                    control.push_source(socket.is_v6(), local);
                }
            }
            if first.traffic_class != 0 {
                let (level, kind) = match socket.is_v6() {
                    false => (libc::IPPROTO_IP, libc::IP_TOS),
                    true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
                };
                control.push(level, kind, &libc::c_int::from(first.traffic_class).to_ne_bytes());
            }
            if segments > 1 {
                let segment_len = first.len() as u16;
                control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment_len.to_ne_bytes());
            }
            if control.len > 0 {
                message.msg_control = control.bytes.as_mut_ptr().cast();
                message.msg_controllen = control.len as _;
            }
            start += segments;
            ends[count] = start;
            count += 1;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: every pointer in `messages` points into `packets`, `vectors`, `controls` or
        // `self.names`, which outlive the call and which the kernel only reads. The vectors of a
        // message, `2 * segments` at most, follow each other in `vectors`, because
        // `start + segments` is at most the number of packets.
        let sent = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, flags)
        };
        match usize::try_from(sent) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(0) => Ok(0),
            Ok(sent) => Ok(ends[sent - 1]),
        }
    }
}

impl<'a> Outgoing<'a> {
    /// A packet in one piece, for a connected socket.
    pub const fn control(head: &'a [u8]) -> Self {
        Self { head, body: &[], to: None, traffic_class: 0, lane: None }
    }

    /// The length of the UDP payload, bytes.
    pub const fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

impl Control {
    const EMPTY: Self = Self { bytes: [0; CONTROL_BYTES], len: 0 };

    /// Sets the source address of the packet. The kernel still chooses the interface.
    fn push_source(&mut self, is_v6: bool, source: IpAddr) {
        match source {
            // struct in_pktinfo: interface, source, destination.
            IpAddr::V4(v4) if !is_v6 => {
                let parts = [[0; 4], v4.octets(), [0; 4]];
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, parts.as_flattened());
            }
            // struct in6_pktinfo: source, interface.
            ip => {
                let v6 = match ip {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                let mut data = [0; 20];
                data[..16].copy_from_slice(&v6.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
            }
        }
    }

    /// Adds a control message: length (usize), level (int), type (int), data, padded to a usize.
    fn push(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        const HEADER: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();
        let parts = [
            &(HEADER + data.len()).to_ne_bytes()[..],
            &level.to_ne_bytes(),
            &kind.to_ne_bytes(),
            data,
        ];
        for part in parts {
            self.bytes[self.len..][..part.len()].copy_from_slice(part);
            self.len += part.len();
        }
        self.len = self.len.next_multiple_of(size_of::<usize>());
    }
}

const _: () = assert!(size_of::<libc::cmsghdr>() == size_of::<usize>() + 8);
