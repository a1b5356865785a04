//! Whether a datagram that the program sends becomes a message.

use crate::{
    address, datagram, next,
    outgoing::Verdict,
    shared::{enter, errno, set_errno},
    state::{State, connected, is_corked, set_corked, state},
};
use libc::{c_int, c_void, iovec, msghdr, ssize_t};
use std::net::SocketAddr;

/// The longest UDP datagram.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// The kernel refuses more parts (UIO_MAXIOV).
const PARTS_MAX: usize = 1_024;
/// Flags that change nothing about a message. The others are the kernel's business.
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM | libc::MSG_EOR;

pub fn part(data: *const c_void, len: usize) -> iovec {
    iovec { iov_base: data.cast_mut(), iov_len: len }
}

/// Sends a datagram as a message, if it can be one: its length, or -1 with an errno, as of `send`.
/// `None`: the kernel sends it.
pub fn send_to(
    state: &'static State,
    fd: c_int,
    to: SocketAddr,
    flags: c_int,
    parts: &[iovec],
) -> Option<ssize_t> {
    let rule = state.udp_rule(to.port())?;
    let len = parts.iter().map(|part| part.iov_len).try_fold(0usize, usize::checked_add)?;
    let is_unicast = !to.ip().is_multicast() && !to.ip().is_unspecified();
    let before = errno();
    if len > DATAGRAM_BYTES_MAX || !is_unicast || !is_whole(fd, flags) {
        set_errno(before);
        return None;
    }
    let own = own_address(fd);
    if !state.may_carry(fd, own) {
        state.note_plain();
        set_errno(before);
        return None;
    }
    let mut message = Vec::with_capacity(datagram::HEAD_BYTES + len);
    message.extend_from_slice(&datagram::head(own.map_or(0, |own| own.port()), state.holder));
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        if part.iov_base.is_null() {
            return None;
        }
        // SAFETY: the program says that so many bytes are there.
        let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) };
        message.extend_from_slice(bytes);
    }
    // SAFETY: F_GETFL takes no argument.
    let is_nonblocking = || unsafe { next::fcntl(fd, libc::F_GETFL, 0) } & libc::O_NONBLOCK != 0;
    let waits = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking();
    let verdict = {
        let _inside = enter();
        state.offer(own.map(|own| own.ip()), to, rule, message, waits)
    };
    set_errno(before);
    match verdict {
        Verdict::Taken => Some(len as ssize_t),
        Verdict::Plain => None,
        Verdict::Again => {
            set_errno(libc::EAGAIN);
            Some(-1)
        }
    }
}

/// Whether the call sends one whole datagram of UDP: the kernel joins parts (MSG_MORE, UDP_CORK),
/// and divides a buffer into segments (UDP_SEGMENT).
fn is_whole(fd: c_int, flags: c_int) -> bool {
    let is_plain = flags & !FLAGS == 0;
    // Other sockets don't have the option.
    let corked = address::option_of(fd, libc::IPPROTO_UDP, libc::UDP_CORK);
    let joins_next = flags & libc::MSG_MORE != 0;
    let is_joined = is_corked(fd) || corked == Some(1);
    if corked.is_some() && (joins_next || is_joined) {
        set_corked(fd, joins_next || corked == Some(1));
    }
    let segment = || address::option_of(fd, libc::IPPROTO_UDP, libc::UDP_SEGMENT);
    corked.is_some() && is_plain && !is_joined && segment().unwrap_or(0) == 0
}

/// The address of the program's socket. The kernel chooses a port with the first datagram, which it
/// doesn't see.
fn own_address(fd: c_int) -> Option<SocketAddr> {
    let own = address::of_socket(fd, next::getsockname)?;
    if own.port() != 0 {
        return Some(own);
    }
    let domain = if own.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let (any, len) = address::write(own, domain);
    // SAFETY: the address is there and `len` is its length.
    unsafe { next::bind(fd, (&raw const any).cast(), len) };
    // Another thread may have been faster.
    address::of_socket(fd, next::getsockname)
}

/// Sends a datagram of a connected socket, if its peer has a rule.
pub fn send_connected(fd: c_int, flags: c_int, parts: &[iovec]) -> Option<ssize_t> {
    if connected(fd) == 0 {
        return None;
    }
    let state = state()?;
    let before = errno();
    // The number may belong to another socket by now: a close can be missed.
    let to = address::of_socket(fd, next::getpeername);
    set_errno(before);
    send_to(state, fd, to?, flags, parts)
}

/// # Safety
/// `message` is readable with all that it points to.
pub unsafe fn send_header(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    if message.is_null() || (state().is_none() && connected(fd) == 0) {
        return None;
    }
    // SAFETY: the program gave it.
    unsafe {
        let message = &*message;
        if message.msg_controllen > 0
            && address::option(fd, libc::SO_DOMAIN) == Some(libc::AF_UNIX)
            && let Some(state) = state()
        {
            // Perhaps with a descriptor.
            state.holders.note_sent();
        }
        // Control messages (a segment size, a source address) are the kernel's business.
        if message.msg_controllen > 0
            || message.msg_iovlen > PARTS_MAX
            || (message.msg_iov.is_null() && message.msg_iovlen > 0)
        {
            return None;
        }
        let parts = match message.msg_iovlen {
            0 => &[][..],
            len => std::slice::from_raw_parts(message.msg_iov, len),
        };
        if message.msg_name.is_null() || message.msg_namelen == 0 {
            return send_connected(fd, flags, parts);
        }
        let to = address::read(message.msg_name.cast(), message.msg_namelen as usize)?;
        send_to(state()?, fd, to, flags, parts)
    }
}

/// # Safety
/// `parts` is null, or readable for `len` parts with all that they point to.
pub unsafe fn send_parts(fd: c_int, parts: *const iovec, len: c_int) -> Option<ssize_t> {
    let len = usize::try_from(len).ok().filter(|len| (1..=PARTS_MAX).contains(len))?;
    if parts.is_null() || connected(fd) == 0 {
        return None;
    }
    // SAFETY: the caller promises it.
    send_connected(fd, 0, unsafe { std::slice::from_raw_parts(parts, len) })
}
