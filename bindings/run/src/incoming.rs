//! Messages for a mapped port, handed to the program's own UDP socket over the loopback.

use crate::{
    address,
    claims::Claims,
    datagram, descriptors, limit,
    map::Rule,
    names::{self, Ends, Protocol},
    next,
    outgoing::PROBE_JOB,
    port,
    shared::{Shared, join_until, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Event, JobId, Receiver};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A thread looks so often whether its socket was closed.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Senders with a socket of their own, unless the process may have few descriptors. Beyond that,
/// the longest idle one is closed.
const SENDERS_MAX: usize = 256;
/// The share of the process's descriptors, one part of so many, that is the limit then.
const DESCRIPTORS_PER_SENDER: usize = 8;
/// How long a full socket is left alone.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// The kernel's account of a datagram is larger by about this.
const OVERHEAD_BYTES: u32 = 1_536;
/// Fields of SO_MEMINFO.
const RMEM_ALLOC: usize = 0;
const RCVBUF: usize = 1;

/// The receiver beside a program's socket.
pub struct Incoming {
    ending: Arc<Ending>,
    thread: thread::JoinHandle<()>,
}

/// The end of a receiver.
struct Ending {
    is_asked: AtomicBool,
    /// A duplicate of the program's descriptor, to see how full its socket is. Without it, the
    /// program's close leaves the port free at once.
    socket: Mutex<Option<OwnedFd>>,
}

impl Ending {
    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

impl Incoming {
    /// Receives for the program's socket `fd`, which was bound to `local`.
    pub fn start(
        shared: &'static Shared,
        fd: RawFd,
        local: SocketAddr,
        rule: Rule,
    ) -> Option<Self> {
        // SAFETY: F_DUPFD takes any number.
        let copy = descriptors::make(|| unsafe { next::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) });
        // SAFETY: the copy is this function's own.
        let socket = (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) });
        let ending = Ending { is_asked: AtomicBool::new(false), socket: Mutex::new(socket) };
        let ending = Arc::new(ending);
        let mut at = local;
        at.set_port(rule.atp_port);
        let failed = move |error| warn(format_args!("port {}: {error}", local.port()));
        // Senders that know the port can ask at once.
        let first = port::try_open(|| port::bind(at)).map_err(failed).ok()?;
        let inlet = Inlet {
            shared,
            local,
            ending: ending.clone(),
            claims: Claims::default(),
            outlets: HashMap::new(),
            uses: 0,
        };
        let run = move || {
            pass_calls_of_this_thread();
            let later = || port::open_later(|| port::bind(at), || !inlet.ending.is_asked());
            match first.map_or_else(later, |receiver| Ok(Some(receiver))) {
                Ok(Some(receiver)) => inlet.run(receiver),
                Ok(None) => {}
                Err(error) => failed(error),
            }
        };
        let thread = thread::Builder::new().name("atp-run-receiver".to_owned()).spawn(run);
        Some(Self { ending, thread: thread.map_err(failed).ok()? })
    }

    /// Ends the receiver soon.
    pub fn end(&self) {
        self.ending.is_asked.store(true, Ordering::Relaxed);
        drop(lock(&self.ending.socket).take());
    }

    /// Waits for the receiver's end, until `deadline`: it tells the senders.
    pub fn wait_for_end(self, deadline: Instant) {
        join_until(self.thread, deadline);
    }
}

/// The way of messages into the program's socket.
struct Inlet {
    shared: &'static Shared,
    local: SocketAddr,
    ending: Arc<Ending>,
    claims: Claims,
    /// A socket for each sender, by the sender's address.
    outlets: HashMap<SocketAddr, Outlet>,
    /// Messages handed over.
    uses: u64,
}

/// The socket that stands for a sender.
struct Outlet {
    socket: UdpSocket,
    /// The number of the sender's last message.
    used: u64,
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.outlets.drain().for_each(|(_, outlet)| forget(&outlet));
    }
}

/// Forgets the sender of an outlet. If the program reads a datagram of it later, it sees the
/// address of the loopback.
fn forget(outlet: &Outlet) {
    if let Ok(own) = outlet.socket.local_addr() {
        names::forget(Protocol::Udp, own);
    }
}

impl Inlet {
    fn run(mut self, mut receiver: Receiver) {
        let probe = JobId::from(PROBE_JOB).number();
        while !self.ending.is_asked() {
            match receiver.recv(Some(LOOK_INTERVAL)) {
                Ok(Some(Event::Message { source, job, run, data, .. })) if job != probe => {
                    self.take(&receiver, source, run, &data);
                    receiver.recycle(data);
                }
                Ok(Some(Event::Finished { source, .. })) => self.claims.end(source),
                Ok(_) => {}
                Err(error) => {
                    warn(format_args!("port {}: {error}", self.local.port()));
                    break;
                }
            }
        }
    }

