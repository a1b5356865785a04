//! Tests that metrics are served, whatever other users and hosts do to the port.

use crate::tenants::{SUBORDINATE, daemon_with_subordinate_ids};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};
use std::{
    collections::HashSet,
    fs,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};
use testbed::{Daemon, Family, NOBODY, Pair, TIMEOUT, privilege::as_user, wait_for};

crate::trials! {
    metrics__idle_connections_of_another_user,
    metrics__requests_of_another_user_byte_by_byte,
    metrics__a_user_with_many_ids,
    metrics__a_host_with_many_addresses,
}

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_747);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: atp\r\n\r\n";
const ATTACKERS: usize = 200;
const SCRAPES: u32 = 20;
/// The time for all scrapes together.
const LIMIT: Duration = Duration::from_secs(60);
const PLACES: u64 = 64;
/// [`PLACES`], and those that are just being opened or closed.
const FILES_MAX: usize = 80;

fn metrics__idle_connections_of_another_user() -> Result<()> {
    scrapes_beside(wait)
}

fn metrics__requests_of_another_user_byte_by_byte() -> Result<()> {
    scrapes_beside(|stream, sent| {
        if *sent < REQUEST.len() - 1 {
            *sent += stream.write(&REQUEST[*sent..=*sent])?;
        }
        Ok(())
    })
}

/// Each of them is a peer of its own, were they not subordinate ids of one user.
fn metrics__a_user_with_many_ids() -> Result<()> {
    let pair = Pair::new()?;
    let (daemon, _) = daemon_with_subordinate_ids(&pair, &["--metrics"])?;
    late_scrape_beside(&pair, SERVER, |number| {
        let uid = SUBORDINATE + number as libc::uid_t;
        pair.a.namespace.enter(|| as_user(uid, || connect(number)))
    })?;
    pair.a.namespace.enter(|| as_user(NOBODY, few_pages))?;
    daemon.signal(Signal::SIGTERM)?;
    daemon.success().map(drop)
}

fn metrics__a_host_with_many_addresses() -> Result<()> {
    let pair = Pair::new()?;
    let server = pair.a.endpoint(Family::V4, SERVER.port());
    let a = pair.a.daemon(&[&format!("--metrics={server}")])?;
    // The host has all addresses of the network.
    pair.b.namespace.run("ip route add local 198.51.100.0/24 dev lo")?;
    let by = pair.b.address(Family::V4);
    pair.a.namespace.run(&format!("ip route add 198.51.100.0/24 via {by}"))?;
    late_scrape_beside(&pair, server, |number| {
        let source = Ipv4Addr::new(198, 51, 100, 1 + number as u8);
        pair.b.namespace.enter(|| connect_from(source, None, server))
    })?;
    a.stop_by(Signal::SIGTERM)
}

/// An attacker's act on a connection, again and again; `usize` counts the bytes that it sent.
type Act = fn(&mut TcpStream, &mut usize) -> std::io::Result<()>;

fn wait(_: &mut TcpStream, _: &mut usize) -> std::io::Result<()> {
    Ok(())
}

/// Asks in a loop. Each page that is rendered for it has another count of scrapes.
fn few_pages() -> Result<()> {
    let begin = Instant::now();
    let pages: Result<HashSet<_>> = (0..300).map(|_| scrape(begin)).collect();
    let (pages, most) = (pages?.len() as u128, 1 + begin.elapsed().as_millis() / 500);
    ensure!(pages <= most, "{pages} pages were rendered in the time of {most}");
    Ok(())
}

