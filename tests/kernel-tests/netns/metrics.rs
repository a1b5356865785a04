//! Tests that metrics are served, whatever other users of the host do to the port.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};
use testbed::{Daemon, NOBODY, Pair, TIMEOUT, privilege::as_user, wait_for};

crate::trials! {
    metrics__idle_connections_of_another_user,
    metrics__requests_of_another_user_byte_by_byte,
}

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_747);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: atp\r\n\r\n";
const ATTACKERS: usize = 400;
const SCRAPES: u32 = 20;
/// The time for all scrapes together.
const LIMIT: Duration = Duration::from_secs(60);
/// 64 places, and those that are just being opened or closed.
const FILES_MAX: usize = 80;

fn metrics__idle_connections_of_another_user() -> Result<()> {
    scrapes_beside(|_, _| Ok(()))
}

fn metrics__requests_of_another_user_byte_by_byte() -> Result<()> {
    scrapes_beside(|stream, sent| {
        if *sent < REQUEST.len() - 1 {
            *sent += stream.write(&REQUEST[*sent..=*sent])?;
        }
        Ok(())
    })
}

/// An attacker's act on a connection, again and again; `usize` counts the bytes that it sent.
type Act = fn(&mut TcpStream, &mut usize) -> std::io::Result<()>;

/// Root scrapes while another user holds connections, and replaces each that the server closes.
fn scrapes_beside(act: Act) -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&["--metrics"])?;
    let files = open_files(&a)?;
    let (is_over, replaced) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            pair.a.namespace.enter(|| as_user(NOBODY, || attack(act, &is_over, &replaced)))
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
    let mut stream = TcpStream::connect_timeout(&SERVER, left)?;
    stream.set_read_timeout(Some(left))?;
    stream.write_all(REQUEST)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(answer)
}

fn attack(act: Act, is_over: &AtomicBool, replaced: &AtomicU64) -> Result<()> {
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
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if number % 2 == 1 {
        socket.bind_device(Some(b"lo"))?;
    }
    let [.., high, low] = (number as u32).to_be_bytes();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 1, high, low), 0)).into())?;
    socket.connect_timeout(&SERVER.into(), TIMEOUT)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn is_closed(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}