    /// Takes a message. Asks senders to end whose messages this library can't hand over as they
    /// were: libraries then send plain datagrams.
    fn take(&mut self, receiver: &Receiver, source: SocketAddr, run: u64, message: &[u8]) {
        let Some(opened) = datagram::open(source, message) else {
            receiver.request_end(run);
            if self.shared.counts.refused.fetch_add(1, Ordering::Relaxed) == 0 {
                warn(format_args!(
                    "port {}: messages that this version of atp-run didn't send are refused and \
                     counted; the first came from {source}",
                    self.local.port()
                ));
            }
            return;
        };
        let sender = opened.claimed.map_or(Ok(source), |claimed| {
            let admitted = self.claims.admits(claimed, opened.holder, source, Instant::now());
            if admitted { Ok(claimed) } else { Err(claimed) }
        });
        if opened.is_translated || sender.is_err() {
            receiver.request_end(run);
        }
        let sender = sender.unwrap_or_else(|claimed| {
            self.note_refused(claimed, source);
            source
        });
        if sender == source {
            self.claims.give_back(source);
        }
        if let Err(error) = self.hand_over(sender, opened.datagram)
            && !self.ending.is_asked()
        {
            warn(format_args!("a message of {source} is lost: {error}"));
        }
    }

    fn note_refused(&self, claimed: SocketAddr, source: SocketAddr) {
        if self.shared.counts.claims_refused.fetch_add(1, Ordering::Relaxed) == 0 {
            warn(format_args!(
                "port {}: messages that claim a port of another process, or one below 1024, get \
                 the port of ATP and are counted; the first, of {source}, claimed {claimed}",
                self.local.port()
            ));
        }
    }

    fn hand_over(&mut self, sender: SocketAddr, data: &[u8]) -> io::Result<()> {
        while self.is_full(data.len()) && !self.ending.is_asked() {
            thread::sleep(FULL_PAUSE);
        }
        self.outlet(sender)?.send(data)?;
        self.shared.counts.received.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the kernel would drop a datagram: the program hasn't read enough.
    fn is_full(&self, bytes: usize) -> bool {
        let socket = lock(&self.ending.socket);
        let Some(socket) = socket.as_ref().map(AsRawFd::as_raw_fd) else { return false };
        let (mut info, mut len) = ([0u32; 9], size_of::<[u32; 9]>() as libc::socklen_t);
        // SAFETY: the memory is there and `len` is its length.
        let done = unsafe {
            let at = info.as_mut_ptr().cast();
            libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, at, &raw mut len)
        };
        let more = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(OVERHEAD_BYTES);
        done == 0 && info[RMEM_ALLOC] > 0 && info[RMEM_ALLOC].saturating_add(more) > info[RCVBUF]
    }

    /// The socket that stands for a sender.
    fn outlet(&mut self, sender: SocketAddr) -> io::Result<&UdpSocket> {
        self.uses += 1;
        if !self.outlets.contains_key(&sender) {
            let max = SENDERS_MAX.min(limit::descriptors() / DESCRIPTORS_PER_SENDER).max(1);
            while self.outlets.len() >= max {
                let oldest = self.outlets.iter().min_by_key(|(_, outlet)| outlet.used);
                let Some(oldest) = oldest.map(|(sender, _)| *sender) else { break };
                // Its name stays until the port has another: the program may not have read its
                // datagrams, and must not take them for the loopback's.
                self.outlets.remove(&oldest);
                self.shared.counts.senders_evicted.fetch_add(1, Ordering::Relaxed);
            }
            let socket = self.open_outlet()?;
            let ends = self.ends_with(sender);
            names::note(Protocol::Udp, socket.local_addr()?, ends);
            self.outlets.insert(sender, Outlet { socket, used: 0 });
        }
        let outlet = self.outlets.get_mut(&sender).ok_or_else(|| io::Error::other("no socket"))?;
        outlet.used = self.uses;
        Ok(&outlet.socket)
    }

    /// The addresses of a sender and of this host, as a datagram between them has them.
    fn ends_with(&self, sender: SocketAddr) -> Ends {
        let mut local = self.local;
        if local.ip().is_unspecified()
            && let Some(ip) = address::source_to(sender)
        {
            local.set_ip(ip);
        }
        Ends { peer: sender, local, interface: address::interface_of(local.ip()) }
    }

    /// A socket that is connected to the program's own.
    fn open_outlet(&self) -> io::Result<UdpSocket> {
        let mut to = self.local;
        let any: IpAddr = match self.local.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        if self.local.ip() == any {
            let loopback: IpAddr = match any {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            to.set_ip(loopback);
        }
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        Ok(socket)
    }
}
