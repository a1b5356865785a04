//! Tests the log of single packets (`--log-packets`), and a daemon whose output is stuck.

use anyhow::{Context, Result, ensure};
use approxlib::{
    Receiver,
    control::{Client, HostStats},
};
use atp_common::maps::Event;
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::socket::{
        AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr, connect, send, shutdown,
        socket,
    },
};
use std::{
    fs::File,
    io::Write,
    net::SocketAddrV4,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};
use testbed::{Daemon, Family, Load, PORT, Pair, Process, Signal, Transfer, wait_for, wire};

crate::trials! {
    packet_log__names_a_packet_and_the_reason,
    packet_log__has_each_ack_at_level_trace,
    packet_log__is_off_by_default,
    output__stuck_while_the_daemon_runs,
    output__stuck_before_the_daemon_fails,
}

/// Small jobs, whose lines all fit into the log.
const LOAD: Load = Load::lines(300, 1_000);

fn packet_log__names_a_packet_and_the_reason() -> Result<()> {
    let (pair, daemon) = after_garbage(&["--log-packets"])?;
    let text = Event::Malformed.text();
    let line = wait_for("the line", || Ok(lines(&daemon, text).into_iter().next()))?;
    for part in ["DEBUG", &format!("from={}:999", pair.a.ipv4), &format!("to={}", pair.b.ipv4)] {
        ensure!(line.contains(part), "no {part} in {line}");
    }
    // Ordinary packets are for level trace.
    ensure!(lines(&daemon, Event::AckSent.text()).is_empty(), "{}", daemon.log());
    daemon.stop()
}

fn packet_log__has_each_ack_at_level_trace() -> Result<()> {
    let (_pair, daemon) = after_garbage(&["--log-packets=trace"])?;
    let sent = daemon.counter("ack_sent")?;
    ensure!(sent > 0, "the programs sent no ACK");
    let acks = || lines(&daemon, Event::AckSent.text());
    wait_for("a line for each ACK", || {
        Ok((acks().len() as u64 == daemon.counter("ack_sent")?).then_some(()))
    })?;
    let ack = acks().into_iter().next().context("no line")?;
    for part in ["TRACE", "kind=\"ACK\"", "job=", "group=0", "slot=", "epoch="] {
        ensure!(ack.contains(part), "no {part} in {ack}");
    }
    ensure!(!daemon.log().contains("were lost"), "{}", daemon.log());
    daemon.stop()
}

fn packet_log__is_off_by_default() -> Result<()> {
    let (_pair, daemon) = after_garbage(&[])?;
    ensure!(daemon.counter("malformed")? > 0 && daemon.counter("ack_sent")? > 0);
    ensure!(lines(&daemon, Event::Malformed.text()).is_empty(), "{}", daemon.log());
    daemon.stop()
}

