//! Programs that strangers on other hosts try to stop, to starve or to speak for.

use crate::tools::{Ports, Server, command, compile, counted, ports, ports_alone};
use anyhow::{Context, Result, bail, ensure};
use approxlib::{Job, JobId};
use socket2::{Domain, Socket, Type};
use std::{
    collections::HashSet,
    fs,
    io::{Read, Write},
    iter,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};
use testbed::{
    DEVICE, Host, NOBODY, Namespace, Pair, Star,
    privilege::become_user,
    wire::{Capture, Claim, Frame, Kind, forged, spoof_v4, wrong_cookie},
};

/// A program that doesn't answer for so long hangs.
pub const HANGS: Duration = Duration::from_secs(60);
const RULE: &str = "tcp:lines,msr:1";
/// The first bytes of a library that accepts connections.
const HELLO_LEN: usize = 20;
/// They end with the connection's name.
const NAME_AT: usize = 12;
/// The client's answer: carry the connection.
const GO: &[u8] = &[1];
/// The word on another connection, before the name of the first.
const JOIN: u8 = 2;
/// What comes back there at first.
const TAKEN_LEN: usize = 16;

/// A command that runs on a host.
pub fn on(namespace: &Namespace, command: &Command) -> Command {
    let mut inside = namespace.command(command.get_program());
    inside.args(command.get_args());
    inside
}

/// The number of entries of the process's folder below /proc.
pub fn entries(server: &Server, folder: &str) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/{folder}", server.id()))?.count())
}

/// Datagrams from the mapped port of 200 addresses: the server answers each of them at once, and
/// an honest client after them.
pub fn make_no_destinations() -> Result<()> {
    const STRANGERS: u8 = 200;
    let (pair, folder) = (Pair::new()?, tempfile::tempdir()?);
    let (program, ports) = (compile("replies", folder.path())?, ports("msr:1")?);
    let mut serve = command(true, &ports, None, &program);
    let serve = serve.args(["serve", &ports.program.to_string()]);
    let server = Server::start(&mut on(&pair.b.namespace, serve), "bound")?;
    let threads = entries(&server, "task")?;
    let to = SocketAddr::from((pair.b.ipv4, ports.program));
    let addresses: Vec<_> =
        (0..STRANGERS).map(|number| Ipv4Addr::new(10, 99, 0, 10 + number)).collect();
    for address in &addresses {
        pair.a.namespace.run(&format!("ip address add {address}/24 dev {DEVICE}"))?;
    }
    let (strangers, honest, _silent) = pair.a.namespace.enter(|| {
        let bind = |at: (Ipv4Addr, u16)| -> Result<UdpSocket> {
            let socket = UdpSocket::bind(at)?;
            socket.set_read_timeout(Some(HANGS))?;
            Ok(socket)
        };
        // Where ATP would be, something takes the packets and doesn't answer.
        let silent = bind((Ipv4Addr::UNSPECIFIED, ports.atp))?;
        let strangers = addresses.iter().map(|address| bind((*address, ports.program)));
        Ok((strangers.collect::<Result<Vec<_>>>()?, bind((pair.a.ipv4, 0))?, silent))
    })?;
    for stranger in &strangers {
        stranger.send_to(b"stranger", to)?;
    }
    honest.send_to(b"honest", to)?;
    let mut bytes = [0; 16];
    let (len, from) = honest.recv_from(&mut bytes).context("an honest client gets no reply")?;
    ensure!((&bytes[..len], from) == (&b"honest"[..], to), "another reply, from {from}");
    for stranger in &strangers {
        stranger.recv(&mut bytes).context("a reply to the mapped port")?;
    }
    let after = entries(&server, "task")?;
    ensure!(after == threads, "the server has {after} threads, {threads} before the strangers");
    Ok(())
}

/// A program that sends to 200 destinations without ATP has few threads, and waits for few probes.
pub fn leave_few_threads() -> Result<()> {
    const COUNT: usize = 200;
    let (host, folder) = (Namespace::new()?, tempfile::tempdir()?);
    let (program, ports) = (compile("strangers", folder.path())?, ports_alone("msr:1")?);
    let bind = |port| Ok(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?);
    let receiver = host.enter(|| bind(ports.program))?;
    let _silent = host.enter(|| bind(ports.atp))?;
    receiver.set_read_timeout(Some(HANGS))?;
    let report = folder.path().join("report");
    let mut scatter = command(true, &ports, Some(&report), &program);
    let scatter = scatter.args(["scatter", &ports.program.to_string(), &COUNT.to_string()]);
    let receive = || -> Result<()> {
        let (mut numbers, mut bytes) = (HashSet::new(), [0; 4]);
        while numbers.len() < COUNT {
            receiver.recv(&mut bytes).with_context(|| format!("{} arrived", numbers.len()))?;
            ensure!(numbers.insert(bytes), "a datagram came twice");
        }
        Ok(())
    };
    let mut client = thread::scope(|scope| {
        let received = scope.spawn(receive);
        let client = Server::start(&mut on(&host, scatter), "sent")?;
        received.join().map_err(|_| anyhow::anyhow!("the receiver's thread"))??;
        anyhow::Ok(client)
    })?;
    let threads = entries(&client, "task")?;
    ensure!(threads < COUNT / 2, "{threads} threads for {COUNT} destinations");
    client.go_on();
    client.ends_well()?;
    ensure!(counted(&report, "sent_plainly")? == COUNT as u64, "the report has another number");
    Ok(())
}

