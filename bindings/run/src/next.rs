//! The functions of libc behind those that this library replaces.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The place of a function's address, which is 0 until it is looked up.
struct Place {
    /// Ends with 0.
    name: &'static str,
    address: AtomicUsize,
}

impl Place {
    const fn new(name: &'static str) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    fn look_up(&self) {
        // SAFETY: the name ends with 0.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast()) }.addr();
        self.address.store(address, Ordering::Relaxed);
    }

    /// The address, also for a function of another library that runs before this one's start.
    fn address(&self) -> usize {
        if self.address.load(Ordering::Relaxed) == 0 {
            self.look_up();
        }
        let address = self.address.load(Ordering::Relaxed);
        assert!(address != 0, "libc has no {}", self.name.trim_end_matches('\0'));
        address
    }
}

/// Declares `NAME(..)`, which calls libc's function of that name.
macro_rules! next {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)+) => {
        #[allow(non_upper_case_globals, reason = "they have the names of libc's functions")]
        mod places {
            use super::Place;
            $(
                pub static $name: Place = Place::new(concat!(stringify!($name), "\0"));
            )+
        }

        /// Looks all functions up. `dlsym` takes locks: later, a signal handler may call them, or
        /// another thread may wait in `fork` for a thread that calls one.
        pub fn look_up_all() {
            $(places::$name.look_up();)+
        }

        $(
            /// # Safety
            /// As libc's function of that name.
            pub unsafe fn $name($($argument: $type),*) -> $result {
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                let address = places::$name.address();
                // SAFETY: libc's function of this name has this type, and the caller keeps to it.
                unsafe { std::mem::transmute::<usize, Function>(address)($($argument),*) }
            }
        )+
    };
}

use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, pthread_attr_t, pthread_t, sockaddr, socklen_t,
    ssize_t, timespec,
};

/// The function with which a thread starts.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

next! {
    pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, argument: *mut c_void) -> c_int;
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    eventfd(value: c_uint, flags: c_int) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> c_int;
    accept4(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t, flags: c_int) -> c_int;
    getpeername(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockname(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom(first: c_int) -> ();
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
    send(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> ssize_t;
    write(fd: c_int, data: *const c_void, len: usize) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, len: c_int) -> ssize_t;
    sendto(fd: c_int, data: *const c_void, len: usize, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, len: u32, flags: c_int) -> c_int;
    recvfrom(fd: c_int, data: *mut c_void, len: usize, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    __recvfrom_chk(fd: c_int, data: *mut c_void, len: usize, room: usize, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, len: u32, flags: c_int, timeout: *mut timespec) -> c_int;
}
