//! Senders of datagrams whom strangers try to stop, or to speak for.

use crate::{
    strangers::{HANGS, echo, end_forged, entries, on, sender_of},
    tools::{Ports, Server, command, compile, counted, ports},
};
use anyhow::{Context, Result, bail, ensure};
use approxlib::Job;
use std::{
    collections::HashSet,
    net::{SocketAddr, UdpSocket},
    thread,
    time::Instant,
};
use testbed::{Host, NOBODY, Pair, privilege::become_user, wire::Capture};

/// A server of datagrams, an honest client, and the addresses of both.
struct Speakers {
    pair: Pair,
    folder: tempfile::TempDir,
    ports: Ports,
    server: Server,
}

impl Speakers {
    fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    fn start_with(how: &[&str]) -> Result<Self> {
        let (pair, folder) = (Pair::new()?, tempfile::tempdir()?);
        let (program, ports) = (compile("strangers", folder.path())?, ports("msr:1")?);
        let mut receive = command(true, &ports, Some(&folder.path().join("server")), &program);
        let receive = receive.args(["receive", &ports.program.to_string()]).args(how);
        let server = Server::start(&mut on(&pair.b.namespace, receive), "bound")?;
        Ok(Self { pair, folder, ports, server })
    }

    /// A client on the other host, and its socket's port.
    fn client(&self, own: u16) -> Result<(Server, u16)> {
        let (program, report) =
            (self.folder.path().join("strangers"), self.folder.path().join("client"));
        let mut send = command(true, &self.ports, Some(&report), &program);
        let (to, port) = (self.pair.b.ipv4.to_string(), self.ports.program.to_string());
        let send = send.args(["send", &to, &port, &own.to_string()]);
        let mut client = Server::spawn(&mut on(&self.pair.a.namespace, send))?;
        let port = client.line()?;
        let port = port.strip_prefix("port ").context("the client names its port")?.parse()?;
        Ok((client, port))
    }

    /// Sends messages of ATP as a user of the client's host, and waits for the job's end.
    fn forge(&self, messages: &[Vec<u8>]) -> Result<()> {
        self.forge_on(&self.pair.a, messages)
    }

    fn forge_on(&self, host: &Host, messages: &[Vec<u8>]) -> Result<()> {
        host.namespace.enter(|| {
            become_user(NOBODY)?;
            let mut job = Job::builder().connect((self.pair.b.ipv4, self.ports.atp))?;
            // The library may ask for the end before the last one.
            drop(messages.iter().try_for_each(|message| job.send(message).map(drop)));
            drop(job.finish());
            Ok(())
        })
    }

    /// The message of a datagram from `port` of the client's host, in this and the former version.
    fn claims(&self, port: u16, datagram: &[u8]) -> [Vec<u8>; 2] {
        Self::claims_of(&self.pair.a, port, datagram)
    }

    fn claims_of(host: &Host, port: u16, datagram: &[u8]) -> [Vec<u8>; 2] {
        let [high, low] = port.to_be_bytes();
        let (source, secret) = (host.ipv4.octets(), [7; 8]);
        [
            [&[0xae, 2, high, low], &source[..], &secret, datagram].concat(),
            [&[0xae, 1, high, low], &source[..], datagram].concat(),
        ]
    }

    /// The server has read a datagram of this port, and nothing before it.
    fn receives(&mut self, port: u16, datagram: &str) -> Result<()> {
        let (received, from) = (self.server.line()?, self.pair.a.ipv4);
        ensure!(received == format!("{from}:{port} {datagram}"), "{datagram} became {received:?}");
        Ok(())
    }

    /// Ends the server; its count of this name.
    fn count(self, name: &str) -> Result<u64> {
        let to = (self.pair.b.ipv4, self.ports.program);
        self.pair.a.namespace.enter(|| {
            let socket = UdpSocket::bind((self.pair.a.ipv4, 0))?;
            Ok(socket.send_to(b"end", to)?)
        })?;
        self.server.ends_well()?;
        counted(&self.folder.path().join("server"), name)
    }
}

/// A user of a client's host speaks neither as another's port nor as a reserved one.
pub fn speak_for_no_port() -> Result<()> {
    let mut speakers = Speakers::start()?;
    let capture = Capture::start(&speakers.pair.b)?;
    let (mut client, port) = speakers.client(0)?;
    echo(&mut client, "honest")?;
    speakers.receives(port, "honest")?;
    // The forged end of the client's job doesn't end its claim.
    let to = SocketAddr::from((speakers.pair.b.ipv4, speakers.ports.atp));
    let (from, job) = sender_of(&capture.finish()?, to)?;
    speakers.pair.a.namespace.enter(|| end_forged(from, to, job))?;
    for claimed in [port, 123] {
        for message in speakers.claims(claimed, b"forged") {
            speakers.forge(&[message])?;
        }
        let received = speakers.server.line()?;
        let from = received.strip_suffix(" forged").context("another datagram")?;
        let from: SocketAddr = from.parse()?;
        ensure!(from.ip() == speakers.pair.a.ipv4, "a datagram from {from}");
        ensure!(![port, 123].contains(&from.port()), "a stranger speaks as {from}");
    }
    // No reply of the stranger's went there.
    echo(&mut client, "honest too")?;
    speakers.receives(port, "honest too")?;
    client.go_on();
    client.ends_well()?;
    // The port is free again.
    speakers.forge(&speakers.claims(port, b"later")[..1])?;
    speakers.receives(port, "later")?;
    let (sent, refused) = (
        counted(&speakers.folder.path().join("client"), "sent_as_messages")?,
        speakers.count("claims_refused")?,
    );
    ensure!((sent, refused) == (2, 2), "{sent} messages, {refused} refused claims");
    Ok(())
}

