//! Messages for a mapped port, handed to the program's own UDP socket over the loopback.

use crate::{
    address,
    claims::Claims,
    datagram, descriptors, limit,
    map::Rule,
    names::{self, Ends, Protocol},
    next,
    outgoing::PROBE_JOB,
    outlets::{self, Outlets, Waits},
    port,
    shared::{Shared, join_until, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Event, JobId, Receiver};
use std::{
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
            outlets: Outlets::default(),
            waits: Waits::new(),
            unnamed: None,
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

    /// Waits for the receiver's end, until `deadline`: the senders learn of it.
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
    outlets: Outlets,
    waits: Waits,
    /// The socket for messages whose senders have none.
    unnamed: Option<UdpSocket>,
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.shared.inlets.fetch_sub(1, Ordering::Relaxed);
        self.unnamed.iter().for_each(outlets::forget);
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

    /// The socket that stands for a sender, or the one for those without a socket.
    fn outlet(&mut self, sender: SocketAddr) -> io::Result<&UdpSocket> {
        if self.outlets.contains(sender) || self.make_outlet(sender)? {
            return self.outlets.get(sender).ok_or_else(|| io::Error::other("no socket"));
        }
        self.shared.counts.senders_unnamed.fetch_add(1, Ordering::Relaxed);
        let socket = self.unnamed.take().map_or_else(|| self.open_unnamed(), Ok)?;
        Ok(self.unnamed.insert(socket))
    }

    /// Lets a socket stand for a sender. False: none is free.
    fn make_outlet(&mut self, sender: SocketAddr) -> io::Result<bool> {
        let inlets = self.shared.inlets.load(Ordering::Relaxed).max(1);
        let places = (limit::senders() / inlets).max(1);
        let mut socket = None;
        while let Some(host) = self.outlets.crowded(sender, places) {
            socket = self.take_outlet(host);
            if socket.is_none() {
                return Ok(false);
            }
        }
        let socket = socket.map_or_else(|| self.open_outlet(), Ok)?;
        self.outlets.insert(self.ends_with(sender), socket)?;
        Ok(true)
    }

    /// Takes a socket from a sender of the host, and waits for that if there is time.
    fn take_outlet(&mut self, host: IpAddr) -> Option<UdpSocket> {
        loop {
            let now = Instant::now();
            if self.memory().is_none_or(|(unread, _)| unread == 0) {
                self.outlets.note_read(now);
            }
            if let Some(socket) = self.outlets.take(host, now) {
                self.shared.counts.senders_evicted.fetch_add(1, Ordering::Relaxed);
                return Some(socket);
            }
            if self.ending.is_asked() || !self.waits.step() {
                return None;
            }
        }
    }

    /// The socket for senders without one. Its name is the unspecified address, and not that of
    /// the loopback, which programs may trust. It has its own port, so that replies end there.
    fn open_unnamed(&self) -> io::Result<UdpSocket> {
        let socket = self.open_outlet()?;
        let mut peer = self.unspecified();
        peer.set_port(socket.local_addr()?.port());
        names::note(Protocol::Udp, socket.local_addr()?, self.ends_with(peer));
        Ok(socket)
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
        if to.ip().is_unspecified() {
            let loopback: IpAddr = match to.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            to.set_ip(loopback);
        }
        let socket = UdpSocket::bind(self.unspecified())?;
        socket.connect(to)?;
        Ok(socket)
    }

    /// The unspecified address of the program's socket's family, without a port.
    fn unspecified(&self) -> SocketAddr {
        let any: IpAddr = match self.local.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        (any, 0).into()
    }
}
