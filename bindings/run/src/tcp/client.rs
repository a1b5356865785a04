//! The connecting end: a program's connection becomes a stream of messages.

use super::{
    GO, Hello, NOBODY,
    link::{Agreement, Link, Links, Pair},
    pace::Pace,
    reachable,
    socket::{self, TCP_CLOSE, ToProgram},
    with_port,
};
use crate::{
    address,
    framing::Framing,
    map::Rule,
    names::{self, Ends, Protocol},
    next,
    outgoing::{PAUSE_MAX, PAUSE_MIN, answers},
    secret::Secret,
    shared::{Shared, canonical, lock, warn},
};
use std::{
    collections::HashMap,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, RawFd},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// How long the other library may take to connect to its program.
const JOB_TIMEOUT: Duration = Duration::from_secs(2);
/// Destinations without a library that are remembered.
const SILENT_MAX: usize = 1_024;
/// How long the loopback may take for the program's own connection.
const OWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The connections of this process, and the destinations where no library answered.
#[derive(Default)]
pub struct Client {
    silent: Mutex<HashMap<SocketAddr, Silence>>,
    pub links: Links,
}

#[derive(Clone, Copy)]
struct Silence {
    until: Instant,
    pause: Duration,
}

impl Client {
    fn is_silent(&self, to: SocketAddr) -> bool {
        lock(&self.silent).get(&to).is_some_and(|silence| Instant::now() < silence.until)
    }

    fn note(&self, to: SocketAddr, has_answered: bool) {
        let mut silent = lock(&self.silent);
        if has_answered {
            silent.remove(&to);
            return;
        }
        if silent.len() >= SILENT_MAX {
            let now = Instant::now();
            silent.retain(|_, silence| now < silence.until);
        }
        let pause = silent.get(&to).map_or(PAUSE_MIN, |last| (last.pause * 2).min(PAUSE_MAX));
        if silent.len() < SILENT_MAX {
            silent.insert(to, Silence { until: Instant::now() + pause, pause });
        }
    }
}

/// Connects the program's socket to this library, if the other end's library answers: as `connect`
/// does, or with its errno. `None`: the program's connection is plain.
pub fn connect(
    client: &'static Client,
    shared: &'static Shared,
    fd: RawFd,
    to: SocketAddr,
    rule: Rule,
    framing: Framing,
) -> Option<Result<(), i32>> {
    let offer = ask(client, fd, to, rule, framing)?;
    let (at, len) = address::write(offer.own.local_addr().ok()?, offer.domain);
    // SAFETY: the address is there and `len` is its length.
    let done = unsafe { next::connect(fd, (&raw const at).cast(), len) };
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    if done < 0 && error != libc::EINPROGRESS {
        // For instance a socket that is bound to another interface.
        return None;
    }
    if let Err(error) = offer.carry(&client.links, shared, fd) {
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
    agreement: Agreement,
    atp: SocketAddr,
    to: SocketAddr,
    rule: Rule,
    framing: Framing,
}

/// Asks the library at `to`. `None`: the program's connection is plain.
fn ask(client: &Client, fd: RawFd, to: SocketAddr, rule: Rule, framing: Framing) -> Option<Offer> {
    let atp = with_port(reachable(canonical(to)), rule.atp_port);
    if client.is_silent(atp) || client.links.are_ending() {
        return None;
    }
    let domain = address::option(fd, libc::SO_DOMAIN)?;
    let loopback: IpAddr = match domain {
        // A socket of IPv6 alone reaches no address of IPv4.
        libc::AF_INET6 if to.ip().to_canonical().is_ipv6() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    let own = TcpListener::bind((loopback, 0)).ok()?;
    own.set_nonblocking(true).ok()?;
    let private = open_private(atp, rule, framing);
    let quiet = [
        ErrorKind::ConnectionRefused,
        ErrorKind::TimedOut,
        ErrorKind::WouldBlock,
        // Its program has stopped listening.
        ErrorKind::UnexpectedEof,
        ErrorKind::ConnectionReset,
        // It had no place.
        ErrorKind::BrokenPipe,
        ErrorKind::NetworkUnreachable,
        ErrorKind::HostUnreachable,
    ];
    if let Err(error) = &private
        && !quiet.contains(&error.kind())
    {
        warn(format_args!("the connection to {to} is plain: {atp}: {error}"));
    }
    client.note(atp, private.is_ok());
    let (private, agreement) = private.ok()?;
    Some(Offer { private, own, domain, agreement, atp, to, rule, framing })
}

/// Whether the socket was never connected, nor is it connecting.
pub fn is_fresh(fd: RawFd) -> bool {
    socket::state(fd) == Some(TCP_CLOSE)
}

/// Connects to the library at `atp`, which then connects to its program.
fn open_private(
    atp: SocketAddr,
    rule: Rule,
    framing: Framing,
) -> io::Result<(TcpStream, Agreement)> {
    let private = TcpStream::connect_timeout(&atp, rule.probe)?;
    private.set_read_timeout(Some(rule.probe))?;
    private.set_nodelay(true)?;
    let name = Hello::read(&private, framing)?;
    if !answers(atp, rule.probe) {
        return Err(io::Error::other("ATP's UDP port doesn't answer"));
    }
    let pace = Pace::open(&private, name, framing, rule.probe)?;
    (&private).write_all(&[GO])?;
    private.set_read_timeout(Some(JOB_TIMEOUT))?;
    let (mut job, mut secret) = ([0; 4], [0; Secret::LEN]);
    let mut read = (&private).read_exact(&mut job);
    if read.is_ok() {
        if u32::from_be_bytes(job) == NOBODY {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        read = (&private).read_exact(&mut secret);
    }
    if read.is_err() {
        // Its process has ended or hangs. The program may have seen the connection, so this end
        // sees it break: there is no second one.
        drop(private.shutdown(Shutdown::Both));
    }
    private.set_read_timeout(None)?;
    let agreement = Agreement {
        job: u32::from_be_bytes(job),
        secret: Secret::of(secret),
        source: private.local_addr()?.ip().to_canonical(),
        pace,
    };
    Ok((private, agreement))
}

impl Offer {
    /// Carries the connection, now that the program's socket is connected here.
    fn carry(self, links: &'static Links, shared: &'static Shared, fd: RawFd) -> io::Result<()> {
        let far = self.own.local_addr()?;
        let program = ToProgram::new(self.accept(fd)?, false)?;
        socket::begin_private(&self.private)?;
        let ends = Ends { peer: self.to, local: self.private.local_addr()?, interface: 0 };
        names::note(Protocol::Tcp, far, ends);
        let pair = Arc::new(Pair::new(program, self.private));
        let (agreement, atp, to) = (self.agreement, self.atp, self.to);
        let link = Link::new(shared, pair, agreement, atp, to, self.rule, self.framing);
        link.start(links, far).inspect_err(|_| names::forget(Protocol::Tcp, far))
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
                match self.own.accept() {
                    Ok((program, from)) if Some(canonical(from)) == own => return Ok(program),
                    Err(error) if !socket::is_pause(&error) => return Err(error),
                    _ => {}
                }
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}
