//! The listening end: messages become the bytes of a connection to the program.

use super::{COPY_BYTES, GO, Hello, LAST_BYTES_TIMEOUT, LOOK_INTERVAL, is_pause, reachable, reset};
use crate::{
    framing::Framing,
    map::Rule,
    names::{self, Ends, Protocol as Named},
    next,
    outgoing::PROBE_JOB,
    port,
    shared::{Shared, join_until, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Event, JobId, Receiver};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Frames that wait for a program which doesn't read. Beyond that, the port's other connections
/// wait as well.
const QUEUE_MAX: usize = 1_024;
/// How long the end of a connection waits for the end of its messages, which it has confirmed.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the other end may take to find that it can carry the connection.
const GO_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the program's own port may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The receiver beside a listening socket.
pub struct Listening {
    local: SocketAddr,
    life: Arc<Life>,
    jobs: Arc<Jobs>,
    thread: thread::JoinHandle<()>,
}

/// How long a receiver lives: connections outlive the listening socket.
struct Life {
    phase: Mutex<Phase>,
    /// Readable once the process ends.
    exit: OwnedFd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Open,
    /// The program has closed its listening socket.
    Closing,
    Ended,
}

impl Life {
    fn new() -> io::Result<Self> {
        // SAFETY: no memory; the descriptor is this function's own.
        unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self { phase: Mutex::default(), exit: OwnedFd::from_raw_fd(fd) }),
            }
        }
    }

    fn has_ended(&self) -> bool {
        *lock(&self.phase) == Phase::Ended
    }

    fn is_closing(&self) -> bool {
        *lock(&self.phase) == Phase::Closing
    }

    /// Ends at once, since the process does.
    fn end_at_exit(&self) {
        *lock(&self.phase) = Phase::Ended;
        let one = 1u64;
        // SAFETY: the number is there. A counter of 0 takes it.
        unsafe { next::write(self.exit.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Ends after the last connection.
    fn end_without(&self, jobs: &Jobs) -> bool {
        let mut phase = lock(&self.phase);
        if *phase == Phase::Closing && lock(jobs).is_empty() {
            *phase = Phase::Ended;
        }
        *phase == Phase::Ended
    }
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
        let life = Arc::new(Life::new().map_err(failed).ok()?);
        let jobs = Arc::new(Jobs::default());
        let inlet = Inlet { life: life.clone(), jobs: jobs.clone(), shared, local };
        let door = Door { life: life.clone(), jobs: jobs.clone(), local, framing };
        let run = move || {
            pass_calls_of_this_thread();
            let later = || port::open_later(open, || !door.life.end_without(&door.jobs));
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
        Some(Self { local, life, jobs, thread: thread.map_err(failed).ok()? })
    }

    /// Ends the receiver after its last connection.
    pub fn end(&self) {
        *lock(&self.life.phase) = Phase::Closing;
    }

    /// Takes up a receiver that is ending, for a program that listens at `local` again.
    pub fn revive(&self, local: SocketAddr) -> bool {
        let mut phase = lock(&self.life.phase);
        let is_alive = *phase == Phase::Closing && self.local == local;
        if is_alive {
            *phase = Phase::Open;
        }
        is_alive
    }

    pub fn has_ended(&self) -> bool {
        self.life.has_ended()
    }

    /// Ends the receiver, whose program reads no more, and waits for that until `deadline`: the
    /// clients get the replies, and the senders hear of the end.
    pub fn end_now(self, deadline: Instant) {
        self.life.end_at_exit();
        let connections: Vec<_> = lock(&self.jobs).values().cloned().collect();
        connections.iter().for_each(|connection| connection.end_at_exit(deadline));
        join_until(self.thread, deadline);
    }
}

/// What is written to the program.
enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// A connection, for the threads that receive messages and that end the process.
struct Connection {
    queue: SyncSender<Piece>,
    passed: Mutex<Passed>,
    changed: Condvar,
    /// The program has closed its end.
    is_closed: AtomicBool,
    /// The connection to the other library.
    private: TcpStream,
    /// The connection to the program.
    outlet: TcpStream,
}

/// The parts of a connection that have ended.
#[derive(Default)]
struct Passed {
    messages: bool,
    replies: bool,
}

impl Connection {
    fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    fn note(&self, change: impl FnOnce(&mut Passed)) {
        change(&mut lock(&self.passed));
        self.changed.notify_all();
    }

    /// Waits until `has_passed`, or `deadline`; which of them it was.
    fn wait_for(&self, has_passed: impl Fn(&Passed) -> bool, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let waits = |passed: &mut Passed| !has_passed(passed);
        let waited = self.changed.wait_timeout_while(lock(&self.passed), left, waits);
        has_passed(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Ends the connection of a program that reads no more, after the replies that it has written.
    /// Without all of them the connection breaks: an end would hide the missing bytes.
    fn end_at_exit(&self, deadline: Instant) {
        self.is_closed.store(true, Ordering::Relaxed);
        if !self.wait_for(|passed| passed.replies, deadline) {
            self.break_both();
        }
        // Frees the writer that waits for the program.
        drop(self.outlet.shutdown(Shutdown::Both));
    }

    /// The program has gone: no more messages are taken for it.
    fn break_both(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        for socket in [&self.private, &self.outlet] {
            reset(socket);
            // It may be closed.
            drop(socket.shutdown(Shutdown::Both));
        }
    }

    fn pass_replies(&self, life: &Life) {
        if self.copy_replies(life).is_err() {
            self.break_both();
        }
        self.note(|passed| passed.replies = true);
    }

    /// Copies replies until the program ends its connection, or the process.
    fn copy_replies(&self, life: &Life) -> io::Result<()> {
        let (mut outlet, mut private) = (&self.outlet, &self.private);
        let mut bytes = vec![0; COPY_BYTES];
        let fd = outlet.as_raw_fd();
        while is_readable(fd, life.exit.as_raw_fd(), None)
            // The kernel still holds bytes of the program.
            || is_readable(fd, fd, Some(LAST_BYTES_TIMEOUT))
        {
            match outlet.read(&mut bytes) {
                Ok(0) => break,
                Ok(len) => private.write_all(&bytes[..len])?,
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error),
            }
        }
        private.shutdown(Shutdown::Write)
    }
}

/// Waits until one of two descriptors is readable, or for `timeout`; whether the first is.
fn is_readable(fd: RawFd, other: RawFd, timeout: Option<Duration>) -> bool {
    let mut ready = [fd, other].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let timeout = timeout.map_or(-1, |timeout| timeout.as_millis() as i32);
    // SAFETY: two entries.
    unsafe { libc::poll(ready.as_mut_ptr(), 2, timeout) };
    ready[0].revents != 0
}

/// The connections by their jobs.
type Jobs = Mutex<HashMap<u32, Arc<Connection>>>;

/// The way of messages to the program.
struct Inlet {
    life: Arc<Life>,
    jobs: Arc<Jobs>,
    shared: &'static Shared,
    local: SocketAddr,
}

impl Inlet {
    fn run(self, mut receiver: Receiver) {
        pass_calls_of_this_thread();
        while !self.life.end_without(&self.jobs) {
            match receiver.recv(Some(LOOK_INTERVAL)) {
                Ok(Some(event)) => self.handle(event, &receiver),
                Ok(None) => {}
                Err(error) => {
                    warn(format_args!("port {}: {error}", self.local.port()));
                    break;
                }
            }
        }
    }

    fn handle(&self, event: Event, receiver: &Receiver) {
        let connection = |job: u32| lock(&self.jobs).get(&job).cloned();
        match event {
            Event::Message { source, job, data, .. } => {
                if let Some(connection) = connection(job).filter(|is| is.is_open()) {
                    self.shared.counts.received.fetch_add(1, Ordering::Relaxed);
                    // The writer has just ended.
                    drop(connection.queue.send(Piece::Bytes(data)));
                } else if job != JobId::from(PROBE_JOB).number() {
                    receiver.request_end(source, job);
                }
            }
            Event::Finished { job, .. } => {
                if let Some(connection) = connection(job) {
                    connection.note(|passed| passed.messages = true);
                }
            }
            Event::Started { .. } | Event::TermsChanged { .. } | Event::WindowEnded { .. } => {}
        }
    }
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The port to which other libraries connect.
struct Door {
    life: Arc<Life>,
    jobs: Arc<Jobs>,
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
        // Without a listening program the other end connects plainly, and hears it from the kernel.
        let Ok((outlet, far)) = self.connect(ends) else { return Ok(()) };
        outlet.set_nodelay(true)?;
        let (queue, pieces) = sync_channel(QUEUE_MAX);
        let connection = Arc::new(Connection {
            queue,
            passed: Mutex::default(),
            changed: Condvar::new(),
            is_closed: AtomicBool::new(false),
            private,
            outlet,
        });
        let Some(job) = self.register(&connection) else { return Ok(()) };
        let done = self.relay(&connection, pieces, job);
        lock(&self.jobs).remove(&job);
        names::forget(Named::Tcp, far);
        done
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
        SocketAddr::new(private.ip(), self.local.port())
    }

    /// Connects to the program, which sees the ends of the other connection.
    fn connect(&self, ends: Ends) -> io::Result<(TcpStream, SocketAddr)> {
        let to = SocketAddr::new(reachable(self.local.ip()), self.local.port());
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&SockAddr::from(SocketAddr::new(to.ip(), 0)))?;
        let far = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        // The program may accept before the call returns.
        names::note(Named::Tcp, far, ends);
        let connected = socket.connect_timeout(&SockAddr::from(to), CONNECT_TIMEOUT);
        connected.inspect_err(|_| names::forget(Named::Tcp, far))?;
        Ok((socket.into(), far))
    }

    /// Gives the connection a job of its own, unless the receiver has ended.
    fn register(&self, connection: &Arc<Connection>) -> Option<u32> {
        let phase = lock(&self.life.phase);
        if *phase == Phase::Ended {
            return None;
        }
        let random = RandomState::new();
        let mut jobs = lock(&self.jobs);
        let numbers = (0u64..).map(|index| random.hash_one(index) as u32);
        let is_free =
            |job: &u32| *job != JobId::from(PROBE_JOB).number() && !jobs.contains_key(job);
        let mut free = numbers.filter(|job| *job > 0).filter(is_free);
        let job = free.next().unwrap_or(1);
        jobs.insert(job, connection.clone());
        Some(job)
    }

    fn relay(
        &self,
        connection: &Connection,
        pieces: mpsc::Receiver<Piece>,
        job: u32,
    ) -> io::Result<()> {
        (&connection.private).write_all(&job.to_be_bytes())?;
        thread::scope(|scope| {
            scope.spawn(|| {
                pass_calls_of_this_thread();
                connection.pass_replies(&self.life);
            });
            scope.spawn(|| {
                pass_calls_of_this_thread();
                if write_pieces(&connection.outlet, pieces).is_err() {
                    connection.break_both();
                }
            });
            read_rest(connection);
        });
        Ok(())
    }
}

fn write_pieces(mut outlet: &TcpStream, pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => outlet.write_all(&bytes)?,
            Piece::End => break,
        }
    }
    outlet.shutdown(Shutdown::Write)
}

/// Hands over the bytes that come after the last message, and the end.
fn read_rest(connection: &Connection) {
    let (mut private, mut delivered) = (&connection.private, [0; 8]);
    // A client without an end was killed. Its connection ends after the frames that are here.
    if private.read_exact(&mut delivered).is_ok() {
        if u64::from_be_bytes(delivered) > 0 {
            // They are confirmed, so they are here.
            connection.wait_for(|passed| passed.messages, Instant::now() + FINISH_TIMEOUT);
        }
        let mut bytes = vec![0; COPY_BYTES];
        while let Ok(len) = private.read(&mut bytes)
            && len > 0
            && connection.queue.send(Piece::Bytes(bytes[..len].to_vec())).is_ok()
        {}
    }
    // The writer may have ended.
    drop(connection.queue.send(Piece::End));
}
