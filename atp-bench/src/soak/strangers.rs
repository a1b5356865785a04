//! Strangers at work: a local user who takes what it can get, and hosts that forge packets.

use std::{
    io::{IoSlice, Write},
    net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use super::{
    carried::{ATP_DATAGRAMS_PORT, ATP_LINES_PORT, DATAGRAMS_PORT},
    metrics_strangers::{hold_answers, hold_scrapes, scrape},
    ranks::Ranks,
    run_strangers::{hold_doors, send_plainly, speak_to_run},
};
use anyhow::{Context, Result, anyhow, ensure};
use approxlib::control::{Client, ClientError, PROTOCOL, Request};
use atp_common::wire::Kind;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send,
    sendmsg, setsockopt, socket, sockopt,
};
use testbed::{
    Daemon, Host, NOBODY, Namespace, PORT, Star, one_group,
    privilege::{as_user, become_user},
    wire::{Claim, forged, is_for_sender, spoof_v4, wrong_cookie},
};

const ROOT: u32 = 0;
/// Ids of one user, or of several.
const SUBORDINATE: [u32; 4] = [3_000_000, 3_000_001, 3_000_002, 3_000_003];
/// The user that scrapes the metrics.
const SCRAPER: u32 = 1_001;
/// The user whose descriptors close slowly.
const SLOW_CLOSER: u32 = 1_003;
/// The time between two attempts of a stranger, and for which it holds what it got.
const PAUSE: Duration = Duration::from_millis(500);
/// The time between two bursts of ten packets.
const BURST_PAUSE: Duration = Duration::from_millis(20);
/// The most attempts to get one more of something.
const ATTEMPTS_MAX: usize = 1_200;

/// A row: the stranger, what it did, and how often.
pub type Done = [String; 3];

/// A stranger: who it is and what it counts, where it is, and one turn of its work.
struct Stranger<'a> {
    who: &'static str,
    what: &'static str,
    namespace: &'a Namespace,
    uid: u32,
    pause: Duration,
    work: Box<dyn FnMut() -> Result<u64> + Send + 'a>,
}

/// Does `work` beside strangers, whose counts are the second result.
pub fn beside<T>(
    star: &Star,
    daemons: &[Daemon; 2],
    ranks: &Ranks,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<Done>)> {
    let (stop, targets) = (AtomicBool::new(false), Mutex::default());
    let receivers = [SocketAddrV4::new(star.hosts[1].ipv4, PORT), ranks.receiver];
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !stop.load(Relaxed) {
                let seen = running(&star.hosts[0], &daemons[0], &receivers)?;
                *targets.lock().unwrap_or_else(PoisonError::into_inner) = seen;
                thread::sleep(PAUSE);
            }
            anyhow::Ok(())
        });
        let strangers = strangers(star, daemons[0].socket(), ranks, &targets).into_iter();
        let stop = &stop;
        let strangers: Vec<_> =
            strangers.map(|stranger| scope.spawn(|| stranger.run(stop))).collect();
        let done = work();
        stop.store(true, Relaxed);
        let panicked = |_| anyhow!("a stranger panicked");
        watch.join().map_err(panicked)??;
        let counts = strangers.into_iter().map(|stranger| stranger.join().map_err(panicked)?);
        Ok((done?, counts.collect::<Result<_>>()?))
    })
}

impl Stranger<'_> {
    /// Works until `stop`.
    fn run(self, stop: &AtomicBool) -> Result<Done> {
        let Self { who, what, namespace, uid, pause, mut work } = self;
        namespace.enter(|| {
            become_user(uid)?;
            let mut count = 0;
            while !stop.load(Relaxed) {
                count += work().with_context(|| format!("{who}: {what}"))?;
                thread::sleep(pause);
            }
            ensure!(count > 0, "{who}: no {what}");
            Ok([who.to_owned(), what.to_owned(), count.to_string()])
        })
    }
}

