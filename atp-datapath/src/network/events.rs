//! Kernel notifications that an interface or its qdisc changed.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

/// A netlink socket that reports changes of links, and of qdiscs where these are few.
#[derive(Debug)]
pub struct Events(Socket);

/// `struct nlmsghdr`, and a body that begins with family and interface: `ifinfomsg` or `tcmsg`.
const HEADER_BYTES: usize = 16;
const IFINDEX_AT: usize = HEADER_BYTES + 4;

impl Events {
    /// Subscribes. With HTB, each change of a class would be a notification in the group of qdiscs,
    /// thousands per second. The thread then looks at qdiscs once a second only.
    pub fn open(with_qdiscs: bool) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        socket.add_membership(libc::RTNLGRP_LINK)?;
        if with_qdiscs {
            socket.add_membership(libc::RTNLGRP_TC)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Self(socket))
    }

    /// For `poll`.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket owns its descriptor, and the borrow lasts no longer than the socket.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }

    /// Reads all waiting notifications. Whether one concerns an interface that `concerns` knows;
    /// true if some were lost.
    pub fn drain(&self, concerns: impl Fn(u32) -> bool) -> bool {
        let mut found = false;
        loop {
            match self.0.recv_from_full() {
                Ok((bytes, _)) => found |= ifindexes(&bytes).any(&concerns),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return found,
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => found = true,
                Err(error) => {
                    tracing::debug!(%error, "can't read notifications of the network");
                    return true;
                }
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        Self::as_fd(self)
    }
}

/// The interfaces that the messages of a datagram name.
fn ifindexes(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let (len, ifindex) = (word(0)? as usize, word(IFINDEX_AT)?);
        let next = len.checked_next_multiple_of(4)?.max(HEADER_BYTES);
        bytes = bytes.get(next..).unwrap_or_default();
        Some(ifindex)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ifindexes__of_every_message() {
        let message = |len: u32, ifindex: u32| {
            let words = [len, 0, 0, 0, 0, ifindex, 0, 0];
            words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()
        };
        let two = [message(32, 7), message(30, 8)].concat();
        assert_eq!(ifindexes(&two).collect::<Vec<_>>(), [7, 8]);
        // Lengths that lie end the walk, and never the program.
        assert_eq!(ifindexes(&message(u32::MAX, 9)).collect::<Vec<_>>(), [9]);
        assert_eq!(ifindexes(&message(0, 9)[..24]).collect::<Vec<_>>(), [9]);
        assert_eq!(ifindexes(&[0; 5]).count(), 0);
    }
}
