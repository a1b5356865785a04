//! Sending: a batch of packets, each a header and a slice of somebody's memory, in one system call.

use super::{BATCH, socket::UdpSocket};
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
}

/// A packet's traffic class, as the kernel reads it beside the packet (cmsg(3)).
#[repr(C)]
#[derive(Clone, Copy)]
struct ClassControl {
    header: libc::cmsghdr,
    class: libc::c_int,
    padding: libc::c_int,
}

// SAFETY: no pointers are read: a pure calculation.
const _: () = assert!(size_of::<ClassControl>() == unsafe { libc::CMSG_SPACE(4) } as usize);

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
        let packets = &packets[..packets.len().min(BATCH)];
        // SAFETY: all-zero is a valid iovec (null, empty) and mmsghdr.
        let mut vectors: [[libc::iovec; 2]; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let mut classes: [mem::MaybeUninit<ClassControl>; BATCH] =
            [const { mem::MaybeUninit::uninit() }; BATCH];
        for (i, packet) in packets.iter().enumerate() {
            vectors[i] = [packet.head, packet.body].map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
            let message = &mut messages[i].msg_hdr;
            message.msg_iov = ptr::from_mut(&mut vectors[i]).cast();
            message.msg_iovlen = 2;
            if packet.traffic_class != 0 {
                let control = classes[i].write(class_control(socket, packet.traffic_class));
                message.msg_control = ptr::from_mut(control).cast();
                message.msg_controllen = size_of::<ClassControl>() as _;
            }
            if let Some(to) = packet.to {
                self.names[i] = to.into();
                message.msg_name = self.names[i].as_ptr().cast_mut().cast();
                message.msg_namelen = self.names[i].len();
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: every pointer in `messages` points into `packets`, `vectors`, `classes` or
        // `self.names`, which outlive the call and which the kernel only reads.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                packets.len() as libc::c_uint,
                flags,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

fn class_control(socket: &UdpSocket, class: u8) -> ClassControl {
    let (level, kind) = match socket.is_v6() {
        false => (libc::IPPROTO_IP, libc::IP_TOS),
        true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    // SAFETY: all-zero is a valid header (its padding, where a libc has some, stays zero).
    let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
    // SAFETY: no pointers are read: a pure calculation.
    header.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<libc::c_int>() as u32) } as _;
    (header.cmsg_level, header.cmsg_type) = (level, kind);
    ClassControl { header, class: class.into(), padding: 0 }
}
