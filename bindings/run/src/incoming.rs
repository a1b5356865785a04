//! Messages for a mapped port, handed to the program's own UDP socket over the loopback.

use crate::{
    address,
    map::Rule,
    next,
    outgoing::PROBE_JOB,
    shared::{Shared, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Event, JobId, Receiver};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// A thread looks so often whether its socket was closed.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Senders with a socket of their own. Beyond that, all sockets are opened anew.
const SENDERS_MAX: usize = 256;
/// How long a full socket is left alone.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// The kernel's account of a datagram is larger by about this.
const OVERHEAD_BYTES: u32 = 1_536;
/// Fields of SO_MEMINFO.
const RMEM_ALLOC: usize = 0;
const RCVBUF: usize = 1;

/// The receiver beside a program's socket.
pub struct Incoming {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Incoming {
    /// Receives for the program's socket `fd`, which was bound to `local`.
    pub fn start(
        shared: &'static Shared,
        fd: RawFd,
        local: SocketAddr,
        rule: Rule,
    ) -> Option<Self> {
        let at = SocketAddr::new(local.ip(), rule.atp_port);
        let bound = Receiver::builder().linger(Duration::from_millis(500)).bind(at);
        let receiver = bound.map_err(|error| warn(format_args!("port {}: {error}", local.port())));
        // SAFETY: dup takes any number.
        let socket = unsafe { next::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
        let stop = Arc::new(AtomicBool::new(false));
        let inlet = Inlet { shared, socket, local, stop: stop.clone(), outlets: HashMap::new() };
        let receiver = receiver.ok()?;
        let thread = thread::Builder::new().name("atp-run-receiver".to_owned());
        let started = thread.spawn(move || inlet.run(receiver));
        let thread = started.map_err(|error| warn(format_args!("port {}: {error}", local.port())));
        Some(Self { stop, thread: thread.ok()? })
    }

    /// Ends the receiver soon.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the receiver's end: it tells the senders.
    pub fn wait_for_end(self) {
        // A panic of the thread was printed.
        drop(self.thread.join());
    }
}

/// The way of messages into the program's socket.
struct Inlet {
    shared: &'static Shared,
    /// A duplicate of the program's descriptor, to see how full its socket is.
    socket: RawFd,
    local: SocketAddr,
    stop: Arc<AtomicBool>,
    /// A socket for each sender, by the sender's address.
    outlets: HashMap<SocketAddr, UdpSocket>,
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.forget_outlets();
        // SAFETY: the duplicate belongs to this inlet.
        unsafe { next::close(self.socket) };
    }
}

impl Inlet {
    fn run(mut self, mut receiver: Receiver) {
        pass_calls_of_this_thread();
        let probe = JobId::from(PROBE_JOB).number();
        while !self.stop.load(Ordering::Relaxed) {
            match receiver.recv(Some(LOOK_INTERVAL)) {
                Ok(Some(Event::Message { source, job, data, .. })) if job != probe => {
                    if let Err(error) = self.hand_over(source, &data) {
                        warn(format_args!("a message of {source} is lost: {error}"));
                    }
                    receiver.recycle(data);
                }
                Ok(_) => {}
                Err(error) => {
                    warn(format_args!("port {}: {error}", self.local.port()));
                    break;
                }
            }
        }
    }

    fn hand_over(&mut self, source: SocketAddr, data: &[u8]) -> io::Result<()> {
        while self.is_full(data.len()) && !self.stop.load(Ordering::Relaxed) {
            thread::sleep(FULL_PAUSE);
        }
        let outlet = self.outlet(source)?;
        outlet.send(data)?;
        self.shared.counts.received.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the kernel would drop a datagram: the program hasn't read enough.
    fn is_full(&self, bytes: usize) -> bool {
        let (mut info, mut len) = ([0u32; 9], size_of::<[u32; 9]>() as libc::socklen_t);
        // SAFETY: the memory is there and `len` is its length.
        let done = unsafe {
            let at = info.as_mut_ptr().cast();
            libc::getsockopt(self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO, at, &raw mut len)
        };
        let more = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(OVERHEAD_BYTES);
        done == 0 && info[RMEM_ALLOC] > 0 && info[RMEM_ALLOC].saturating_add(more) > info[RCVBUF]
    }

    /// The socket that stands for a sender.
    fn outlet(&mut self, source: SocketAddr) -> io::Result<&UdpSocket> {
        if self.outlets.len() >= SENDERS_MAX && !self.outlets.contains_key(&source) {
            self.forget_outlets();
        }
        if !self.outlets.contains_key(&source) {
            let to = match self.local.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            let any: IpAddr = match to {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let outlet = UdpSocket::bind((any, 0))?;
            outlet.connect((to, self.local.port()))?;
            let own = outlet.local_addr()?;
            lock(&self.shared.senders).insert(own, source);
            self.shared.has_senders.store(true, Ordering::Release);
            self.outlets.insert(source, outlet);
        }
        self.outlets.get(&source).ok_or_else(|| io::Error::other("no socket"))
    }

    fn forget_outlets(&mut self) {
        for (_, outlet) in self.outlets.drain() {
            // A program that reads a datagram later sees the address of the loopback.
            if let Some(own) = address::of_socket(outlet.as_raw_fd(), next::getsockname) {
                lock(&self.shared.senders).remove(&own);
            }
        }
    }
}
