//! The functions of libc that the program calls instead of libc's own.
//!
//! Each does its own work only for UDP sockets and ports with a rule. Everything else passes.

use crate::{
    address,
    incoming::Incoming,
    next,
    outgoing::Verdict,
    shared::{enter, lock},
    state::{Beside, State, closed, closed_range, connected, copied, set_connected, state},
    tcp::{client, server::Listening},
};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t, timespec};
use std::{net::SocketAddr, sync::atomic::Ordering};

/// The longest UDP datagram.
const DATAGRAM_BYTES_MAX: usize = 65_507;

fn is_udp(fd: c_int) -> bool {
    address::option(fd, libc::SO_TYPE) == Some(libc::SOCK_DGRAM)
}

fn errno() -> c_int {
    // SAFETY: it is this thread's own.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: it is this thread's own.
    unsafe { *libc::__errno_location() = value };
}

/// Sends a datagram as a message, if it can be one: its length, or -1 with an errno, as of `send`.
/// `None`: the kernel sends it.
fn send_message(
    state: &'static State,
    fd: c_int,
    to: SocketAddr,
    flags: c_int,
    parts: &[iovec],
) -> Option<ssize_t> {
    let rule = state.udp_rule(to.port())?;
    let len = parts.iter().map(|part| part.iov_len).try_fold(0usize, usize::checked_add)?;
    let is_unicast = !to.ip().is_multicast() && !to.ip().is_unspecified();
    if len > DATAGRAM_BYTES_MAX || !is_unicast || !is_udp(fd) {
        return None;
    }
    let mut datagram = Vec::with_capacity(len);
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        if part.iov_base.is_null() {
            return None;
        }
        // SAFETY: the program says that so many bytes are there.
        let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) };
        datagram.extend_from_slice(bytes);
    }
    // SAFETY: F_GETFL takes no argument.
    let is_nonblocking = || unsafe { next::fcntl(fd, libc::F_GETFL, 0) } & libc::O_NONBLOCK != 0;
    let waits = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking();
    let before = errno();
    let verdict = {
        let _inside = enter();
        state.offer(to, rule, &datagram, waits)
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

/// Sends a datagram of a connected socket, if its peer has a rule.
fn send_connected(fd: c_int, flags: c_int, parts: &[iovec]) -> Option<ssize_t> {
    if connected(fd) == 0 {
        return None;
    }
    let state = state()?;
    let before = errno();
    // The number may belong to another socket by now: a close can be missed.
    let to = address::of_socket(fd, next::getpeername);
    set_errno(before);
    send_message(state, fd, to?, flags, parts)
}

fn part(data: *const c_void, len: usize) -> iovec {
    iovec { iov_base: data.cast_mut(), iov_len: len }
}

/// # Safety
/// `message` is readable with all that it points to.
unsafe fn send_header(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    if message.is_null() || (state().is_none() && connected(fd) == 0) {
        return None;
    }
    // SAFETY: the program gave it.
    unsafe {
        let message = &*message;
        // Control messages (a segment size, a source address) are the kernel's business.
        if message.msg_controllen > 0 || (message.msg_iov.is_null() && message.msg_iovlen > 0) {
            return None;
        }
        let parts = match message.msg_iovlen {
            0 => &[][..],
            len => std::slice::from_raw_parts(message.msg_iov, len),
        };
        match address::read(message.msg_name.cast(), message.msg_namelen as usize) {
            Some(to) => send_message(state()?, fd, to, flags, parts),
            None => send_connected(fd, flags, parts),
        }
    }
}

/// Puts the sender's address in the place of the library's.
///
/// # Safety
/// `from` is null or has `len` bytes, which the kernel has written.
unsafe fn restore_sender(from: *mut sockaddr, len: usize) {
    let Some(state) = state().filter(|state| state.shared.has_senders.load(Ordering::Acquire))
    else {
        return;
    };
    // SAFETY: the caller promises the bytes.
    unsafe {
        let Some(found) = address::read(from, len) else { return };
        let canonical = SocketAddr::new(found.ip().to_canonical(), found.port());
        let sender = {
            let _inside = enter();
            lock(&state.shared.senders).get(&canonical).copied()
        };
        if let Some(sender) = sender {
            address::replace(from, len, sender);
        }
    }
}

/// Room for an address, which the kernel will write.
///
/// # Safety
/// `len` is null or readable.
unsafe fn room(at: *mut sockaddr, len: *mut socklen_t) -> socklen_t {
    // SAFETY: the caller promises it.
    if at.is_null() || len.is_null() { 0 } else { unsafe { *len } }
}

/// Puts the address of a carried connection's peer in the place of the library's.
///
/// # Safety
/// `at` has `len` bytes, which the kernel has written.
unsafe fn restore_peer(at: *mut sockaddr, len: usize) {
    let Some(state) = state().filter(|state| state.has_ends()) else { return };
    // SAFETY: the caller promises the bytes.
    unsafe {
        let Some(far) = address::read(at, len) else { return };
        let _inside = enter();
        if let Some(ends) = state.shared.ends_of(far) {
            address::replace(at, len, ends.peer);
        }
    }
}

/// Puts the own address of a carried connection in the place of the loopback's.
///
/// # Safety
/// As for [`restore_peer`].
unsafe fn restore_local(fd: c_int, at: *mut sockaddr, len: usize) {
    let Some(state) = state().filter(|state| state.has_ends()) else { return };
    let before = errno();
    if let Some(far) = address::of_socket(fd, next::getpeername) {
        let _inside = enter();
        if let Some(ends) = state.shared.ends_of(far) {
            // SAFETY: the caller promises the bytes.
            unsafe { address::replace(at, len, ends.local) };
        }
    }
    set_errno(before);
}

/// Connects a program's socket of TCP to this library, if the other end's library answers.
/// `None`: the kernel connects it.
///
/// # Safety
/// `to` is null or readable for `len` bytes.
unsafe fn carry(fd: c_int, to: *const sockaddr, len: socklen_t) -> Option<c_int> {
    let state = state()?;
    // SAFETY: the caller promises the bytes.
    let to = unsafe { address::read(to, len as usize) }?;
    let (rule, framing) = state.tcp_rule(to.port())?;
    let before = errno();
    let done = {
        let _inside = enter();
        if address::is_tcp(fd) && client::is_fresh(fd) {
            state.carry(fd, to, rule, framing)
        } else {
            None
        }
    };
    set_errno(match done {
        Some(Err(error)) => error,
        _ => before,
    });
    done.map(|done| if done.is_ok() { 0 } else { -1 })
}

macro_rules! interpose {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)+) => {
        $(
            /// # Safety
            /// As libc's function of that name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the program keeps to libc's contract.
                #[allow(unused_unsafe, reason = "some bodies have no unsafe calls")]
                unsafe { $body }
            }
        )+
    };
}

