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
/// How long a sender's socket stands for it after its last message. A thread of the program may
/// have read a datagram, and be about to look up the sender.
const KEPT: Duration = Duration::from_millis(100);
/// How long a socket is left alone whose datagrams the program has to read first.
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
        };
        shared.inlets.fetch_add(1, Ordering::Relaxed);
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
}

/// The socket that stands for a sender.
struct Outlet {
    socket: UdpSocket,
    /// The time of the sender's last message.
    used: Instant,
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.shared.inlets.fetch_sub(1, Ordering::Relaxed);
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
                Ok(Some(Event::Finished { run, .. })) => self.claims.end(run),
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
            let admitted = self.claims.admits(claimed, opened.holder, run, Instant::now());
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
        let more = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(OVERHEAD_BYTES);
        self.memory().is_some_and(|(unread, room)| unread > 0 && unread.saturating_add(more) > room)
    }

    /// The bytes that the program hasn't read, as the kernel counts them, and the room for them.
    fn memory(&self) -> Option<(u32, u32)> {
        let socket = lock(&self.ending.socket);
        let socket = socket.as_ref().map(AsRawFd::as_raw_fd)?;
        let (mut info, mut len) = ([0u32; 9], size_of::<[u32; 9]>() as libc::socklen_t);
        // SAFETY: the memory is there and `len` is its length.
        let done = unsafe {
            let at = info.as_mut_ptr().cast();
            libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, at, &raw mut len)
        };
        (done == 0).then_some((info[RMEM_ALLOC], info[RCVBUF]))
    }

    /// The socket that stands for a sender.
    fn outlet(&mut self, sender: SocketAddr) -> io::Result<&UdpSocket> {
        if !self.outlets.contains_key(&sender) {
            let inlets = self.shared.inlets.load(Ordering::Relaxed).max(1);
            let max = (limit::senders() / inlets).max(1);
            let mut socket = None;
            while self.outlets.len() >= max {
                socket = self.take_oldest();
            }
            let socket = socket.map_or_else(|| self.open_outlet(), Ok)?;
            let ends = self.ends_with(sender);
            names::note(Protocol::Udp, socket.local_addr()?, ends);
            self.outlets.insert(sender, Outlet { socket, used: Instant::now() });
        }
        let outlet = self.outlets.get_mut(&sender).ok_or_else(|| io::Error::other("no socket"))?;
        outlet.used = Instant::now();
        Ok(&outlet.socket)
    }

    /// The socket of the sender that was idle longest, for another one. It isn't closed: a user of
    /// this host could get its port, and speak as that sender. It has no name any more, and had one
    /// until the program has read its datagrams.
    fn take_oldest(&mut self) -> Option<UdpSocket> {
        let (sender, used) = self
            .outlets
            .iter()
            .map(|(sender, outlet)| (*sender, outlet.used))
            .min_by_key(|(_, used)| *used)?;
        let is_unread = || self.memory().is_some_and(|(unread, _)| unread > 0);
        while (used.elapsed() < KEPT || is_unread()) && !self.ending.is_asked() {
            thread::sleep(FULL_PAUSE);
        }
        let outlet = self.outlets.remove(&sender)?;
        forget(&outlet);
        self.shared.counts.senders_evicted.fetch_add(1, Ordering::Relaxed);
        Some(outlet.socket)
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
