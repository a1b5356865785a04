//! The listening end: messages become the bytes of a connection to the program.

use super::{
    GO, Hello, LOOK_INTERVAL, NOBODY,
    connection::Connection,
    life::Life,
    reachable,
    socket::{OnDrop, OnPanic, ToProgram, is_pause},
    with_port,
};
use crate::{
    framing::Framing,
    map::Rule,
    names::{self, Ends, Protocol as Named},
    outgoing::PROBE_JOB,
    port,
    shared::{Shared, join_until, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Event, JobId, Receiver};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long the other end may take to find that it can carry the connection.
const GO_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the program's own port may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The receiver beside a listening socket.
pub struct Listening {
    local: SocketAddr,
    life: Arc<Life>,
    thread: thread::JoinHandle<()>,
}

impl Listening {
    /// Receives for the program's socket that listens at `local`.
    pub fn start(
        shared: &'static Shared,
        local: SocketAddr,
        rule: Rule,
        framing: Framing,
    ) -> Option<Self> {
        let mut at = local;
        at.set_port(rule.atp_port);
        let open = move || Ok((port::bind(at)?, listen(at)?));
        let failed = move |error| warn(format_args!("port {}: {error}", local.port()));
        // Clients that know the port can ask at once.
        let first = port::try_open(open).map_err(failed).ok()?;
        let life = Arc::new(Life::default());
        let is_held_up = Arc::new(AtomicBool::new(false));
        let inlet = Inlet { life: life.clone(), is_held_up: is_held_up.clone(), shared, local };
        let door = Door { life: life.clone(), is_held_up, local, framing };
        let run = move || {
            pass_calls_of_this_thread();
            let later = || port::open_later(open, || !door.life.end_without_connections());
            let opened = match first.map_or_else(later, |opened| Ok(Some(opened))) {
                Ok(opened) => opened,
                Err(error) => return failed(error),
            };
            let Some((receiver, listener)) = opened else { return };
            let accept = thread::Builder::new().name("atp-run-acceptor".to_owned());
            match accept.spawn(move || door.run(listener, at)) {
                Ok(accept) => {
                    inlet.run(receiver);
                    // A panic of the thread was printed.
                    drop(accept.join());
                }
                Err(error) => failed(error),
            }
        };
        let thread = thread::Builder::new().name("atp-run-receiver".to_owned()).spawn(run);
        Some(Self { local, life, thread: thread.map_err(failed).ok()? })
    }

    /// Ends the receiver after its last connection.
    pub fn end(&self) {
        self.life.close();
    }

    /// Takes up a receiver that is ending, for a program that listens at `local` again.
    pub fn revive(&self, local: SocketAddr) -> bool {
        self.local == local && self.life.reopen()
    }

    pub fn has_ended(&self) -> bool {
        self.life.has_ended()
    }

    pub fn life(&self) -> Arc<Life> {
        self.life.clone()
    }

    /// Ends the receiver and waits for that until `deadline`: the senders hear of the end.
    pub fn end_now(self, deadline: Instant) {
        self.life.end();
        join_until(self.thread, deadline);
    }
}

/// The way of messages to the program.
struct Inlet {
    life: Arc<Life>,
    /// Whether the thread waits for a program that doesn't read.
    is_held_up: Arc<AtomicBool>,
    shared: &'static Shared,
    local: SocketAddr,
}

impl Inlet {
    fn run(self, mut receiver: Receiver) {
        pass_calls_of_this_thread();
        let life = self.life.clone();
        // Without this thread no message comes: the connections break.
        let _guard = OnPanic(|| life.connections().iter().for_each(|open| open.abort()));
        while !self.life.end_without_connections() {
            match receiver.recv(Some(LOOK_INTERVAL)) {
                Ok(Some(event)) => self.handle(event, &receiver),
                Ok(None) => {}
                Err(error) => {
                    warn(format_args!("port {}: {error}", self.local.port()));
                    self.life.connections().iter().for_each(|open| open.abort());
                    break;
                }
            }
        }
    }

    fn handle(&self, event: Event, receiver: &Receiver) {
        let connection = |job: u32| lock(&self.life.jobs).get(&job).cloned();
        match event {
            Event::Message { source, job, data, .. } => {
                if let Some(connection) = connection(job).filter(|is| is.is_open()) {
                    self.shared.counts.received.fetch_add(1, Ordering::Relaxed);
                    self.is_held_up.store(true, Ordering::Relaxed);
                    connection.take(data);
                    self.is_held_up.store(false, Ordering::Relaxed);
                } else if job != JobId::from(PROBE_JOB).number() {
                    receiver.request_end(source, job);
                }
            }
            Event::WindowEnded { job, summary, .. } => {
                if let Some(connection) = connection(job) {
                    connection.end_window(summary.complete, false);
                }
            }
            Event::Finished { job, summary, .. } => {
                if let Some(connection) = connection(job) {
                    connection.end_window(summary.complete, true);
                }
            }
            Event::Started { .. } | Event::TermsChanged { .. } => {}
        }
    }
}

/// Whether a program has reset a connection at once: the kernel doesn't refuse one in this way.
fn has_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The port to which other libraries connect.
struct Door {
    life: Arc<Life>,
    is_held_up: Arc<AtomicBool>,
    local: SocketAddr,
    framing: Framing,
}

impl Door {
    fn run(self, listener: TcpListener, at: SocketAddr) {
        pass_calls_of_this_thread();
        let (door, mut listener) = (Arc::new(self), Some(listener));
        while !door.life.has_ended() {
            // New connections are those of another process that listens at the program's port now.
            if door.life.is_closing() {
                listener = None;
            } else if listener.is_none() {
                listener = listen(at).ok();
            }
            match &listener {
                Some(listener) => door.accept_from(listener),
                None => thread::sleep(LOOK_INTERVAL),
            }
        }
    }

    fn accept_from(self: &Arc<Self>, listener: &TcpListener) {
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&raw mut ready, 1, LOOK_INTERVAL.as_millis() as i32) };
        match listener.accept() {
            Ok((private, _)) => {
                let door = self.clone();
                let thread = thread::Builder::new().name("atp-run-connection".to_owned());
                let started = thread.spawn(move || {
                    pass_calls_of_this_thread();
                    if let Err(error) = door.serve(private) {
                        warn(format_args!("port {}: {error}", door.local.port()));
                    }
                });
                // Without a thread the other end's program connects plainly.
                drop(started);
            }
            Err(error) if is_pause(&error) => {}
            // For instance too many descriptors.
            Err(_) => thread::sleep(LOOK_INTERVAL),
        }
    }

    /// Carries one connection to its end.
    fn serve(&self, private: TcpStream) -> io::Result<()> {
        private.set_nonblocking(false)?;
        private.set_nodelay(true)?;
        // The other end may find another framing, or no answer of ATP. It connects plainly then.
        if self.agree(&private).is_err() {
            return Ok(());
        }
        let ends = Ends {
            peer: private.peer_addr()?,
            local: self.seen_address(private.local_addr()?),
            interface: 0,
        };
        let Some(beginning) = self.life.begin_connection() else { return Ok(()) };
        let Ok((program, far, was_reset)) = self.connect(ends) else {
            // The other end connects plainly, and hears it from the kernel.
            return (&private).write_all(&NOBODY.to_be_bytes());
        };
        let _named = OnDrop(|| names::forget(Named::Tcp, far));
        // The program sees a reset if anything fails from here on.
        let program = ToProgram::new(program, was_reset)?;
        let (connection, pieces) = Connection::new(private, program, far)?;
        let connection = Arc::new(connection);
        let job = self.register(&connection);
        drop(beginning);
        let _registered = OnDrop(|| drop(lock(&self.life.jobs).remove(&job)));
        connection.relay(pieces, job, &self.is_held_up)
    }

    /// Waits until the other end has decided to carry the connection.
    fn agree(&self, mut private: &TcpStream) -> io::Result<()> {
        Hello { framing: self.framing }.write(private)?;
        private.set_read_timeout(Some(GO_TIMEOUT))?;
        let mut go = [0];
        private.read_exact(&mut go)?;
        private.set_read_timeout(None)?;
        if go == [GO] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn seen_address(&self, private: SocketAddr) -> SocketAddr {
        with_port(private, self.local.port())
    }

    /// Connects to the program, which sees the ends of the other connection. Gives the library's
    /// address, and whether the program has reset the connection already.
    fn connect(&self, ends: Ends) -> io::Result<(TcpStream, SocketAddr, bool)> {
        let to = reachable(self.local);
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_linger(Some(Duration::ZERO))?;
        socket.bind(&SockAddr::from(with_port(to, 0)))?;
        let far = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        // The program may accept before the call returns.
        names::note(Named::Tcp, far, ends);
        match socket.connect_timeout(&SockAddr::from(to), CONNECT_TIMEOUT) {
            Ok(()) => Ok((socket.into(), far, false)),
            // It has seen the connection, and there is no second one.
            Err(error) if has_reset(&error) => Ok((socket.into(), far, true)),
            Err(error) => {
                names::forget(Named::Tcp, far);
                Err(error)
            }
        }
    }

    /// Gives the connection a job of its own.
    fn register(&self, connection: &Arc<Connection>) -> u32 {
        let random = RandomState::new();
        let mut jobs = lock(&self.life.jobs);
        let is_free = |job: &u32| {
            let others = [NOBODY, JobId::from(PROBE_JOB).number()];
            !others.contains(job) && !jobs.contains_key(job)
        };
        let mut free = (0u64..).map(|index| random.hash_one(index) as u32).filter(is_free);
        let job = free.next().unwrap_or(1);
        jobs.insert(job, connection.clone());
        job
    }
}
