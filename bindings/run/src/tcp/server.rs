//! The listening end: messages become the bytes of a connection to the program.

use super::{COPY_BYTES, Hello, LOOK_INTERVAL, copy, is_pause, reachable, reset};
use crate::{
    framing::Framing,
    map::Rule,
    names::{self, Ends, Protocol as Named},
    outgoing::PROBE_JOB,
    port,
    shared::{Shared, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Event, JobId, Receiver};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

/// Frames that wait for a program which doesn't read. Beyond that, the port's other connections
/// wait as well.
const QUEUE_MAX: usize = 1_024;
/// How long the end of a connection waits for the end of its messages, which it has confirmed.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the program's own port may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The receiver beside a listening socket.
pub struct Listening {
    local: SocketAddr,
    life: Arc<Life>,
    thread: thread::JoinHandle<()>,
}

/// How long a receiver lives: connections outlive the listening socket.
#[derive(Default)]
struct Life(Mutex<Phase>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Open,
    /// The program has closed its listening socket.
    Closing,
    Ended,
}

impl Life {
    fn has_ended(&self) -> bool {
        *lock(&self.0) == Phase::Ended
    }

    /// Ends after the last connection.
    fn end_without(&self, jobs: &Jobs) -> bool {
        let mut phase = lock(&self.0);
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
        let open = move || {
            let receiver = port::bind(at)?;
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            Ok((receiver, listener))
        };
        let failed = move |error| warn(format_args!("port {}: {error}", local.port()));
        // Clients that know the port can ask at once.
        let first = port::try_open(open).map_err(failed).ok()?;
        let (life, jobs) = (Arc::new(Life::default()), Arc::new(Jobs::default()));
        let inlet = Inlet { life: life.clone(), jobs: jobs.clone(), shared, local };
        let door = Door { life: life.clone(), jobs, local, framing };
        let run = move || {
            pass_calls_of_this_thread();
            let later = || port::open_later(open, || !door.life.end_without(&door.jobs));
            let opened = match first.map_or_else(later, |opened| Ok(Some(opened))) {
                Ok(opened) => opened,
                Err(error) => return failed(error),
            };
            let Some((receiver, listener)) = opened else { return };
            let accept = thread::Builder::new().name("atp-run-acceptor".to_owned());
            match accept.spawn(move || door.run(&listener)) {
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
        *lock(&self.life.0) = Phase::Closing;
    }

    /// Takes up a receiver that is ending, for a program that listens at `local` again.
    pub fn revive(&self, local: SocketAddr) -> bool {
        let mut phase = lock(&self.life.0);
        let is_alive = *phase == Phase::Closing && self.local == local;
        if is_alive {
            *phase = Phase::Open;
        }
        is_alive
    }

    pub fn has_ended(&self) -> bool {
        self.life.has_ended()
    }

    /// Ends the receiver and waits for that: it tells the senders.
    pub fn end_now(self) {
        *lock(&self.life.0) = Phase::Ended;
        // A panic of the thread was printed.
        drop(self.thread.join());
    }
}

/// What is written to the program.
enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// A connection, for the thread that receives messages.
struct Connection {
    queue: SyncSender<Piece>,
    is_finished: Mutex<bool>,
    finished: Condvar,
    /// The program has closed its end.
    is_closed: AtomicBool,
}

impl Connection {
    fn finish(&self) {
        *lock(&self.is_finished) = true;
        self.finished.notify_all();
    }

    /// Waits until the messages have come to their end.
    fn wait_for_finish(&self) {
        let is_running = |is_finished: &mut bool| !*is_finished;
        let is_finished = lock(&self.is_finished);
        drop(self.finished.wait_timeout_while(is_finished, FINISH_TIMEOUT, is_running));
    }
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
                    connection.finish();
                }
            }
            Event::Started { .. } | Event::TermsChanged { .. } | Event::WindowEnded { .. } => {}
        }
    }
}

impl Connection {
    fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }
}

/// The port to which other libraries connect.
struct Door {
    life: Arc<Life>,
    jobs: Arc<Jobs>,
    local: SocketAddr,
    framing: Framing,
}

impl Door {
    fn run(self, listener: &TcpListener) {
        pass_calls_of_this_thread();
        let door = Arc::new(self);
        while !door.life.has_ended() {
            let mut ready =
                libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry.
            unsafe { libc::poll(&raw mut ready, 1, LOOK_INTERVAL.as_millis() as i32) };
            match listener.accept() {
                Ok((private, _)) => {
                    let door = door.clone();
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
    }

    /// Carries one connection to its end.
    fn serve(&self, private: TcpStream) -> io::Result<()> {
        private.set_nonblocking(false)?;
        private.set_nodelay(true)?;
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
            is_finished: Mutex::default(),
            finished: Condvar::new(),
            is_closed: AtomicBool::new(false),
        });
        let Some(job) = self.register(&connection) else { return Ok(()) };
        let done = self.relay(&private, &outlet, &connection, pieces, job);
        lock(&self.jobs).remove(&job);
        names::forget(Named::Tcp, far);
        done
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
        let phase = lock(&self.life.0);
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
        private: &TcpStream,
        outlet: &TcpStream,
        connection: &Connection,
        pieces: mpsc::Receiver<Piece>,
        job: u32,
    ) -> io::Result<()> {
        Hello { framing: self.framing, job }.write(private)?;
        thread::scope(|scope| {
            scope.spawn(|| {
                pass_calls_of_this_thread();
                if copy(outlet, private).is_err() {
                    break_both(connection, private, outlet);
                }
            });
            scope.spawn(|| {
                pass_calls_of_this_thread();
                if write_pieces(outlet, pieces).is_err() {
                    break_both(connection, private, outlet);
                }
            });
            read_rest(private, connection);
        });
        Ok(())
    }
}

/// The program has gone: no more messages are taken for it.
fn break_both(connection: &Connection, private: &TcpStream, outlet: &TcpStream) {
    connection.is_closed.store(true, Ordering::Relaxed);
    for socket in [private, outlet] {
        reset(socket);
        // It may be closed.
        drop(socket.shutdown(Shutdown::Both));
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
fn read_rest(mut private: &TcpStream, connection: &Connection) {
    let mut delivered = [0; 8];
    // A client without an end was killed. Its connection ends after the frames that are here.
    if private.read_exact(&mut delivered).is_ok() {
        if u64::from_be_bytes(delivered) > 0 {
            connection.wait_for_finish();
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