/// Three hosts: a server's, a stranger's and that of an honest client.
struct Hosts {
    star: Star,
    folder: tempfile::TempDir,
    ports: Ports,
}

impl Hosts {
    fn new() -> Result<Self> {
        let (star, folder) = (Star::new(3)?, tempfile::tempdir()?);
        compile("strangers", folder.path())?;
        Ok(Self { star, folder, ports: ports(RULE)? })
    }

    fn host(&self, index: usize) -> &Host {
        &self.star.hosts[index]
    }

    fn serve(&self, report: &Path) -> Result<Server> {
        let program = self.folder.path().join("strangers");
        let mut serve = command(true, &self.ports, Some(report), &program);
        serve.args(["serve", &self.ports.program.to_string()]);
        Server::start(&mut on(&self.host(0).namespace, &serve), "listening")
    }

    /// A client on the honest host.
    fn ask(&self, under: bool, report: &Path) -> Result<Server> {
        let program = self.folder.path().join("strangers");
        let mut ask = command(under, &self.ports, Some(report), &program);
        ask.args(["ask", &self.host(0).ipv4.to_string(), &self.ports.program.to_string()]);
        Server::start(&mut on(&self.host(2).namespace, &ask), "connected")
    }

    /// Opens connections to the library's port from addresses of a host: those that it answers.
    fn open(
        &self,
        host: &Host,
        from: impl IntoIterator<Item = Ipv4Addr> + Send,
    ) -> Result<Vec<Opened>> {
        let open = |from| self.open_from(from).ok();
        host.namespace.enter(|| Ok(from.into_iter().filter_map(open).collect()))
    }

    fn open_from(&self, from: Ipv4Addr) -> Result<Opened> {
        let to = SocketAddr::from((self.host(0).ipv4, self.ports.atp));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.connect_timeout(&to.into(), HANGS / 10)?;
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(HANGS / 10))?;
        let mut hello = [0; HELLO_LEN];
        stream.read_exact(&mut hello)?;
        Ok(Opened { stream, hello })
    }

    /// Agrees as a client's library does: the connection of the pace, and the job.
    fn agree(&self, host: &Host, opened: &mut Opened) -> Result<(TcpStream, u32)> {
        host.namespace.enter(|| {
            let mut pace = self.open_from(host.ipv4)?.stream;
            pace.write_all(&[&[JOIN], &opened.hello[NAME_AT..]].concat())?;
            pace.read_exact(&mut [0; TAKEN_LEN])?;
            opened.stream.write_all(GO)?;
            let mut job = [0; 4];
            opened.stream.read_exact(&mut job)?;
            Ok((pace, u32::from_be_bytes(job)))
        })
    }
}

/// A connection to the library's port, and its first words.
struct Opened {
    stream: TcpStream,
    hello: [u8; HELLO_LEN],
}

/// A line of a client comes back.
pub fn echo(client: &mut Server, line: &str) -> Result<()> {
    client.write(line)?;
    let back = client.line()?;
    ensure!(back == line, "{back:?} came back, not {line:?}");
    Ok(())
}