/// A daemon whose output takes no more lines goes on, and ends in time. Its standard output is the
/// same pipe, as with `2>&1`.
fn output__stuck_while_the_daemon_runs() -> Result<()> {
    /// Their lines are longer than a pipe (64 KiB).
    const PACKETS: u64 = 2_000;
    /// With a line each, they and the packets fill the queue of lines (8,192).
    const CLIENTS: usize = 9_000;
    let pair = Pair::new()?;
    let (host, folder) = (&pair.b, pair.b.folder());
    let (socket, state) = (folder.join("atp.sock"), folder.join("state"));
    let mut command = Daemon::command(host, &socket, &state, &["--log-packets"])?;
    let (_unread, write) = std::io::pipe()?;
    let mut rest = File::options()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/self/fd/{}", write.as_raw_fd()))?;
    command.env("RUST_LOG", "debug").stdout(write.try_clone()?).stderr(write);
    let mut daemon = Process::spawn(command, Signal::SIGTERM)?;
    wait_for("the daemon to answer", || Ok(Client::connect(&socket).ok().map(drop)))?;
    let _receiver = host.namespace.enter(|| {
        let builder = Receiver::builder().control_socket(Some(socket.clone()));
        Ok(builder.bind(host.endpoint(Family::V4, PORT))?)
    })?;
    let (from, to) = (SocketAddrV4::new(pair.a.ipv4, 999), SocketAddrV4::new(host.ipv4, PORT));
    let garbage = vec![b"garbage".to_vec(); PACKETS as usize];
    pair.a.namespace.enter(|| wire::spoof_v4(from, to, &garbage))?;
    wait_for("the packets to be counted", || {
        let mut stats = host.atp()?;
        stats.args(["stats", "--once", "--json", "--socket"]).arg(&socket);
        let stats = Process::captured("stats", stats)?.success()?.stdout;
        let stats: HostStats = serde_json::from_str(&stats)?;
        Ok((stats.counters["malformed"] == PACKETS).then_some(()))
    })?;
    for _ in 0..CLIENTS {
        fail_as_a_client(&socket)?;
    }
    // Clients are served in their order.
    Client::connect(&socket)?.stats()?;
    // The pipe has no room for a line, but perhaps for a shorter one.
    while rest.write(b"x").is_ok() {}
    // It writes lines at its end, too.
    daemon.signal(Signal::SIGTERM)?;
    wait_for("the daemon to end", || Ok((!daemon.is_running()?).then_some(())))?;
    ensure!(!socket.exists(), "the daemon left its socket");
    Ok(())
}

/// A daemon that fails ends, although it can't say why.
fn output__stuck_before_the_daemon_fails() -> Result<()> {
    let pair = Pair::new()?;
    let folder = pair.b.folder();
    let (socket, state) = (folder.join("atp.sock"), folder.join("state"));
    let options = ["--profile", "/nonexistent/profile.toml"];
    let mut command = Daemon::command(&pair.b, &socket, &state, &options)?;
    let (_unread, mut write) = std::io::pipe()?;
    let size = fcntl(&write, FcntlArg::F_GETPIPE_SZ)?;
    write.write_all(&vec![0; size as usize])?;
    command.stdout(write.try_clone()?).stderr(write);
    let mut daemon = Process::spawn(command, Signal::SIGTERM)?;
    let status = wait_for("the daemon to end", || Ok(daemon.child().try_wait()?))?;
    ensure!(status.code() == Some(1), "the daemon ended with {status}");
    Ok(())
}

/// Asks for something and reads no answer. The daemon has a line about that at level debug.
fn fail_as_a_client(path: &Path) -> Result<()> {
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    connect(client.as_raw_fd(), &UnixAddr::new(path)?)?;
    shutdown(client.as_raw_fd(), Shutdown::Read)?;
    send(client.as_raw_fd(), b"{}", MsgFlags::empty())?;
    Ok(())
}

/// Runs a job, and sends its receiver a packet that isn't ATP. Returns the hosts and the receiving
/// host's daemon, which has counted the packet.
fn after_garbage(options: &[&str]) -> Result<(Pair, Daemon)> {
    let pair = Pair::new()?;
    // A faster lane sends bursts, whose packets a PROBE acknowledges together.
    let (a, b) = (pair.a.daemon(&["--rate-max", "20mbit"])?, pair.b.daemon(options)?);
    let transfer = Transfer {
        from: &pair.a,
        from_daemon: &a,
        to: &pair.b,
        to_daemon: &b,
        family: Family::V4,
        load: LOAD,
        msr: 1.0,
    };
    let (sending, receiving) = transfer.start()?;
    let (from, to) = (SocketAddrV4::new(pair.a.ipv4, 999), SocketAddrV4::new(pair.b.ipv4, PORT));
    pair.a.namespace.enter(|| wire::spoof_v4(from, to, &[b"garbage".to_vec()]))?;
    wait_for("the packet to be counted", || Ok((b.counter("malformed")? > 0).then_some(())))?;
    transfer.finish(sending, receiving)?;
    Ok((pair, b))
}

/// The lines of a daemon's log with this text.
fn lines(daemon: &Daemon, text: &str) -> Vec<String> {
    let log = daemon.log();
    log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}
