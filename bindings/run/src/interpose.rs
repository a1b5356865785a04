//! The functions of libc that the program calls instead of libc's own.
//!
//! Each does its own work only for UDP sockets and ports with a rule. Everything else passes.

use crate::{
    address::{self, is_udp},
    descriptors,
    incoming::Incoming,
    names::{self, Ends, Protocol},
    next::{self, Start},
    sending::{part, send_connected, send_header, send_parts, send_to},
    shared::{calls_pass, enter, errno, pass_calls_of_this_thread, set_errno},
    state::{
        Beside, closed, closed_range, connected, copied, current, end_process, own_state,
        set_connected, state,
    },
    tcp::{client, server::Listening},
};
use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, pthread_attr_t, pthread_t, sockaddr, socklen_t,
    ssize_t, timespec,
};

/// The kernel takes no more messages in one call (UIO_MAXIOV).
const MESSAGES_MAX: u32 = 1_024;

/// Puts the sender's address in the place of the library's.
///
/// # Safety
/// `from` is null or has `len` bytes, which the kernel has written.
unsafe fn restore_sender(from: *mut sockaddr, len: usize) -> Option<Ends> {
    if !names::are_there() || calls_pass() {
        return None;
    }
    // SAFETY: the caller promises the bytes.
    unsafe {
        let ends = names::of(Protocol::Udp, address::read(from, len)?)?;
        address::replace(from, len, ends.peer);
        Some(ends)
    }
}

/// Puts the sender's address, and the one at which its datagram arrived, in the place of the
/// library's.
///
/// # Safety
/// The kernel has written the message, whose name had room for `room` bytes.
unsafe fn restore_header(message: &msghdr, room: socklen_t) {
    // SAFETY: the caller promises it.
    unsafe {
        let len = room.min(message.msg_namelen) as usize;
        if let Some(ends) = restore_sender(message.msg_name.cast(), len) {
            address::replace_destination(message, &ends);
        }
    }
}