/// Strangers' 1,000 connections, idle or agreed, leave the server's program its descriptors, and
/// other hosts their places. The places of connections that have ended are free.
pub fn leave_descriptors() -> Result<()> {
    const CONNECTIONS: usize = 1_000;
    const ADDRESSES: u8 = 100;
    /// With 1,024 descriptors: the places of connections that haven't agreed, and the stranger's
    /// share of 112 places of carried ones.
    const WAITING: usize = 32;
    const CARRIED: usize = 84;
    raise_limit()?;
    let hosts = Hosts::new()?;
    let [of_server, of_client] =
        ["server", "client"].map(|name| hosts.folder.path().join(format!("report of {name}")));
    let mut server = hosts.serve(&of_server)?;
    let (stranger, honest) = (hosts.host(1), hosts.host(2));
    let [first, second, third, _] = stranger.ipv4.octets();
    let addresses: Vec<_> =
        (0..ADDRESSES).map(|number| Ipv4Addr::new(first, second, third, 100 + number)).collect();
    for address in &addresses {
        stranger.namespace.run(&format!("ip address add {address}/24 dev {DEVICE}"))?;
    }
    // The oldest one of all, which still asks ATP: also one of many hosts can't take its place.
    let mut early = hosts.open(honest, [honest.ipv4])?;
    let all = addresses.into_iter().chain(iter::repeat_n(stranger.ipv4, CONNECTIONS));
    let idle = hosts.open(stranger, all.take(CONNECTIONS))?;
    for (under, line) in [(true, "first"), (false, "plain")] {
        echo(&mut hosts.ask(under, &of_client)?, line).context(line)?;
        server.line().context("the server beside idle connections")?;
    }
    let (threads, descriptors) = (entries(&server, "task")?, entries(&server, "fd")?);
    ensure!(idle.len() >= WAITING - 1, "{} connections were answered", idle.len());
    ensure!(threads < 20 && descriptors < 100, "{threads} threads, {descriptors} descriptors");
    let early = early.first_mut().context("an early connection")?;
    let (_pace, job) = hosts.agree(honest, early)?;
    ensure!(job != 0, "strangers took the place of another host's connection");
    drop(idle);
    let all = iter::repeat_n(stranger.ipv4, CONNECTIONS);
    let agree = |address| -> Result<_> {
        let mut opened = hosts.open(stranger, [address])?.pop().context("no answer")?;
        let (pace, _) = hosts.agree(stranger, &mut opened)?;
        Ok((opened, pace))
    };
    let agreed: Vec<_> = all.filter_map(|address| agree(address).ok()).collect();
    let mut client = hosts.ask(true, &of_client)?;
    for (client, line) in [(&mut client, "beside"), (&mut hosts.ask(false, &of_client)?, "alone")] {
        echo(client, line).context(line)?;
        server.line().context("the server beside agreed connections")?;
    }
    let (with_strangers, descriptors) = (entries(&server, "task")?, entries(&server, "fd")?);
    ensure!(descriptors < 1_024 * 3 / 4, "{descriptors} descriptors");
    ensure!(agreed.len() >= CARRIED, "{} connections were answered", agreed.len());
    ensure!(with_strangers > CARRIED, "{with_strangers} threads for {CARRIED} connections");
    drop(agreed);
    let hangs = Instant::now() + HANGS;
    while entries(&server, "task")? > 20 {
        ensure!(Instant::now() < hangs, "connections that have ended keep their threads");
        thread::sleep(HANGS / 1_000);
    }
    client.write("end")?;
    server.ends_well()?;
    let refused = counted(&of_server, "connections_refused")? as usize;
    // The last idle connections were there until their end. Clients may be refused beside them.
    let expected = 2 * CONNECTIONS - CARRIED;
    ensure!((expected - WAITING..=expected + 2).contains(&refused), "{refused} refused");
    Ok(())
}

/// A connection that the program doesn't read waits alone, and then all of its bytes arrive.
pub fn hold_up_no_other() -> Result<()> {
    let (folder, ports) = (tempfile::tempdir()?, ports(RULE)?);
    let [program, filling] =
        [compile("strangers", folder.path())?, compile("streams", folder.path())?];
    let start = |program, how: &[&str], ready| {
        Server::start(command(true, &ports, None, program).args(how), ready)
    };
    let port = &ports.program.to_string()[..];
    let mut server = start(&program, &["neglect", port], "listening")?;
    let mut honest = start(&program, &["ask", "127.0.0.1", port], "connected")?;
    let mut filler = start(&filling, &["fill-all", port], "own")?;
    filler.write("fill")?;
    let written = filler.line()?;
    echo(&mut honest, "beside a full one")?;
    honest.go_on();
    honest.ends_well()?;
    let read = server.line()?;
    ensure!(read == written, "the client wrote {written}, and the server read {read}");
    filler.ends_well()
}

