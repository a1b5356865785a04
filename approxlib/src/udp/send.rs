//! Sending: a batch of packets, each a header and a slice of somebody's memory, in one system call.

use super::{BATCH, socket::UdpSocket};
use atp_common::laws::burst;
use std::{io, mem, net::SocketAddr, os::fd::AsRawFd, ptr};

/// A packet to send: the kernel reads both halves from where they are.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The header (or, for a packet that lies in one piece, all of it).
    pub head: &'a [u8],
    /// What follows it.
    pub body: &'a [u8],
    /// Where to; `None` on a connected socket.
    pub to: Option<SocketAddr>,
    /// Its traffic class (DSCP and ECN bits); 0 for the socket's own.
    pub traffic_class: u8,
    /// Group and epoch of DATA without an ACK of its own: such packets may leave as one.
    pub lane: Option<(u8, u16)>,
}

/// The most packets of one call: four superpackets, and a question.
const PACKETS_MAX: usize = 4 * burst::PACKETS_MAX as usize + 1;

/// Room for a traffic class and the length of a superpacket's segments, each in a control message.
const CONTROL_BYTES: usize = 48;

/// What the kernel reads beside a packet (cmsg(3)).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL_BYTES],
    len: usize,
}

/// The system call's own tables, kept from one batch to the next.
pub struct SendBatch {
    names: Box<[socket2::SockAddr]>,
}

impl SendBatch {
    /// An empty batch.
    pub fn new() -> Self {
        let unused = SocketAddr::from(([0, 0, 0, 0], 0)).into();
        Self { names: vec![unused; BATCH].into() }
    }

    /// Sends the first [`BATCH`] of `packets` without blocking, in order, and returns how many
    /// left.
    ///
    /// # Errors
    /// What became of the first packet if not even that one left: `WouldBlock` when the socket's
    /// buffer is full, ENOBUFS when the host itself dropped it.
    pub fn send(&mut self, socket: &UdpSocket, packets: &[Outgoing<'_>]) -> io::Result<usize> {
        self.send_bursts(socket, packets, |_| 1)
    }

    /// The same, with as many packets together in a superpacket as `burst` says of those that are left:
    /// between 1 and their number. All of them but the last have one length. Four of the
    /// longest superpackets at most, and [`BATCH`] of any.
    ///
    /// # Errors
    /// As [`SendBatch::send`]; EIO or EINVAL where superpackets can't be sent.
    pub fn send_bursts<'a>(
        &mut self,
        socket: &UdpSocket,
        packets: &[Outgoing<'a>],
        burst: impl Fn(&[Outgoing<'a>]) -> usize,
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
            let together = burst(&packets[start..]).clamp(1, packets.len() - start);
            let message = &mut messages[count].msg_hdr;
            message.msg_iov = ptr::from_mut(&mut vectors[start]).cast();
            // One vector is cheaper for the kernel than two.
            let vectors = if together == 1 && first.body.is_empty() { 1 } else { 2 * together };
            message.msg_iovlen = vectors as _;
            if let Some(to) = first.to {
                self.names[count] = to.into();
                message.msg_name = self.names[count].as_ptr().cast_mut().cast();
                message.msg_namelen = self.names[count].len();
            }
            let control = &mut controls[count];
            if first.traffic_class != 0 {
                let (level, kind) = match socket.is_v6() {
                    false => (libc::IPPROTO_IP, libc::IP_TOS),
                    true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
                };
                control.push(level, kind, &libc::c_int::from(first.traffic_class).to_ne_bytes());
            }
            if together > 1 {
                let segment_len = first.len() as u16;
                control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment_len.to_ne_bytes());
            }
            if control.len > 0 {
                message.msg_control = control.bytes.as_mut_ptr().cast();
                message.msg_controllen = control.len as _;
            }
            start += together;
            ends[count] = start;
            count += 1;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: every pointer in `messages` points into `packets`, `vectors`, `controls` or
        // `self.names`, which outlive the call and which the kernel only reads. The vectors
        // of a message, `2 * together` at most, follow each other in `vectors`: `start + together` is at most their number.
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
    /// A packet that lies in one piece, on a connected socket.
    pub const fn control(head: &'a [u8]) -> Self {
        Self { head, body: &[], to: None, traffic_class: 0, lane: None }
    }

    /// Bytes of payload.
    pub const fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

impl Control {
    const EMPTY: Self = Self { bytes: [0; CONTROL_BYTES], len: 0 };

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
