//! A C program's TCP streams, sent and received in all ways.

use crate::{
    relay::Entrance,
    tools::{Ports, Server, command, compile, counted, ports, run},
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::HashSet, fs, net::TcpStream, path::Path, process::Stdio, thread, time::Duration,
};

/// Lines of a known order.
fn lines() -> Vec<u8> {
    let lines: String = (0..5_000).map(|line| format!("line {line}\n")).collect();
    [lines.as_bytes(), b"the rest\n"].concat()
}

fn u32_length() -> Vec<u8> {
    let frame = |index: u32| {
        let body = format!("{index}\n");
        [&(body.len() as u32).to_be_bytes(), body.as_bytes()].concat()
    };
    (0..2_000).flat_map(frame).collect()
}

fn syslog() -> Vec<u8> {
    let frame = |index: u32| {
        let body = format!("<34>1 - host app - - - record {index}\n");
        format!("{} {body}", body.len()).into_bytes()
    };
    (0..2_000).flat_map(frame).collect()
}

/// What the server read and what the client was told.
struct Sent {
    folder: tempfile::TempDir,
    arrived: Vec<u8>,
    said: String,
    complaints: String,
}

impl Sent {
    fn counted(&self, name: &str) -> Result<u64> {
        counted(&self.folder.path().join("report"), name)
    }
}

/// Sends a stream with the C program, and reads what the C program received.
fn send(settings: &str, stream: &[u8], how: &str, server_under: bool) -> Result<Sent> {
    send_to(server_under.then_some(settings), settings, stream, how)
}

/// Sends a stream to a server with other settings than the client's, or without the library.
fn send_to(server: Option<&str>, settings: &str, stream: &[u8], how: &str) -> Result<Sent> {
    let folder = tempfile::tempdir()?;
    let program = compile("streams", folder.path())?;
    let (ports, file) = (ports(settings)?, folder.path().join("stream"));
    fs::write(&file, stream)?;
    let port = ports.program.to_string();
    let rule = ports.rule.replace(settings, server.unwrap_or(settings));
    let own = Ports { rule, program: ports.program, atp: ports.atp };
    let mut serve = command(server.is_some(), &own, None, &program);
    let mut server = Server::start(serve.args(["serve", &port]), "listening")?;
    // The server's pipe is read meanwhile: it isn't to stop because that is full.
    let (names, arrived, client) = thread::scope(|scope| {
        let client = scope.spawn(|| client(&ports, &program, &file, how, folder.path()));
        let names = server.line();
        (names, server.until(b"end\n"), client.join())
    });
    let (said, complaints) = client.map_err(|_| anyhow::anyhow!("the client's thread"))??;
    let own = said.lines().next().context("the client names its port")?;
    let (names, expected) = (names?, format!("peer {} own {port}", own.trim_start_matches("own ")));
    ensure!(names == expected, "the server saw {names:?}, not {expected:?}");
    let arrived = arrived?;
    Ok(Sent { folder, arrived, said, complaints })
}

fn client(
    ports: &Ports,
    program: &Path,
    file: &Path,
    how: &str,
    folder: &Path,
) -> Result<(String, String)> {
    let complaints = folder.join("complaints");
    let mut client = command(true, ports, Some(&folder.join("report")), program);
    client.args([how, &ports.program.to_string()]).arg(file);
    client.stderr(Stdio::from(fs::File::create(&complaints)?));
    let said = run(&mut client);
    let complaints = fs::read_to_string(complaints)?;
    Ok((said.with_context(|| complaints.clone())?, complaints))
}

fn is_exact(sent: &Sent, stream: &[u8]) -> Result<()> {
    let same = sent.arrived == stream;
    ensure!(same, "{} of {} bytes arrived, or in disorder", sent.arrived.len(), stream.len());
    let reply = format!("{} bytes\n", stream.len());
    ensure!(sent.said.ends_with(&reply), "the reply {:?} lacks {reply:?}", sent.said);
    Ok(())
}

