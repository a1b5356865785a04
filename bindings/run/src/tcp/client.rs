//! The connecting end: a program's connection becomes a stream of messages.

use super::{
    COPY_BYTES, GO, Hello, LAST_BYTES_TIMEOUT, LOOK_INTERVAL, copy, is_pause, reachable, reset,
};
use crate::{
    address,
    cutter::Cutter,
    framing::Framing,
    map::Rule,
    names::{self, Ends, Protocol},
    next,
    outgoing::{PAUSE_MAX, PAUSE_MIN, answers},
    shared::{Shared, canonical, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Error, Job, Report, Stream};
use std::{
    collections::HashMap,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long the server's library may be silent. It is while the server's program doesn't read.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the loopback may take for the program's own connection.
const OWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The connections of this process, and the destinations where no library answered.
#[derive(Default)]
pub struct Links {
    silent: Mutex<HashMap<SocketAddr, Silence>>,
    /// Connections that still take bytes from the program.
    open: Mutex<usize>,
    changed: Condvar,
    is_ending: AtomicBool,
}

#[derive(Clone, Copy)]
struct Silence {
    until: Instant,
    pause: Duration,
}

impl Links {
    /// Asks all connections to take the bytes that the program has written, and to end.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    pub fn wait_for_end(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        drop(self.changed.wait_timeout_while(lock(&self.open), left, |open| *open > 0));
    }

    fn is_silent(&self, to: SocketAddr) -> bool {
        lock(&self.silent).get(&to).is_some_and(|silence| Instant::now() < silence.until)
    }

    fn note(&self, to: SocketAddr, has_answered: bool) {
        let mut silent = lock(&self.silent);
        if has_answered {
            silent.remove(&to);
            return;
        }
        let pause = silent.get(&to).map_or(PAUSE_MIN, |last| (last.pause * 2).min(PAUSE_MAX));
        silent.insert(to, Silence { until: Instant::now() + pause, pause });
    }
}

/// Connects the program's socket to this library, if the other end's library answers: as `connect`
/// does, or with its errno. `None`: the program's connection is plain.
pub fn connect(
    links: &'static Links,
    shared: &'static Shared,
    fd: RawFd,
    to: SocketAddr,
    rule: Rule,
    framing: Framing,
) -> Option<Result<(), i32>> {
    let offer = ask(links, fd, to, rule, framing)?;
    let (at, len) = address::write(offer.own.local_addr().ok()?, offer.domain);
    // SAFETY: the address is there and `len` is its length.
    let done = unsafe { next::connect(fd, (&raw const at).cast(), len) };
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    if done < 0 && error != libc::EINPROGRESS {
        // For instance a socket that is bound to another interface.
        return None;
    }
    if let Err(error) = offer.carry(links, shared, fd) {
        warn(format_args!("the connection to {to} is broken: {error}"));
    }
    Some(if done == 0 { Ok(()) } else { Err(error) })
}

/// The other end's library has answered: a connection can be carried.
struct Offer {
    private: TcpStream,
    own: TcpListener,
    /// The family of the program's socket.
    domain: i32,
    job: u32,
    atp: SocketAddr,
    to: SocketAddr,
    rule: Rule,
    framing: Framing,
}

/// Asks the library at `to`. `None`: the program's connection is plain.
fn ask(links: &Links, fd: RawFd, to: SocketAddr, rule: Rule, framing: Framing) -> Option<Offer> {
    let ip = reachable(canonical(to).ip());
    let atp = SocketAddr::new(ip, rule.atp_port);
    if links.is_silent(atp) {
        return None;
    }
    let private = open_private(atp, rule, framing);
    let quiet = [
        ErrorKind::ConnectionRefused,
        ErrorKind::TimedOut,
        ErrorKind::WouldBlock,
        // Its program has stopped listening.
        ErrorKind::UnexpectedEof,
        ErrorKind::NetworkUnreachable,
        ErrorKind::HostUnreachable,
    ];
    if let Err(error) = &private
        && !quiet.contains(&error.kind())
    {
        warn(format_args!("the connection to {to} is plain: {atp}: {error}"));
    }
    links.note(atp, private.is_ok());
    let (private, job) = private.ok()?;
    let domain = address::option(fd, libc::SO_DOMAIN)?;
    let loopback: IpAddr = match domain {
        // A socket of IPv6 alone reaches no address of IPv4.
        libc::AF_INET6 if to.ip().to_canonical().is_ipv6() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    let own = TcpListener::bind((loopback, 0)).ok()?;
    Some(Offer { private, own, domain, job, atp, to, rule, framing })
}

/// Whether the socket was never connected, nor is it connecting.
pub fn is_fresh(fd: RawFd) -> bool {
    let (mut state, mut len) = (0u8, size_of::<u8>() as libc::socklen_t);
    // SAFETY: the memory is there and `len` is its length; the state is the first byte.
    let done = unsafe {
        let at = (&raw mut state).cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut len)
    };
    const TCP_CLOSE: u8 = 7;
    done == 0 && state == TCP_CLOSE
}

/// Connects to the library at `atp`, which then connects to its program. Gives the job.
fn open_private(atp: SocketAddr, rule: Rule, framing: Framing) -> io::Result<(TcpStream, u32)> {
    let private = TcpStream::connect_timeout(&atp, rule.probe)?;
    private.set_read_timeout(Some(rule.probe))?;
    private.set_nodelay(true)?;
    Hello::check(&private, framing)?;
    if !answers(atp, rule.probe) {
        return Err(io::Error::other("ATP's UDP port doesn't answer"));
    }
    (&private).write_all(&[GO])?;
    let mut job = [0; 4];
    (&private).read_exact(&mut job)?;
    private.set_read_timeout(None)?;
    Ok((private, u32::from_be_bytes(job)))
}

impl Offer {
    /// Carries the connection, now that the program's socket is connected here.
    fn carry(self, links: &'static Links, shared: &'static Shared, fd: RawFd) -> io::Result<()> {
        let far = self.own.local_addr()?;
        let proxy = self.accept(fd)?;
        proxy.set_nodelay(true)?;
        proxy.set_read_timeout(Some(LOOK_INTERVAL))?;
        let ends = Ends { peer: self.to, local: self.private.local_addr()?, interface: 0 };
        names::note(Protocol::Tcp, far, ends);
        let ends = Arc::new((proxy, self.private));
        let link = Link {
            shared,
            links,
            ends: ends.clone(),
            job: self.job,
            atp: self.atp,
            to: self.to,
            rule: self.rule,
            framing: self.framing,
            delivered: 0,
        };
        *lock(&links.open) += 1;
        let replies = thread::Builder::new().name("atp-run-replies".to_owned());
        let replies = replies.spawn(move || {
            pass_calls_of_this_thread();
            if copy(&ends.1, &ends.0).is_err() {
                break_both(&ends);
            }
        })?;
        let sender = thread::Builder::new().name("atp-run-frames".to_owned());
        sender.spawn(move || {
            pass_calls_of_this_thread();
            link.run();
            drop(replies.join());
            names::forget(Protocol::Tcp, far);
        })?;
        Ok(())
    }

    /// The program's own connection, and no other's.
    fn accept(&self, fd: RawFd) -> io::Result<TcpStream> {
        let own = address::of_socket(fd, next::getsockname).map(canonical);
        let deadline = Instant::now() + OWN_TIMEOUT;
        while Instant::now() < deadline {
            let mut ready =
                libc::pollfd { fd: self.own.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry.
            if unsafe { libc::poll(&raw mut ready, 1, OWN_TIMEOUT.as_millis() as i32) } == 1 {
                let (proxy, from) = self.own.accept()?;
                if Some(canonical(from)) == own {
                    return Ok(proxy);
                }
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

type BothEnds = (TcpStream, TcpStream);

/// Resets both connections, and wakes the threads that read them.
fn break_both((proxy, private): &BothEnds) {
    for socket in [proxy, private] {
        reset(socket);
        // It may be closed.
        drop(socket.shutdown(Shutdown::Both));
    }
}

/// The way of frames from a program's connection.
struct Link {
    shared: &'static Shared,
    links: &'static Links,
    /// The program's connection, and the one to the other library.
    ends: Arc<BothEnds>,
    job: u32,
    atp: SocketAddr,
    to: SocketAddr,
    rule: Rule,
    framing: Framing,
    /// Messages delivered.
    delivered: u64,
}

/// Why no more frames come.
enum Stop {
    End,
    /// The stream has another framing.
    Unframed(String),
}

impl Link {
    fn run(mut self) {
        if let Err(error) = self.send_all() {
            // A program that closes with unread bytes resets its connection: not a fault.
            let is_gone = [
                ErrorKind::ConnectionReset,
                ErrorKind::BrokenPipe,
                // The other end reset the connection before this one was ended.
                ErrorKind::NotConnected,
            ];
            if !is_gone.contains(&error.kind()) {
                warn(format_args!("the connection to {} is reset: {error}", self.to));
            }
            break_both(&self.ends);
        }
        *lock(&self.links.open) -= 1;
        self.links.changed.notify_all();
    }

    fn send_all(&mut self) -> io::Result<()> {
        let ends = self.ends.clone();
        let (proxy, mut private) = (&ends.0, &ends.1);
        let mut cutter = Cutter::new(self.framing);
        let stop = self.send_frames(&mut cutter, proxy)?;
        private.write_all(&self.delivered.to_be_bytes())?;
        private.write_all(cutter.rest())?;
        match stop {
            Stop::End => private.shutdown(Shutdown::Write),
            Stop::Unframed(why) => {
                let to = self.to;
                warn(format_args!("the connection to {to} goes on over TCP alone: {why}"));
                self.copy_rest(proxy, private)
            }
        }
    }

    fn copy_rest(&self, mut proxy: &TcpStream, mut private: &TcpStream) -> io::Result<()> {
        let mut bytes = vec![0; COPY_BYTES];
        loop {
            match self.read(&mut proxy, &mut bytes, LOOK_INTERVAL)? {
                Some(0) => return private.shutdown(Shutdown::Write),
                Some(len) => private.write_all(&bytes[..len])?,
                None => {}
            }
        }
    }

    /// Reads for `timeout` at most; 0 at the end of the program's stream, or of the process.
    fn read(
        &self,
        proxy: &mut &TcpStream,
        bytes: &mut [u8],
        timeout: Duration,
    ) -> io::Result<Option<usize>> {
        let is_ending = self.links.is_ending.load(Ordering::Relaxed);
        let timeout = if is_ending { LAST_BYTES_TIMEOUT } else { timeout };
        proxy.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        match proxy.read(bytes) {
            Ok(len) => Ok(Some(len)),
            Err(error) if is_pause(&error) => Ok(is_ending.then_some(0)),
            Err(error) => Err(error),
        }
    }

    /// Sends frames in windows until the stream ends or has another framing.
    fn send_frames(&mut self, cutter: &mut Cutter, mut proxy: &TcpStream) -> io::Result<Stop> {
        let mut bytes = vec![0; COPY_BYTES];
        let mut stream: Option<Stream> = None;
        let mut window_end: Option<Instant> = None;
        let stop = loop {
            let left = window_end.map(|end| end.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(LOOK_INTERVAL, |left| left.min(LOOK_INTERVAL));
            match self.read(&mut proxy, &mut bytes, timeout)? {
                Some(0) => break Stop::End,
                Some(len) => cutter.push(&bytes[..len]),
                None => {}
            }
            match self.send_whole(cutter, &mut stream) {
                Ok(0) => {}
                Ok(_) => {
                    window_end.get_or_insert_with(|| Instant::now() + self.rule.window);
                }
                Err(Fault::Framing(why)) => break Stop::Unframed(why),
                Err(Fault::Atp(error)) => return Err(self.broken(error)),
            }
            if let Some(stream) = &mut stream
                && window_end.take_if(|end| Instant::now() >= *end).is_some()
            {
                let report = stream.end_window().map_err(|error| self.broken(error))?;
                self.count(&report.groups);
            }
        };
        if let Some(stream) = stream {
            let report: Report = stream.finish().map_err(|error| self.broken(error))?;
            if report.ended_by_receiver {
                return Err(ErrorKind::ConnectionReset.into());
            }
            self.count(&report.groups);
        }
        Ok(stop)
    }

    /// Sends the whole frames that have arrived, and returns their number.
    fn send_whole(&self, cutter: &mut Cutter, stream: &mut Option<Stream>) -> Result<u64, Fault> {
        let mut sent = 0;
        while let Some(frame) = cutter.next_frame().map_err(Fault::Framing)? {
            let stream = match stream {
                Some(stream) => stream,
                None => {
                    let job = Job::builder().id(self.job).msr(self.rule.msr);
                    let job = job.peer_timeout(READ_TIMEOUT);
                    stream.insert(job.stream(self.atp).map_err(Fault::Atp)?)
                }
            };
            stream.send(frame).map_err(Fault::Atp)?;
            self.shared.counts.sent_as_messages.fetch_add(1, Ordering::Relaxed);
            sent += 1;
        }
        Ok(sent)
    }

    fn count(&mut self, groups: &[approxlib::GroupReport]) {
        self.shared.counts.add(groups);
        self.delivered += groups.iter().map(|group| u64::from(group.delivered)).sum::<u64>();
    }

    /// The end of a connection whose messages fail.
    fn broken(&mut self, error: Error) -> io::Error {
        match error {
            // The other end's program has closed the connection.
            Error::EndedByReceiver => ErrorKind::ConnectionReset.into(),
            Error::Short(shortfall) => {
                self.shared.counts.add(&shortfall.report.groups);
                io::Error::other(Error::Short(shortfall))
            }
            error => io::Error::other(error),
        }
    }
}

enum Fault {
    Framing(String),
    Atp(Error),
}
