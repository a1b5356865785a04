//! Tests that a registration is one of a socket: it ends with the socket, and concerns no other
//! socket with the same port.

use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, ClientError, RefusalKind};
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};
use std::{
    fs::{self, Permissions},
    net::{SocketAddr, UdpSocket},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    process::Command,
};
use testbed::{
    Daemon, Family, Host, Load, PORT, Pair, Process, Receiving, Sending, TIMEOUT, one_group,
    privilege::as_user, wait_for, wire,
};

crate::trials! {
    closed_sockets__other_users_send_from_their_ports,
    closed_sockets__registrations_end,
    closed_sockets__newcomer_gets_the_port_at_once,
    closed_sockets__held_by_another_process_is_open,
    closed_sockets__another_socket_of_the_port_is_not_registered,
}

const LOAD: Load = Load::lines(1_000, 300);
const HALF: u32 = 500_000_000;
/// All ports that the kernel gives to sockets in the test's namespace.
const PORTS: std::ops::RangeInclusive<u16> = 40_000..=40_015;
/// The user who registers sockets, and closes them.
const HOARDER: libc::uid_t = 1_001;

/// A user registers all ephemeral ports and closes the sockets, but not the connection. Others get
/// these ports, and send with and without the daemon.
fn closed_sockets__other_users_send_from_their_ports() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let range = format!("{} {}", PORTS.start(), PORTS.end());
    pair.a.namespace.set("net/ipv4/ip_local_port_range", &range)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let (client, sockets) = pair.a.namespace.enter(|| register_all(&pair.a, &a, to))?;
    drop(sockets);
    for asks_daemon in [false, true] {
        let receiving = Receiving::start(&pair.b, &b, Family::V4, LOAD)?;
        let file = pair.a.folder().join("messages");
        LOAD.write(&file)?;
        let mut command = pair.a.atp_of_nobody()?;
        command.args(["send", &to.to_string(), "--json", "--msr", "0.8", "--timeout", "10s"]);
        command.arg("--file").arg(file);
        if asks_daemon {
            command.arg("--socket").arg(a.socket());
        }
        let finished = Sending::start_with(command)?.end()?;
        let dropped = a.counter("impersonation")?;
        ensure!(
            finished.status.success() && dropped == 0,
            "with daemon: {asks_daemon}, {dropped} impersonations: {}",
            finished.stderr
        );
        let used = if asks_daemon { "ebpf" } else { "userspace" };
        ensure!(finished.stdout.contains(used), "not by {used}: {}", finished.stdout);
        ensure!(receiving.finish()?.messages >= 800, "too few messages");
    }
    // The connection is open all the time.
    client.job_list()?;
    Ok(())
}

/// Registers a socket on each of [`PORTS`] as [`HOARDER`], on one connection.
fn register_all(host: &Host, daemon: &Daemon, to: SocketAddr) -> Result<(Client, Vec<UdpSocket>)> {
    open_folder_of(daemon)?;
    as_user(HOARDER, || {
        let client = Client::connect(daemon.socket())?;
        let sockets = PORTS.map(|port| -> Result<_> {
            let socket = UdpSocket::bind(host.endpoint(Family::V4, port))?;
            socket.connect(to)?;
            client.sender_open(None, &one_group(HALF, 1), socket.as_fd())?;
            Ok(socket)
        });
        let sockets = sockets.collect::<Result<_>>()?;
        Ok((client, sockets))
    })
}

/// Flows, lanes, jobs and receivers' ports are freed, whatever the address family.
fn closed_sockets__registrations_end() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let client = Client::connect(a.socket())?;
    for family in [Family::V4, Family::V6] {
        let kept = bound(&pair, family, Some(pair.b.endpoint(family, PORT)))?;
        client.sender_open(None, &one_group(HALF, 1), kept.as_fd())?;
        let sender = bound(&pair, family, Some(pair.b.endpoint(family, PORT)))?;
        client.sender_open(None, &one_group(HALF, 1), sender.as_fd())?;
        let receiver = bound(&pair, family, None)?;
        client.receiver_open(receiver.as_fd())?;
        let lanes = a.stats()?.lanes.len();
        ensure!(lanes == 2, "{lanes} lanes");
        drop((sender, receiver));
        wait_for("the flow to close", || Ok((a.stats()?.lanes.len() == 1).then_some(())))?;
        ensure!(a.stats()?.jobs.len() == 1, "{:?}", a.stats()?.jobs);
        wait_for("the log to tell", || Ok(a.log().contains("closed sockets").then_some(())))?;
        drop(kept);
        wait_for("the other flow to close", || Ok(a.stats()?.lanes.is_empty().then_some(())))?;
    }
    client.job_list()?;
    Ok(())
}

