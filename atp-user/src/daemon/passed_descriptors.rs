//! Whether the kernel lets clients send descriptors over a connection (SO_PASSRIGHTS, Linux 6.16).
//!
//! To close a connection closes the unread descriptors in it, which can block as long as a client
//! wants. So the control socket takes none, nor do its connections before they are served. Earlier
//! kernels always let them.

use nix::{
    getsockopt_impl, libc, setsockopt_impl, sockopt_impl,
    sys::socket::{getsockopt, setsockopt},
};
use std::os::fd::AsFd;

/// `SO_PASSRIGHTS` of the kernel's `asm-generic/socket.h`.
const SO_PASSRIGHTS: libc::c_int = 83;

sockopt_impl!(PassRights, Both, libc::SOL_SOCKET, SO_PASSRIGHTS, bool);

/// Lets descriptors pass or not. Connections take this over from the socket that listens.
pub fn allow(socket: &impl AsFd, allowed: bool) {
    // Earlier kernels don't know the option.
    setsockopt(socket, PassRights, &allowed).ok();
}

/// Whether descriptors may be unread in a connection.
pub fn are_allowed(connection: &impl AsFd) -> bool {
    getsockopt(connection, PassRights) != Ok(false)
}