/// At MSR 1 the stream arrives as it was, in each framing.
pub fn under_both() -> Result<()> {
    let rest = b"and a rest that is no frame\n";
    for (framing, stream, frames) in [
        ("lines", lines(), 5_001),
        ("u32-length", [u32_length(), b"\0\0\0\xffrest\n".to_vec()].concat(), 2_000),
        ("syslog", [syslog(), [b"99 ", &rest[..]].concat()].concat(), 2_000),
    ] {
        let sent = send(&format!("tcp:{framing},msr:1"), &stream, "send", true).context(framing)?;
        is_exact(&sent, &stream).context(framing)?;
        let counts = (sent.counted("sent_as_messages")?, sent.counted("connections_carried")?);
        ensure!(counts == (frames, 1), "{framing}: {counts:?} messages and connections");
        ensure!(sent.complaints.is_empty(), "{framing}: {}", sent.complaints);
    }
    Ok(())
}

/// At a lower MSR every line is one of the sender's, and enough of them arrive.
pub fn of_the_least_rate() -> Result<()> {
    let stream = lines();
    let sent = send("tcp:lines,msr:0.5", &stream, "send", true)?;
    let known: HashSet<&[u8]> = stream.split_inclusive(|byte| *byte == b'\n').collect();
    let arrived: Vec<&[u8]> = sent.arrived.split_inclusive(|byte| *byte == b'\n').collect();
    let unknown = arrived.iter().find(|line| !known.contains(*line));
    ensure!(unknown.is_none(), "{:?} is no line of the sender", unknown);
    let unique: HashSet<&&[u8]> = arrived.iter().collect();
    ensure!(unique.len() == arrived.len(), "{} lines twice", arrived.len() - unique.len());
    ensure!(arrived.len() >= known.len() / 2, "{} of {} lines", arrived.len(), known.len());
    Ok(())
}

/// A process that exits without closing its socket loses nothing.
pub fn before_exit() -> Result<()> {
    let stream = lines();
    let sent = send("tcp:lines,msr:1", &stream, "exit", true)?;
    ensure!(sent.arrived == stream, "{} of {} bytes", sent.arrived.len(), stream.len());
    Ok(())
}

/// A server without the library sees the client's bytes, and nothing else.
pub fn under_one() -> Result<()> {
    let stream = lines();
    let sent = send("tcp:lines,msr:0.5", &stream, "send", false)?;
    is_exact(&sent, &stream)?;
    let counts = (sent.counted("sent_as_messages")?, sent.counted("connections_plain")?);
    ensure!(counts == (0, 1), "{counts:?} messages and plain connections");
    Ok(())
}

/// Under two framings the server's program sees one connection, the plain one.
pub fn of_two_framings() -> Result<()> {
    let stream = lines();
    let sent = send_to(Some("tcp:syslog,msr:0.5"), "tcp:lines,msr:0.5", &stream, "send")?;
    is_exact(&sent, &stream)?;
    let counts = (sent.counted("sent_as_messages")?, sent.counted("connections_plain")?);
    ensure!(counts == (0, 1), "{counts:?} messages and plain connections");
    let said = sent.complaints.trim_end();
    let words = "its rule has another framing: give both ends one rule";
    ensure!(said.ends_with(words) && said.lines().count() == 1, "it complained {said:?}");
    Ok(())
}

/// After a byte that is no frame, the rest of the stream goes over TCP, with one sentence.
pub fn of_another_framing() -> Result<()> {
    let good = syslog();
    let stream = [&good[..], b"<34>without a length\n", &lines()].concat();
    let sent = send("tcp:syslog,msr:1", &stream, "send", true)?;
    is_exact(&sent, &stream)?;
    ensure!(sent.counted("sent_as_messages")? == 2_000, "not all frames were messages");
    let words = "goes on over TCP alone: a frame begins without a length and a space";
    let said = sent.complaints.trim_end();
    ensure!(said.ends_with(words) && said.lines().count() == 1, "it complained {said:?}");
    Ok(())
}

/// Starts the C program at one end.
fn start(ports: &Ports, program: &Path, how: &str, under: bool, ready: &str) -> Result<Server> {
    let mut command = command(under, ports, None, program);
    Server::start(command.args([how, &ports.program.to_string()]), ready)
}

/// A program that doesn't read holds up neither the client's exit nor its own.
pub fn unread() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("streams", folder.path())?, ports("tcp:lines,msr:1")?);
    let mut server = start(&ports, &program, "ignore", true, "listening")?;
    let mut client = start(&ports, &program, "fill", true, "full")?;
    client.go_on();
    client.ends_well().context("the client")?;
    server.go_on();
    server.ends_well().context("the server")
}