/// The strangers of the sending host and of the third host, and a user that scrapes metrics.
fn strangers<'a>(
    star: &'a Star,
    control: &'a Path,
    ranks: &'a Ranks,
    targets: &'a Targets,
) -> Vec<Stranger<'a>> {
    let [from, to, other] = [0, 1, 2].map(|index| &star.hosts[index]);
    let receiver = SocketAddrV4::new(to.ipv4, PORT);
    let local = |what, work| {
        let namespace = &from.namespace;
        Stranger { who: "local user", what, namespace, uid: NOBODY, pause: PAUSE, work }
    };
    let of_other = |what, work| {
        let (namespace, pause) = (&other.namespace, PAUSE);
        Stranger { who: "other host", what, namespace, uid: NOBODY, pause, work }
    };
    let at = |port| SocketAddr::from((to.ipv4, port));
    let [doors, datagrams, plain] = [ATP_LINES_PORT, ATP_DATAGRAMS_PORT, DATAGRAMS_PORT].map(at);
    let flood = |who, host: &'a Host, uid, forges| {
        let mut number = 0;
        let work = move || burst(&mut number, targets, forges);
        let (namespace, pause) = (&host.namespace, BURST_PAUSE);
        Stranger { who, what: "packets", namespace, uid, pause, work: Box::new(work) }
    };
    vec![
        local("jobs taken", Box::new(|| take_jobs(control))),
        local("registrations left", Box::new(move || leave_registrations(control, receiver))),
        local("connections held", Box::new(|| hold_connections(control))),
        local("idle scrapes held", Box::new(|| hold_scrapes(PAUSE))),
        Stranger {
            who: "(a scraper)",
            what: "scrapes",
            namespace: &from.namespace,
            uid: SCRAPER,
            pause: PAUSE,
            work: Box::new(scrape),
        },
        local("complete scrapes held", Box::new(|| hold_answers(PAUSE))),
        Stranger {
            who: "another local user",
            what: "slow closes",
            namespace: &from.namespace,
            uid: SLOW_CLOSER,
            pause: PAUSE,
            work: Box::new(|| close_slowly(control)),
        },
        Stranger {
            who: "users with many ids",
            what: "jobs taken",
            namespace: &from.namespace,
            // Threads of these ids do its work.
            uid: ROOT,
            pause: PAUSE,
            work: Box::new(|| take_jobs_of_ids(control)),
        },
        of_other("connections to atp-run held", Box::new(move || hold_doors(doors, PAUSE))),
        of_other("jobs sent to atp-run", Box::new(move || speak_to_run(datagrams))),
        local("jobs sent to a rank", Box::new(|| ranks.send_as_stranger())),
        of_other("jobs sent to a rank", Box::new(|| ranks.send_as_stranger())),
        of_other("datagrams to atp-run", Box::new(move || send_plainly(plain))),
        flood("local user", from, NOBODY, false),
        flood("other host", other, 0, false),
        flood("other host that forges addresses", other, 0, true),
    ]
}

/// The running flows: sender, receiver and job, as far as strangers can learn them.
type Targets = Mutex<Vec<Flow>>;
type Flow = (SocketAddrV4, SocketAddrV4, u32);

fn running(from: &Host, daemon: &Daemon, receivers: &[SocketAddrV4]) -> Result<Vec<Flow>> {
    let jobs = Client::connect(daemon.socket())?.job_list()?;
    let mut ends = Vec::new();
    for receiver in receivers {
        let ports = from.ports_connected_to(receiver.port())?.into_iter();
        ends.extend(ports.map(|port| (SocketAddrV4::new(from.ipv4, port), *receiver)));
    }
    // Each job meets each address in the course of time: both lists change all the time.
    let jobs = jobs.iter().map(|job| job.id).cycle();
    Ok(ends
        .into_iter()
        .zip(jobs)
        .map(|((sender, receiver), job)| (sender, receiver, job))
        .collect())
}