/// Receives with a whole address, and gives the program as much of it as it has room for.
///
/// # Safety
/// `from_len` is null or readable, and `from` is null or has so many bytes.
unsafe fn receive_from(
    from: *mut sockaddr,
    from_len: *mut socklen_t,
    receive: impl FnOnce(*mut sockaddr, *mut socklen_t) -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller promises it.
    let room = if from_len.is_null() { 0 } else { unsafe { *from_len } };
    if from.is_null() || room == 0 || c_int::try_from(room).is_err() || calls_pass() {
        return receive(from, from_len);
    }
    // SAFETY: all zero is a valid `sockaddr_storage`; the kernel writes it and its length.
    unsafe {
        let mut whole: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of_val(&whole) as socklen_t;
        let at = (&raw mut whole).cast::<sockaddr>();
        let got = receive(at, &raw mut len);
        if got >= 0 {
            restore_sender(at, len as usize);
            std::ptr::copy_nonoverlapping(at.cast::<u8>(), from.cast(), room.min(len) as usize);
            *from_len = len;
        }
        got
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
unsafe fn restore_peer(fd: c_int, at: *mut sockaddr, len: usize) {
    if let Some(ends) = ends(fd) {
        // SAFETY: the caller promises the bytes.
        unsafe { address::replace(at, len, ends.peer) };
    }
}

/// Puts the own address of a carried connection in the place of the loopback's.
///
/// # Safety
/// As for [`restore_peer`].
unsafe fn restore_local(fd: c_int, at: *mut sockaddr, len: usize) {
    if let Some(ends) = ends(fd) {
        // SAFETY: the caller promises the bytes.
        unsafe { address::replace(at, len, ends.local) };
    }
}

/// The ends of the connection, if it is carried.
fn ends(fd: c_int) -> Option<Ends> {
    if !names::are_there() || calls_pass() {
        return None;
    }
    let before = errno();
    let far = address::of_socket(fd, next::getpeername);
    let ends = far.and_then(|far| names::of(Protocol::Tcp, far)).filter(|_| address::is_tcp(fd));
    set_errno(before);
    ends
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

/// The function of a new thread of the library.
struct Entry {
    start: Start,
    argument: *mut c_void,
}

extern "C" fn start_own(entry: *mut c_void) -> *mut c_void {
    pass_calls_of_this_thread();
    let _own = current().map(|state| state.threads.count_own());
    // SAFETY: `pthread_create` has made it for this thread, with a function and its argument.
    unsafe {
        let entry = Box::from_raw(entry.cast::<Entry>());
        (entry.start)(entry.argument)
    }
}

/// A new descriptor, which is the library's if the thread is.
fn made(make: impl FnOnce() -> c_int) -> c_int {
    if calls_pass() { descriptors::make(make) } else { make() }
}

/// Closes what is the program's in a range, both ends included.
fn close_programs(first: c_uint, last: c_uint, close: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    let close_parts = || {
        let parts = descriptors::parts_without_own(first, last).into_iter();
        parts.map(|(first, last)| close(first, last)).min().unwrap_or(0)
    };
    match own_state() {
        Some(_) => descriptors::close_range(close_parts),
        // A child of `vfork` has descriptors of its own.
        None => close_parts(),
    }
}

/// Whether the library's descriptor is in the way: the program's call fails with `error`.
fn is_in_the_way(fd: c_int, error: c_int) -> bool {
    let is_so = descriptors::is_own(fd) && !calls_pass();
    if is_so {
        set_errno(error);
    }
    is_so
}

/// Ends the process, after the last bytes of its connections.
fn end_now(status: c_int) -> ! {
    end_process(false);
    loop {
        // SAFETY: it takes no memory, and doesn't return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
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
    // The threads of a library's thread are the library's.
    fn pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, argument: *mut c_void) -> c_int {
        if !calls_pass() {
            return next::pthread_create(thread, attributes, start, argument);
        }
        let entry = Box::into_raw(Box::new(Entry { start, argument }));
        let done = next::pthread_create(thread, attributes, start_own, entry.cast());
        if done != 0 {
            // SAFETY: no thread took it.
            drop(Box::from_raw(entry));
        }
        done
    }

    fn _exit(status: c_int) -> ! {
        end_now(status)
    }

    fn _Exit(status: c_int) -> ! {
        end_now(status)
    }

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        made(|| next::socket(domain, kind, protocol))
    }

    fn eventfd(value: c_uint, flags: c_int) -> c_int {
        made(|| next::eventfd(value, flags))
    }

    fn bind(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
        let done = next::bind(fd, at, len);
        let before = errno();
        if done == 0
            && let Some(state) = state()
            && let Some(local) = address::of_socket(fd, next::getsockname)
            && let Some(rule) = state.udp_rule(local.port())
            && is_udp(fd)
        {
            let _inside = enter();
            if let Some(incoming) = Incoming::start(&state.shared, fd, local, rule) {
                state.keep_beside(fd, Beside::Udp(incoming));
            }
        }
        set_errno(before);
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
            let new = || Listening::start(&state.shared, &state.places, local, rule, framing);
            if !state.has_beside(fd)
                && let Some(listening) = state.take_closing(local).or_else(new)
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
        let accepted = made(|| next::accept(fd, from, from_len));
        if accepted >= 0 && room > 0 {
            restore_peer(accepted, from, room.min(*from_len) as usize);
        }
        accepted
    }

    fn accept4(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t, flags: c_int) -> c_int {
        let room = room(from, from_len);
        let accepted = made(|| next::accept4(fd, from, from_len, flags));
        if accepted >= 0 && room > 0 {
            restore_peer(accepted, from, room.min(*from_len) as usize);
        }
        accepted
    }

    fn getpeername(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let room = room(at, len);
        let done = next::getpeername(fd, at, len);
        if done == 0 && room > 0 {
            restore_peer(fd, at, room.min(*len) as usize);
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
        if let Some(state) = own_state() {
            let before = errno();
            let port = address::read(to, len as usize).map_or(0, |to| to.port());
            let is_mapped = done == 0 && state.udp_rule(port).is_some() && is_udp(fd);
            set_connected(fd, if is_mapped { port } else { 0 });
            if done == 0 && port != 0 {
                state.end_datagrams_beside(fd);
            }
            set_errno(before);
        }
        done
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        if how != libc::SHUT_RD && own_state().is_some() {
            // The kernel refuses what follows.
            set_connected(fd, 0);
        }
        next::shutdown(fd, how)
    }

    fn close(fd: c_int) -> c_int {
        if calls_pass() {
            return descriptors::close(fd);
        }
        if is_in_the_way(fd, libc::EBADF) {
            return -1;
        }
        closed(fd);
        next::close(fd)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        // Close-on-exec closes nothing yet and ends with the library. A table of its own has no
        // place for the library.
        if flags != 0 || first > last {
            return next::close_range(first, last, flags);
        }
        closed_range(first, last);
        close_programs(first, last, |first, last| next::close_range(first, last, 0))
    }

    fn closefrom(first: c_int) -> () {
        let first = c_uint::try_from(first).unwrap_or(0);
        closed_range(first, c_uint::MAX);
        close_programs(first, c_uint::MAX, |first, last| {
            if last == c_uint::MAX {
                next::closefrom(first as c_int);
                0
            } else {
                next::close_range(first, last, 0)
            }
        });
    }

    fn dup(fd: c_int) -> c_int {
        let copy = made(|| next::dup(fd));
        copied(fd, copy);
        copy
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        if is_in_the_way(to, libc::EBUSY) {
            return -1;
        }
        let copy = next::dup2(fd, to);
        copied(fd, copy);
        copy
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        if is_in_the_way(to, libc::EBUSY) {
            return -1;
        }
        let copy = next::dup3(fd, to, flags);
        copied(fd, copy);
        copy
    }

    // Variadic in C. On the architectures of this library one more integer is passed the same way.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        if !matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            return next::fcntl(fd, command, argument);
        }
        let copy = made(|| next::fcntl(fd, command, argument));
        copied(fd, copy);
        copy
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        if !matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            return next::fcntl64(fd, command, argument);
        }
        let copy = made(|| next::fcntl64(fd, command, argument));
        copied(fd, copy);
        copy
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
        send_parts(fd, parts, len).unwrap_or_else(|| next::writev(fd, parts, len))
    }

    fn sendto(fd: c_int, data: *const c_void, len: usize, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t {
        let parts = [part(data, len)];
        let sent = if to.is_null() {
            send_connected(fd, flags, &parts)
        } else {
            let to = address::read(to, to_len as usize);
            to.and_then(|to| send_to(state()?, fd, to, flags, &parts))
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
        receive_from(from, from_len, |from, from_len| {
            next::recvfrom(fd, data, len, flags, from, from_len)
        })
    }

    fn __recvfrom_chk(fd: c_int, data: *mut c_void, len: usize, size: usize, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        receive_from(from, from_len, |from, from_len| {
            next::__recvfrom_chk(fd, data, len, size, flags, from, from_len)
        })
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        let room = if message.is_null() { 0 } else { (*message).msg_namelen };
        let got = next::recvmsg(fd, message, flags);
        if got >= 0 && calls_pass() {
            address::each_descriptor(&*message, descriptors::keep);
        }
        if got >= 0 && room > 0 {
            restore_header(&*message, room);
        }
        got
    }

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, len: u32, flags: c_int, timeout: *mut timespec) -> c_int {
        // The kernel writes the whole length of an address, also of one that it has cut.
        let asked = if messages.is_null() { 0 } else { len.min(MESSAGES_MAX) as usize };
        let rooms: Vec<_> = (0..asked).map(|at| (*messages.add(at)).msg_hdr.msg_namelen).collect();
        let got = next::recvmmsg(fd, messages, len, flags, timeout);
        for (index, &room) in rooms.iter().enumerate().take(usize::try_from(got).unwrap_or(0)) {
            let message = &(*messages.add(index)).msg_hdr;
            if calls_pass() {
                address::each_descriptor(message, descriptors::keep);
            }
            if room > 0 {
                restore_header(message, room);
            }
        }
        got
    }
}