/// A program that reads nothing for longer than a receiver of datagrams may gets all frames. It may
/// listen no longer.
pub fn paused() -> Result<()> {
    read_after("fill-all", Duration::from_secs(3))
}

/// A client that hears its pace no longer is reset once there is no room, and says why.
pub fn without_pace() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("streams", folder.path())?;
    let (of_server, of_client) = (ports("tcp:lines,msr:1")?, ports("tcp:lines,msr:1")?);
    let entrance = Entrance::open(&of_client, &of_server)?;
    let _server = start(&of_server, &program, "pause", true, "listening")?;
    let complaints = folder.path().join("complaints");
    let mut client = command(true, &of_client, None, &program);
    client.args(["fill-all", &of_client.program.to_string()]);
    client.stderr(fs::File::create(&complaints)?);
    let accepted = thread::spawn(move || entrance.accept());
    let mut client = Server::start(&mut client, "own")?;
    let relay = accepted.join().map_err(|_| anyhow::anyhow!("the relay's thread"))??;
    relay.lose_pace()?;
    client.write("fill")?;
    ensure!(client.ends_well().is_err(), "the client isn't reset");
    let said = fs::read_to_string(complaints)?;
    let words = "library no longer reports how much the program has read";
    ensure!(said.lines().any(|line| line.ends_with(words)), "it complained {said:?}");
    Ok(())
}

/// So it does if the client has ended, and the library holds the last frames meanwhile.
pub fn paused_at_the_end() -> Result<()> {
    read_after("bulk", Duration::from_secs(3))
}

fn read_after(how: &str, pause: Duration) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("streams", folder.path())?, ports("tcp:lines,msr:1")?);
    let mut server = start(&ports, &program, "pause", true, "listening")?;
    let mut client = start(&ports, &program, how, true, "own")?;
    ensure!(server.line()? == "connected", "the server accepts");
    wait_until_closed(&ports)?;
    client.write("fill")?;
    let written = client.line()?;
    thread::sleep(pause);
    server.go_on();
    let read = server.line()?;
    ensure!(read == written, "the client wrote {written}, and the server read {read}");
    client.ends_well()
}

/// Waits until the library of a server that listens no longer takes no connection.
fn wait_until_closed(ports: &Ports) -> Result<()> {
    let mut tries_left = 500;
    while TcpStream::connect(("127.0.0.1", ports.atp)).is_ok() {
        ensure!(tries_left > 0, "the server's library still listens");
        tries_left -= 1;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A server that exits after its reply loses none of it, also if the client reads later.
pub fn replied_before_exit() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("streams", folder.path())?, ports("tcp:lines,msr:1")?);
    let mut server = start(&ports, &program, "answer", true, "listening")?;
    let mut client = start(&ports, &program, "listen", true, "connected")?;
    let written = server.line()?;
    // The server's process has begun to exit.
    thread::sleep(Duration::from_secs(1));
    client.go_on();
    let read = client.line()?;
    ensure!(read == written, "the server wrote {written}, and the client read {read}");
    server.ends_well()
}

/// A program that has closed its listening socket, and keeps a connection, takes no connection of
/// its successor.
pub fn to_successor() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("streams", folder.path())?, ports("tcp:lines,msr:1")?);
    let (file, report) = (folder.path().join("stream"), folder.path().join("report"));
    fs::write(&file, lines())?;
    let mut first = start(&ports, &program, "ignore", true, "listening")?;
    let _kept = start(&ports, &program, "listen", true, "connected")?;
    ensure!(first.line()? == "accepted", "the first server accepts");
    wait_until_closed(&ports)?;
    let mut successor = start(&ports, &program, "serve", false, "listening")?;
    let arrived = thread::scope(|scope| {
        let sent = scope.spawn(|| client(&ports, &program, &file, "send", folder.path()));
        successor.line()?;
        let arrived = successor.until(b"end\n")?;
        sent.join().map_err(|_| anyhow::anyhow!("the client's thread"))??;
        anyhow::Ok(arrived)
    })?;
    ensure!(arrived == lines(), "{} bytes reached the successor", arrived.len());
    ensure!(counted(&report, "connections_plain")? == 1, "the first server's library carried it");
    first.go_on();
    first.ends_well()
}