/// Root scrapes while attackers hold connections, and replace each that the server closes. The
/// request comes when the server has closed more of them than it has places.
fn late_scrape_beside(
    pair: &Pair,
    server: SocketAddr,
    connect: impl Fn(usize) -> Result<TcpStream> + Sync,
) -> Result<()> {
    let (is_over, replaced) = (AtomicBool::new(false), AtomicU64::new(0));
    let closed = || replaced.load(Ordering::Relaxed);
    let late_scrape = || {
        let stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let enough = closed() + 2 * PLACES;
        wait_for("closed connections", || Ok((closed() > enough).then_some(())))?;
        answer(stream)
    };
    thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(&connect, wait, &is_over, &replaced));
        // A slow machine can miss the second that a request has.
        let outcome = wait_for("an answer to a late request", || {
            ensure!(!attacker.is_finished(), "the attacker has ended");
            Ok(pair.a.namespace.enter(late_scrape).ok())
        });
        is_over.store(true, Ordering::Relaxed);
        attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        outcome.map(drop)
    })
}

/// Root scrapes while another user holds connections, and replaces each that the server closes.
fn scrapes_beside(act: Act) -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&["--metrics"])?;
    let files = open_files(&a)?;
    let (is_over, replaced) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            let attack = || attack(connect, act, &is_over, &replaced);
            pair.a.namespace.enter(|| as_user(NOBODY, attack))
        });
        let outcome = (|| {
            wait_for("the server to close a connection", || {
                ensure!(!attacker.is_finished(), "the attacker has ended");
                Ok((replaced.load(Ordering::Relaxed) > 0).then_some(()))
            })?;
            let begin = Instant::now();
            for number in 0..SCRAPES {
                let text = pair.a.namespace.enter(|| scrape(begin));
                let text = text.with_context(|| format!("{number} of {SCRAPES} scrapes"))?;
                ensure!(text.ends_with("# EOF\n"), "{text}");
            }
            let text = pair.a.namespace.enter(|| scrape(Instant::now()))?;
            let evicted = text.lines().find_map(|line| {
                line.strip_prefix("atp_daemon_scrape_connections_evicted_total ")?.parse().ok()
            });
            ensure!(evicted.is_some_and(|evicted: f64| evicted > 0.0), "{evicted:?} evicted");
            ensure!(open_files(&a)? <= files + FILES_MAX, "the daemon has too many descriptors");
            Ok(())
        })();
        is_over.store(true, Ordering::Relaxed);
        attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        outcome
    })?;
    a.stop_by(Signal::SIGTERM)
}

fn open_files(daemon: &Daemon) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", daemon.process_id()))?.count())
}

fn scrape(begin: Instant) -> Result<String> {
    let left = LIMIT.checked_sub(begin.elapsed()).context("the time is over")?;
    let stream = TcpStream::connect_timeout(&SERVER, left)?;
    stream.set_read_timeout(Some(left))?;
    answer(stream)
}

fn answer(mut stream: TcpStream) -> Result<String> {
    stream.write_all(REQUEST)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(answer)
}

fn attack(
    connect: impl Fn(usize) -> Result<TcpStream>,
    act: Act,
    is_over: &AtomicBool,
    replaced: &AtomicU64,
) -> Result<()> {
    let mut streams = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        // A server that accepts nobody delays the attacker, too.
        if streams.len() < ATTACKERS
            && let Ok(stream) = connect(streams.len())
        {
            streams.push((stream, 0));
        }
        for (number, (stream, sent)) in streams.iter_mut().enumerate() {
            let acted = act(stream, sent);
            if acted.is_ok() && !is_closed(stream) {
                continue;
            }
            replaced.fetch_add(1, Ordering::Relaxed);
            if let Ok(next) = connect(number) {
                (*stream, *sent) = (next, 0);
            }
        }
    }
    Ok(())
}

/// Each connection has an address of its own, and every other one is bound to the interface.
fn connect(number: usize) -> Result<TcpStream> {
    let [.., high, low] = (number as u32).to_be_bytes();
    let device = (number % 2 == 1).then_some(&b"lo"[..]);
    connect_from(Ipv4Addr::new(127, 1, high, low), device, SERVER)
}

fn connect_from(source: Ipv4Addr, device: Option<&[u8]>, to: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind_device(device)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect_timeout(&to.into(), TIMEOUT)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn is_closed(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}