/// Users of the client's host and of another one, who know a connection's job, insert nothing.
pub fn insert_no_frame() -> Result<()> {
    let hosts = Hosts::new()?;
    let [of_server, of_client] =
        ["server", "client"].map(|name| hosts.folder.path().join(format!("report of {name}")));
    let capture = Capture::start(hosts.host(0))?;
    let mut server = hosts.serve(&of_server)?;
    let mut client = hosts.ask(true, &of_client)?;
    echo(&mut client, "transfer 1 to alice")?;
    let to = SocketAddr::from((hosts.host(0).ipv4, hosts.ports.atp));
    let (from, job) = sender_of(&capture.finish()?, to)?;
    let line = &b"transfer 999 to mallory\n"[..];
    for host in [hosts.host(2), hosts.host(1)] {
        // As it is, and in the place after a secret.
        for message in [line, &[&[0; 8], line].concat()] {
            host.namespace.enter(|| {
                become_user(NOBODY)?;
                let mut job = Job::builder().id(job).connect(to)?;
                job.send(message)?;
                // The library asks for the end. A job that it takes ends by itself.
                drop(job.finish());
                Ok(())
            })?;
        }
    }
    hosts.host(1).namespace.enter(|| end_forged(from, to, job))?;
    client.write("transfer 2 to bob")?;
    for expected in ["read transfer 1 to alice", "read transfer 2 to bob"] {
        let read = server.line()?;
        ensure!(read == expected, "the server {read:?}, not {expected:?}");
    }
    let back = client.line()?;
    ensure!(back == "transfer 2 to bob", "{back:?} came back");
    // The connection has its own end, and no forged one.
    client.go_on();
    client.ends_well()?;
    let mut last = hosts.ask(false, &of_client)?;
    last.write("end")?;
    let last = server.until(b"end\n")?;
    ensure!(last == b"", "the server printed {:?}", String::from_utf8_lossy(&last));
    server.ends_well()?;
    let refused = counted(&of_server, "refused")?;
    ensure!(refused == 5, "{refused} messages were refused");
    Ok(())
}

/// Sends a message and the end of a job that lacks another one, as a host that forges the sender's
/// address and knows the job, but no cookie.
pub fn end_forged(from: SocketAddr, to: SocketAddr, job: u32) -> Result<()> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { bail!("no IPv4") };
    const MESSAGES: u32 = 2;
    let claim = Claim { job, cookie: wrong_cookie(1), messages: MESSAGES, slot: 0 };
    let (data, mut fin) = (forged(Kind::Data, claim, 0)?, forged(Kind::Fin, claim, 0)?);
    // The last words are the messages that were needed, and those that were delivered.
    let needed = fin.len() - 8..fin.len() - 4;
    fin[needed].copy_from_slice(&MESSAGES.to_be_bytes());
    spoof_v4(from, to, &[data, fin])
}

/// The address and the job from which messages come to `to`.
pub fn sender_of(frames: &[Frame], to: SocketAddr) -> Result<(SocketAddr, u32)> {
    let to_it = frames.iter().filter(|frame| frame.destination == to);
    let sender = |frame: &Frame| Some((frame.source, job_of_data(frame)?));
    to_it.filter_map(sender).next().context("no job was captured")
}

/// The job of a DATA packet, as a daemon shows it to all users, but for probes.
fn job_of_data(frame: &Frame) -> Option<u32> {
    let job = frame.header.job();
    (frame.kind == Kind::Data && job != JobId::from("atp-run probe").number()).then_some(job)
}

/// A library of another version is refused: the connection is plain.
pub fn of_another_version() -> Result<()> {
    let (folder, ports) = (tempfile::tempdir()?, ports(RULE)?);
    let program = compile("strangers", folder.path())?;
    let mut serve = command(false, &ports, None, &program);
    let serve = serve.args(["serve", &ports.program.to_string()]);
    let _server = Server::start(serve, "listening")?;
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.atp))?;
    let greet = thread::spawn(move || -> Result<()> {
        let (mut client, _) = other.accept()?;
        client.write_all(b"atp-run3\0\0\0\0")?;
        let answered = client.read(&mut [0; 1]).is_ok_and(|len| len > 0);
        ensure!(!answered, "the client's library takes another version's connection");
        Ok(())
    });
    let (report, complaints) = (folder.path().join("report"), folder.path().join("complaints"));
    let mut ask = command(true, &ports, Some(&report), &program);
    ask.args(["ask", "127.0.0.1", &ports.program.to_string()]);
    let mut client = Server::start(ask.stderr(fs::File::create(&complaints)?), "connected")?;
    echo(&mut client, "plain")?;
    client.go_on();
    client.ends_well()?;
    greet.join().map_err(|_| anyhow::anyhow!("the other version's thread"))??;
    let (plain, said) = (counted(&report, "connections_plain")?, fs::read_to_string(complaints)?);
    ensure!(plain == 1 && said.contains("it isn't atp-run of this version"), "it said {said:?}");
    Ok(())
}

/// The test's process has the strangers' connections.
fn raise_limit() -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the memory is there.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(8_192);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    };
    ensure!(done == 0, "the limit of descriptors");
    Ok(())
}
