//! The library's sockets, which show a program an end only where one was told.
//!
//! The close of a new socket is a reset: also the kernel's close, after a signal has killed the
//! process. [`end`] changes that, once everything was told.

use crate::{next, shared::lock};
use socket2::{SockRef, TcpKeepalive};
use std::{
    io::{self, ErrorKind, Read, Write},
    mem::offset_of,
    net::{Shutdown, TcpStream},
    os::fd::{AsRawFd, RawFd},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The state of a connection that is none, as TCP_INFO has it.
pub const TCP_CLOSE: u8 = 7;
/// How often the kernel is asked for what it hasn't sent yet.
const DRAIN_INTERVAL: Duration = Duration::from_millis(1);

/// A connection between two hosts that is idle for so long is asked whether it lives. A program's
/// own keepalive asks the loopback only.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Prepares a connection to another library.
pub fn begin_private(socket: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE);
    let keepalive = keepalive.with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES);
    // Without it a silent host is noticed later.
    drop(SockRef::from(socket).set_tcp_keepalive(&keepalive));
    begin(socket)
}

/// Makes each close of a socket a reset, until its end is told.
fn begin(socket: &TcpStream) -> io::Result<()> {
    SockRef::from(socket).set_linger(Some(Duration::ZERO))
}

/// Ends what is sent by a socket. From now on the kernel sends the rest, also of an ended process.
pub fn end(socket: &TcpStream) -> io::Result<()> {
    keep_bytes(socket)?;
    socket.shutdown(Shutdown::Write)
}

/// The kernel sends what was written, also if the process ends.
pub fn keep_bytes(socket: &TcpStream) -> io::Result<()> {
    SockRef::from(socket).set_linger(None)
}

/// Resets a connection at once, and wakes the threads that wait for it.
pub fn abort(socket: &TcpStream) {
    let fd = socket.as_raw_fd();
    // SAFETY: all zero is an address of no family, which is there.
    let done = unsafe {
        let none: libc::sockaddr = std::mem::zeroed();
        next::connect(fd, &raw const none, size_of_val(&none) as libc::socklen_t)
    };
    // Some kernels (6.4, 6.5) don't while threads wait. To shut down both ways would send an end.
    // So the readers are woken, and the last close is the reset.
    if done < 0 {
        drop(begin(socket));
        drop(socket.shutdown(Shutdown::Read));
    }
}

/// Waits until the other end's kernel has everything that was written, for `timeout` at most.
pub fn drain(socket: &TcpStream, timeout: Duration) {
    let deadline = Instant::now() + timeout;
    while holds_bytes(socket) && Instant::now() < deadline {
        thread::sleep(DRAIN_INTERVAL);
    }
}

/// Whether the kernel has bytes that the other end hasn't confirmed.
pub fn holds_bytes(socket: &TcpStream) -> bool {
    let mut left: libc::c_int = 0;
    // SAFETY: the number is there.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut left) };
    done == 0 && left > 0 && !is_closed(socket)
}

fn is_closed(socket: &TcpStream) -> bool {
    state(socket.as_raw_fd()).is_none_or(|state| state == TCP_CLOSE)
}

/// The state of a TCP socket.
pub fn state(fd: RawFd) -> Option<u8> {
    let (mut state, mut len) = (0u8, size_of::<u8>() as libc::socklen_t);
    const { assert!(offset_of!(libc::tcp_info, tcpi_state) == 0) };
    // SAFETY: the memory is there and `len` is its length; the state is the first byte.
    let done = unsafe {
        let at = (&raw mut state).cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut len)
    };
    (done == 0).then_some(state)
}

/// The library's end of the loopback connection to a program. One thread reads, others write.
pub struct ToProgram {
    socket: TcpStream,
    /// Held by the thread that writes.
    writing: Mutex<()>,
    /// A reset was seen, or made.
    is_reset: AtomicBool,
}

impl ToProgram {
    /// `was_reset`: the program has reset the connection, and the kernel has told that.
    pub fn new(socket: TcpStream, was_reset: bool) -> io::Result<Self> {
        begin(&socket)?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, writing: Mutex::default(), is_reset: AtomicBool::new(was_reset) })
    }

    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))
    }

    /// Reads. 0 is the program's own end, and never a reset.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match (&self.socket).read(bytes) {
            // The kernel tells a reset to one call alone: a write may have had it.
            Ok(0) if self.was_reset() => Err(ErrorKind::ConnectionReset.into()),
            done => done,
        }
    }

    fn was_reset(&self) -> bool {
        // The write of a closed connection ends soon, and notes what it was told.
        let _written = is_closed(&self.socket).then(|| lock(&self.writing));
        self.is_reset.load(Ordering::Relaxed)
    }

    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let _writing = lock(&self.writing);
        let done = (&self.socket).write_all(bytes);
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset) {
            self.is_reset.store(true, Ordering::Relaxed);
        }
        done
    }

    /// Shows the program an end.
    pub fn end(&self) -> io::Result<()> {
        end(&self.socket)
    }

    /// Shows the program a reset.
    pub fn abort(&self) {
        self.is_reset.store(true, Ordering::Relaxed);
        abort(&self.socket);
    }

    /// Waits until the program's kernel has what was written, for `timeout` at most.
    pub fn drain(&self, timeout: Duration) {
        drain(&self.socket, timeout);
    }

    pub fn holds_bytes(&self) -> bool {
        holds_bytes(&self.socket)
    }

    /// Reads and drops what has arrived, for `timeout` at most; whether more may come.
    pub fn discard(&self, bytes: &mut [u8], timeout: Duration) -> bool {
        if self.set_read_timeout(timeout).is_err() {
            return false;
        }
        match self.read(bytes) {
            Ok(len) => len > 0,
            Err(error) => is_pause(&error),
        }
    }
}

/// Whether a read was interrupted, or has waited for its time.
pub fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Resets a connection if the thread that carries it panics: the others wait for it.
pub struct OnPanic<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}

/// Runs when it is dropped.
pub struct OnDrop<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