/// The daemon looks at the registered socket when another one with its port is registered. So its
/// next round doesn't matter.
fn closed_sockets__newcomer_gets_the_port_at_once() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let to = pair.b.endpoint(Family::V6, PORT);
    let mut clients = vec![Client::connect(a.socket())?];
    let first = bound(&pair, Family::V6, Some(to))?;
    let address = first.local_addr()?;
    clients[0].sender_open(None, &one_group(HALF, 1), first.as_fd())?;
    drop(first);
    for number in 0..40 {
        let client = Client::connect(a.socket())?;
        // Children of other tests have copies of all descriptors before they run their programs.
        let bind = || pair.a.namespace.enter(|| Ok(UdpSocket::bind(address).ok()));
        let socket = wait_for("the port", bind)?;
        if number % 2 == 0 {
            client.receiver_open(socket.as_fd()).context("as a receiver")?;
        } else {
            socket.connect(to)?;
            let groups = one_group(HALF, 1);
            client.sender_open(None, &groups, socket.as_fd()).context("as a sender")?;
        }
        clients.push(client);
    }
    Ok(())
}

/// A child's copy of the descriptor keeps the registration, also against a newcomer.
fn closed_sockets__held_by_another_process_is_open() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (holder, newcomer) = (Client::connect(a.socket())?, Client::connect(a.socket())?);
    let (first, second) = sharing_a_port(&pair)?;
    holder.receiver_open(first.as_fd())?;
    let mut child = Command::new("sleep");
    child.arg("600").stdin(OwnedFd::from(first));
    let child = Process::spawn(child, Signal::SIGKILL)?;
    let refused = newcomer.receiver_open(second.as_fd());
    ensure!(
        matches!(&refused, Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::InUse),
        "{:?}",
        refused.map(drop)
    );
    drop(child);
    // Children of other tests may have a copy for a moment.
    wait_for("the port", || Ok(newcomer.receiver_open(second.as_fd()).ok().map(drop)))
}

/// Two processes share a port, and one of them has registered its socket. Packets of the other one
/// pass as they would without a daemon.
fn closed_sockets__another_socket_of_the_port_is_not_registered() -> Result<()> {
    const PACKETS: u32 = 20;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let arriving = pair.b.namespace.enter(|| Ok(UdpSocket::bind(to)?))?;
    arriving.set_read_timeout(Some(TIMEOUT))?;
    let (first, second) = sharing_a_port(&pair)?;
    let client = Client::connect(a.socket())?;
    first.connect(to)?;
    let (grant, _) = client.sender_open(None, &one_group(HALF, 1), first.as_fd())?;
    second.connect(to)?;
    let mut buffer = [0; 2_048];
    for message in 0..PACKETS {
        let fields = wire::data(grant.job ^ 1, 7, message);
        second.send(&wire::payload(&fields, b"hello")).context("dropped at egress")?;
        let len = arriving.recv(&mut buffer)?;
        ensure!(buffer[..len].ends_with(b"hello"), "something else arrived");
    }
    // The registered socket itself may not name another job.
    first.send(&wire::payload(&wire::data(grant.job ^ 1, 7, 0), b"hello")).ok();
    let counts = (a.counter("impersonation")?, a.counter("paced")?);
    ensure!(counts == (1, 0), "{counts:?} packets were dropped and paced");
    Ok(())
}

fn bound(pair: &Pair, family: Family, to: Option<SocketAddr>) -> Result<UdpSocket> {
    pair.a.namespace.enter(|| {
        let socket = UdpSocket::bind(pair.a.endpoint(family, 0))?;
        if let Some(to) = to {
            socket.connect(to)?;
        }
        Ok(socket)
    })
}

/// Two sockets with the same address and port.
fn sharing_a_port(pair: &Pair) -> Result<(UdpSocket, UdpSocket)> {
    pair.a.namespace.enter(|| {
        let shared = |address: SocketAddr| -> Result<UdpSocket> {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            Ok(socket.into())
        };
        let first = shared(pair.a.endpoint(Family::V4, 0))?;
        let second = shared(first.local_addr()?)?;
        Ok((first, second))
    })
}

/// Lets other users connect to the daemon.
fn open_folder_of(daemon: &Daemon) -> Result<()> {
    let folder = daemon.socket().parent().context("a socket without a folder")?;
    Ok(fs::set_permissions(folder, Permissions::from_mode(0o755))?)
}