interpose! {
    fn bind(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
        let done = next::bind(fd, at, len);
        if done == 0
            && let Some(state) = state()
            && let Some(local) = address::of_socket(fd, next::getsockname)
            && let Some(rule) = state.udp_rule(local.port())
            && is_udp(fd)
        {
            let (before, inside) = (errno(), enter());
            if let Some(incoming) = Incoming::start(&state.shared, fd, local, rule) {
                state.keep_beside(fd, Beside::Udp(incoming));
            }
            drop(inside);
            set_errno(before);
        }
        done
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        let done = next::listen(fd, backlog);
        if done == 0
            && let Some(state) = state()
            && let Some(local) = address::of_socket(fd, next::getsockname)
            && let Some((rule, framing)) = state.tcp_rule(local.port())
            && address::is_tcp(fd)
        {
            let (before, inside) = (errno(), enter());
            if !state.has_beside(fd)
                && let Some(listening) = Listening::start(&state.shared, local, rule, framing)
            {
                state.keep_beside(fd, Beside::Tcp(listening));
            }
            drop(inside);
            set_errno(before);
        }
        done
    }

    fn accept(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> c_int {
        let room = room(from, from_len);
        let accepted = next::accept(fd, from, from_len);
        if accepted >= 0 && room > 0 {
            restore_peer(from, room.min(*from_len) as usize);
        }
        accepted
    }

    fn accept4(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t, flags: c_int) -> c_int {
        let room = room(from, from_len);
        let accepted = next::accept4(fd, from, from_len, flags);
        if accepted >= 0 && room > 0 {
            restore_peer(from, room.min(*from_len) as usize);
        }
        accepted
    }

    fn getpeername(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let room = room(at, len);
        let done = next::getpeername(fd, at, len);
        if done == 0 && room > 0 {
            restore_peer(at, room.min(*len) as usize);
        }
        done
    }

    fn getsockname(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let room = room(at, len);
        let done = next::getsockname(fd, at, len);
        if done == 0 && room > 0 {
            restore_local(fd, at, room.min(*len) as usize);
        }
        done
    }

    fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
        if let Some(done) = carry(fd, to, len) {
            return done;
        }
        let done = next::connect(fd, to, len);
        if let Some(state) = state() {
            let before = errno();
            let port = address::read(to, len as usize).map_or(0, |to| to.port());
            let is_mapped = done == 0 && state.udp_rule(port).is_some() && is_udp(fd);
            set_connected(fd, if is_mapped { port } else { 0 });
            set_errno(before);
        }
        done
    }

    fn close(fd: c_int) -> c_int {
        closed(fd);
        next::close(fd)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        // Close-on-exec closes nothing yet, and ends with the library.
        if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
            closed_range(first, last);
        }
        next::close_range(first, last, flags)
    }

    fn closefrom(first: c_int) -> () {
        closed_range(c_uint::try_from(first).unwrap_or(0), c_uint::MAX);
        next::closefrom(first)
    }

    fn dup(fd: c_int) -> c_int {
        let copy = next::dup(fd);
        copied(fd, copy);
        copy
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        let copy = next::dup2(fd, to);
        copied(fd, copy);
        copy
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        let copy = next::dup3(fd, to, flags);
        copied(fd, copy);
        copy
    }

    // Variadic in C. On the architectures of this library one more integer is passed the same way.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        let done = next::fcntl(fd, command, argument);
        if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            copied(fd, done);
        }
        done
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        let done = next::fcntl64(fd, command, argument);
        if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            copied(fd, done);
        }
        done
    }

    fn send(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> ssize_t {
        match send_connected(fd, flags, &[part(data, len)]) {
            Some(sent) => sent,
            None => next::send(fd, data, len, flags),
        }
    }

    fn write(fd: c_int, data: *const c_void, len: usize) -> ssize_t {
        match send_connected(fd, 0, &[part(data, len)]) {
            Some(sent) => sent,
            None => next::write(fd, data, len),
        }
    }

    fn writev(fd: c_int, parts: *const iovec, len: c_int) -> ssize_t {
        let list = match usize::try_from(len) {
            Ok(len) if len > 0 && !parts.is_null() && connected(fd) != 0 => {
                std::slice::from_raw_parts(parts, len)
            }
            _ => return next::writev(fd, parts, len),
        };
        match send_connected(fd, 0, list) {
            Some(sent) => sent,
            None => next::writev(fd, parts, len),
        }
    }

    fn sendto(fd: c_int, data: *const c_void, len: usize, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t {
        let parts = [part(data, len)];
        let sent = match address::read(to, to_len as usize) {
            Some(to) => state().and_then(|state| send_message(state, fd, to, flags, &parts)),
            None => send_connected(fd, flags, &parts),
        };
        sent.unwrap_or_else(|| next::sendto(fd, data, len, flags, to, to_len))
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        match send_header(fd, message, flags) {
            Some(sent) => sent,
            None => next::sendmsg(fd, message, flags),
        }
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, len: u32, flags: c_int) -> c_int {
        if messages.is_null() || (state().is_none() && connected(fd) == 0) {
            return next::sendmmsg(fd, messages, len, flags);
        }
        let mut done = 0;
        for message in std::slice::from_raw_parts_mut(messages, len as usize) {
            let sent = match send_header(fd, &raw const message.msg_hdr, flags) {
                Some(sent) => sent,
                None => next::sendmsg(fd, &raw const message.msg_hdr, flags),
            };
            if sent < 0 {
                return if done > 0 { done } else { -1 };
            }
            message.msg_len = sent as u32;
            done += 1;
        }
        done
    }

    fn recvfrom(fd: c_int, data: *mut c_void, len: usize, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        let room = if from_len.is_null() { 0 } else { *from_len };
        let got = next::recvfrom(fd, data, len, flags, from, from_len);
        if got >= 0 && room > 0 {
            restore_sender(from, room.min(*from_len) as usize);
        }
        got
    }

    fn __recvfrom_chk(fd: c_int, data: *mut c_void, len: usize, size: usize, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        let room = if from_len.is_null() { 0 } else { *from_len };
        let got = next::__recvfrom_chk(fd, data, len, size, flags, from, from_len);
        if got >= 0 && room > 0 {
            restore_sender(from, room.min(*from_len) as usize);
        }
        got
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        let room = if message.is_null() { 0 } else { (*message).msg_namelen };
        let got = next::recvmsg(fd, message, flags);
        if got >= 0 && room > 0 {
            restore_sender((*message).msg_name.cast(), room.min((*message).msg_namelen) as usize);
        }
        got
    }

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, len: u32, flags: c_int, timeout: *mut timespec) -> c_int {
        let got = next::recvmmsg(fd, messages, len, flags, timeout);
        for index in 0..usize::try_from(got).unwrap_or(0) {
            let message = &(*messages.add(index)).msg_hdr;
            restore_sender(message.msg_name.cast(), message.msg_namelen as usize);
        }
        got
    }
}
