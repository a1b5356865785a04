//! Clients of the control socket that are wrong, many, or hostile: the daemon refuses and goes on.

use anyhow::{Context, Result, ensure};
use approxlib::control::Client;
use atp_tests::hosts::{DEVICE, Daemon, Family, PORT, Pair, wait_for};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, setsockopt, socket,
    sockopt,
};
use std::{
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

crate::trials! {
    clients__nonsense_is_refused,
    clients__many_at_once,
    clients__wrong_descriptors_are_refused,
    clients__port_can_be_registered_once,
    clients__many_flows_come_and_go,
}

const HALF: u32 = 500_000_000;

fn clients__nonsense_is_refused() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    for nonsense in [
        &b"\0"[..],
        b"{}",
        b"[1, 2",
        b"{\"request\":\"stats\"}",
        b"{\"request\":\"hello\",\"protocol\":99}",
        b"{\"request\":\"hello\",\"protocol\":1,\"more\":true}",
        &[b'['; 100_000],
        &[0xff; 150_000],
    ] {
        let client = raw_client(&a)?;
        send(client.as_raw_fd(), nonsense, MsgFlags::MSG_NOSIGNAL)?;
        let mut reply = vec![0; 4096];
        let len = recv(client.as_raw_fd(), &mut reply, MsgFlags::empty())?;
        let reply = String::from_utf8_lossy(&reply[..len]);
        ensure!(
            len == 0 || reply.contains("refused"),
            "{reply} to {:?}",
            &nonsense[..20.min(nonsense.len())]
        );
    }
    expect_idle(&a)
}

/// More than the daemon is asked for by any sensible host, all at once and all silent.
fn clients__many_at_once() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let silent: Vec<_> = (0..300).map(|_| raw_client(&a)).collect::<Result<_>>()?;
    a.stats().context("with 300 silent clients")?;
    drop(silent);
    expect_idle(&a)
}

fn clients__wrong_descriptors_are_refused() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let client = Client::connect(a.socket())?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let unconnected = sender_socket(&pair, None)?;
    let file = tempfile::tempfile()?;
    for wrong in [listener.as_fd(), unconnected.as_fd(), file.as_fd()] {
        let granted = client.sender_open(None, 0, HALF, 1, wrong);
        ensure!(granted.is_err(), "a flow was granted for {wrong:?}");
    }
    for wrong in [listener.as_fd(), file.as_fd()] {
        ensure!(client.receiver_open(wrong).is_err(), "a receiver was granted for {wrong:?}");
    }
    let right = sender_socket(&pair, Some(pair.b.endpoint(Family::V4, PORT)))?;
    ensure!(client.sender_open(None, 0, HALF + HALF + 1, 1, right.as_fd()).is_err(), "MSR above 1");
    // The connection is still good for what makes sense.
    client.sender_open(None, 0, HALF, 1, right.as_fd())?;
    drop(client);
    expect_idle(&a)
}

fn clients__port_can_be_registered_once() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (first, second) = (Client::connect(a.socket())?, Client::connect(a.socket())?);
    let socket = sender_socket(&pair, Some(pair.b.endpoint(Family::V4, PORT)))?;
    first.sender_open(None, 0, HALF, 1, socket.as_fd())?;
    let again = second.sender_open(None, 0, HALF, 1, socket.as_fd());
    ensure!(again.is_err_and(|error| error.to_string().contains("registered")), "a second time");
    ensure!(second.receiver_open(socket.as_fd()).is_err(), "a sender's port as a receiver's");
    ensure!(a.stats()?.lanes.len() == 1, "the refused one left a lane");
    drop(first);
    wait_for("the port to be free", || {
        Ok(second.sender_open(None, 0, HALF, 1, socket.as_fd()).ok().map(drop))
    })?;
    drop(second);
    expect_idle(&a)
}

/// Their lanes, classes and jobs go with the connection.
fn clients__many_flows_come_and_go() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let classes = || pair.a.namespace.run(&format!("tc class show dev {DEVICE}"));
    let before = classes()?;
    for _ in 0..2 {
        let client = Client::connect(a.socket())?;
        let to = pair.b.endpoint(Family::V6, PORT);
        let sockets: Vec<_> =
            (0..200).map(|_| sender_socket(&pair, Some(to))).collect::<Result<_>>()?;
        for socket in &sockets {
            client.sender_open(None, 0, HALF, 1, socket.as_fd())?;
        }
        let stats = a.stats()?;
        ensure!(stats.lanes.len() == 200, "{} lanes", stats.lanes.len());
        drop(client);
        expect_idle(&a)?;
    }
    ensure!(classes()? == before, "classes are left: {}", classes()?);
    Ok(())
}

/// Nothing is registered, and the daemon answers.
fn expect_idle(daemon: &Daemon<'_>) -> Result<()> {
    wait_for("the daemon to let go of its clients", || {
        let stats = daemon.stats()?;
        Ok((stats.jobs.is_empty() && stats.lanes.is_empty()).then_some(()))
    })
}

fn raw_client(daemon: &Daemon<'_>) -> Result<OwnedFd> {
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&client, sockopt::SndBuf, &(1 << 20))?;
    connect(client.as_raw_fd(), &UnixAddr::new(daemon.socket())?)?;
    Ok(client)
}

fn sender_socket(pair: &Pair, to: Option<SocketAddr>) -> Result<UdpSocket> {
    pair.a.namespace.enter(|| {
        let family = if to.is_some_and(|to| to.is_ipv6()) { Family::V6 } else { Family::V4 };
        let socket = UdpSocket::bind(pair.a.endpoint(family, 0))?;
        if let Some(to) = to {
            socket.connect(to)?;
        }
        Ok(socket)
    })
}