/// The places of senders that one host has, with 1,024 descriptors.
const SENDERS: u16 = 96;

/// A user who sends as 200 ports leaves the server's program its descriptors, and appears as no
/// other sender: not in datagrams that the program reads later, nor from a port that is used again.
pub fn leave_senders() -> Result<()> {
    const PORTS: u16 = 200;
    let mut speakers = Speakers::start_with(&["late"])?;
    let from = speakers.pair.a.ipv4;
    // The kernel has few ports to choose from.
    speakers.pair.b.namespace.set("net/ipv4/ip_local_port_range", "40000 40141")?;
    let before = entries(&speakers.server, "fd")?;
    // A job for each version: the library ends one of another version.
    for version in 0..2 {
        let ports = 2_000..2_000 + PORTS;
        let messages = ports.map(|port| speakers.claims(port, b"forged")[version].clone());
        speakers.forge(&messages.collect::<Vec<_>>())?;
    }
    let hangs = Instant::now() + HANGS;
    while entries(&speakers.server, "fd")? < before + usize::from(SENDERS) {
        ensure!(Instant::now() < hangs, "the library has no socket for each sender");
        thread::sleep(HANGS / 1_000);
    }
    // A library that takes sockets of unread datagrams has taken some by now.
    thread::sleep(HANGS / 200);
    speakers.server.write("read")?;
    let mut left: HashSet<_> =
        (2_000..2_000 + PORTS).map(|port| format!("{from}:{port} forged")).collect();
    let mut unnamed = 0;
    for _ in 0..PORTS {
        let received = speakers.server.line()?;
        unnamed += u16::from(received.starts_with("0.0.0.0:"));
        let is_known = received.starts_with("0.0.0.0:") || left.remove(&received);
        ensure!(is_known, "{received:?} is nobody's, or came before");
    }
    ensure!(unnamed <= PORTS - SENDERS, "{unnamed} senders have no socket");
    // Sockets whose datagrams were read are used again.
    for port in 3_000.. {
        ensure!(Instant::now() < hangs, "no socket is free");
        speakers.forge(&speakers.claims(port, b"later")[..1])?;
        if speakers.server.line()? == format!("{from}:{port} later") {
            break;
        }
    }
    let (mut client, port) = speakers.client(0)?;
    echo(&mut client, "honest")?;
    speakers.receives(port, "honest")?;
    let after = entries(&speakers.server, "fd")? - before;
    ensure!(after <= usize::from(SENDERS) + 8, "strangers took {after} descriptors");
    let (evicted, named) = (speakers.count("senders_evicted")?, PORTS - unnamed + 2);
    ensure!(evicted == u64::from(named - SENDERS), "{evicted} of {named} senders were evicted");
    Ok(())
}

/// A user has all places of a host's senders, and the program never sees its socket empty. Messages
/// of other senders come nevertheless: of that host without an address, of others with theirs.
pub fn stop_no_datagrams() -> Result<()> {
    const STRANGERS: u16 = 128;
    const AHEAD: usize = 16;
    const OWN: u16 = 3_000;
    let mut speakers = Speakers::start_with(&["step"])?;
    let (stranger, other) = (&speakers.pair.a, &speakers.pair.b);
    let to = SocketAddr::from((other.ipv4, speakers.ports.program));
    let plain = stranger.namespace.enter(|| Ok(UdpSocket::bind((stranger.ipv4, 0))?))?;
    for _ in 0..AHEAD {
        plain.send_to(b"busy", to)?;
    }
    let ports = 2_000..2_000 + STRANGERS;
    let messages = ports.map(|port| speakers.claims(port, b"forged")[0].clone());
    speakers.forge(&messages.collect::<Vec<_>>())?;
    speakers.forge(&speakers.claims(OWN, b"honest")[..1])?;
    speakers.forge_on(other, &Speakers::claims_of(other, OWN, b"honest")[..1])?;
    let (of_other, hangs) = (format!("{}:{OWN} honest", other.ipv4), Instant::now() + HANGS);
    let mut arrived = Vec::new();
    while arrived.len() < 2 {
        ensure!(Instant::now() < hangs, "of two honest messages came {arrived:?}");
        plain.send_to(b"busy", to)?;
        speakers.server.write("read")?;
        let line = speakers.server.line()?;
        arrived.extend(line.ends_with(" honest").then_some(line));
    }
    let [first, second] = &arrived[..] else { bail!("{arrived:?}") };
    ensure!(first.starts_with("0.0.0.0:"), "the first is of {first}");
    ensure!(*second == of_other, "the second is of {second}");
    speakers.server.go_on();
    let unnamed = speakers.count("senders_unnamed")?;
    ensure!(unnamed == u64::from(STRANGERS + 1 - SENDERS), "{unnamed} messages have no address");
    Ok(())
}

/// Datagrams of a program that has a reserved port are plain, and come from that.
pub fn have_reserved_ports() -> Result<()> {
    const OWN: u16 = 1_000;
    let mut speakers = Speakers::start()?;
    let (mut client, port) = speakers.client(OWN)?;
    ensure!(port == OWN, "the client has the port {port}");
    echo(&mut client, "privileged")?;
    speakers.receives(OWN, "privileged")?;
    client.go_on();
    client.ends_well()?;
    let plain = counted(&speakers.folder.path().join("client"), "sent_plainly")?;
    ensure!(plain == 1, "{plain} plain datagrams");
    Ok(())
}