/// Sends each kind of packet to both ends of a running job. Returns the number of packets.
fn burst(number: &mut u32, targets: &Targets, forges: bool) -> Result<u64> {
    let target = {
        let targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
        let index = *number as usize % targets.len().max(1);
        targets.get(index).copied()
    };
    let Some((sender, receiver, job)) = target else { return Ok(0) };
    *number = number.wrapping_add(1);
    let claim = Claim { job, cookie: wrong_cookie(*number), messages: 4_000, slot: *number };
    let mut sent = 0;
    for kind in Kind::ALL {
        let packet = forged(kind, claim, *number % 1_000_000)?;
        let (source, end) = match is_for_sender(kind) {
            true => (receiver, sender),
            false => (sender, receiver),
        };
        sent += match forges {
            true => spoof_v4(source, end, &[packet]).map(|()| 1)?,
            // Fails where an answer said that the last packet reached no socket.
            false => u64::from(UdpSocket::bind("0.0.0.0:0")?.send_to(&packet, end).is_ok()),
        };
    }
    Ok(sent)
}

/// Creates jobs until the daemon refuses, then ends them. Another stranger may have taken all
/// connections of the user.
fn take_jobs(control: &Path) -> Result<u64> {
    let Ok(client) = Client::connect(control) else { return Ok(0) };
    let mut jobs = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        match client.job_create(None, None, None) {
            Ok(job) => jobs.push(job.id),
            Err(ClientError::Refused(_)) => break,
            Err(error) => return Err(error.into()),
        }
    }
    jobs.iter().try_for_each(|job| client.job_end(*job, None))?;
    Ok(jobs.len() as u64)
}

/// Registers sockets, closes them, and keeps the connections for a while.
fn leave_registrations(control: &Path, receiver: SocketAddrV4) -> Result<u64> {
    let mut clients = Vec::new();
    for _ in 0..100 {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(receiver)?;
        // Refused while another stranger has all connections.
        let Ok(client) = Client::connect(control) else { break };
        if client.sender_open(None, &one_group(500_000_000, 1), socket.as_fd()).is_ok() {
            clients.push(client);
        }
    }
    thread::sleep(PAUSE);
    Ok(clients.len() as u64)
}

/// Holds as many silent connections as it gets.
fn hold_connections(control: &Path) -> Result<u64> {
    let held: Vec<_> = (0..ATTEMPTS_MAX).filter_map(|_| silent(control).ok()).collect();
    thread::sleep(PAUSE);
    Ok(held.len() as u64)
}

/// Hands over a descriptor whose close waits for its peer. Returns 1 if the daemon closes the last
/// copy, not this process.
fn close_slowly(control: &Path) -> Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    stream.set_nonblocking(true)?;
    while stream.write(&[0; 1 << 16]).is_ok() {}
    stream.set_nonblocking(false)?;
    let (client, descriptor) = (served(control)?, stream.as_raw_fd());
    let (text, rights) = ([IoSlice::new(b"stranger")], [ControlMessage::ScmRights(&[descriptor])]);
    setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 3_600 })?;
    let told = sendmsg::<()>(client.as_raw_fd(), &text, &rights, MsgFlags::MSG_NOSIGNAL, None);
    thread::scope(|scope| {
        let closing = scope.spawn(move || drop(stream));
        thread::sleep(PAUSE);
        let is_closed = closing.is_finished();
        drop(listener);
        Ok(u64::from(told.is_ok() && is_closed))
    })
}

/// A connection that the daemon serves: it takes descriptors.
fn served(control: &Path) -> Result<OwnedFd> {
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    connect(client.as_raw_fd(), &UnixAddr::new(control)?)?;
    let hello = Request::Hello { protocol: PROTOCOL, protocol_min: None };
    send(client.as_raw_fd(), &serde_json::to_vec(&hello)?, MsgFlags::MSG_NOSIGNAL)?;
    recv(client.as_raw_fd(), &mut [0; 4_096], MsgFlags::empty())?;
    Ok(client)
}

/// A connection to the daemon.
fn silent(control: &Path) -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    connect(client.as_raw_fd(), &UnixAddr::new(control)?)?;
    Ok(client)
}

/// Four ids create jobs at the same time, until the daemon refuses.
fn take_jobs_of_ids(control: &Path) -> Result<u64> {
    let takers = SUBORDINATE.map(|uid| move || as_user(uid, || take_jobs(control)));
    thread::scope(|scope| {
        let takers = takers.map(|taker| scope.spawn(taker));
        takers.into_iter().map(|taker| taker.join().map_err(|_| anyhow!("a panic"))?).sum()
    })
}
