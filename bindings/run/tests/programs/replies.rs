//! A C server that answers datagrams, and a C client that awaits the answers.

use crate::{
    relay::translate,
    tools::{Server, command, compile, counted, ports, ports_alone, run},
};
use anyhow::{Context, Result, ensure};
use approxlib::Job;
use std::{
    fs::{self, File},
    net::{Ipv4Addr, UdpSocket},
    thread,
    time::Duration,
};

/// The replies come from the server to the asking socket, with both ends or one under `atp-run`.
pub fn reach(server_under: bool, client_under: bool) -> Result<()> {
    for server in ["serve", "serve-info"] {
        reach_from(server, server_under, client_under).context(server)?;
    }
    Ok(())
}

fn reach_from(server: &str, server_under: bool, client_under: bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let ports = if server_under { ports } else { ports_alone };
    let (program, ports) = (compile("replies", folder.path())?, ports("msr:1")?);
    let (report, port) = (folder.path().join("report"), ports.program.to_string());
    let mut serve = command(server_under, &ports, None, &program);
    let _server = Server::start(serve.args([server, &port]), "bound")?;
    run(command(client_under, &ports, Some(&report), &program).args(["ask", &port]))?;
    if client_under {
        let messages = counted(&report, "sent_as_messages")?;
        let expected = if server_under { 100 } else { 0 };
        ensure!(messages == expected, "{messages} of {expected} questions were messages");
    }
    Ok(())
}

/// The router's addresses.
const RELAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER_RELAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Behind a router that translates addresses, replies come after the datagrams are plain.
pub fn through_translation() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("replies", folder.path())?;
    let (of_server, of_client) = (ports("msr:1")?, ports("msr:1")?);
    let (report, complaints) = (folder.path().join("report"), folder.path().join("complaints"));
    for (at, to) in [(of_client.program, of_server.program), (of_client.atp, of_server.atp)] {
        translate((RELAY, at).into(), OTHER_RELAY, to)?;
    }
    let mut serve = command(true, &of_server, None, &program);
    let _server = Server::start(serve.args(["serve", &of_server.program.to_string()]), "bound")?;
    let mut client = command(true, &of_client, Some(&report), &program);
    client.args(["repeat", &of_client.program.to_string(), &RELAY.to_string()]);
    run(client.stderr(File::create(&complaints)?))?;
    let (messages, plain) =
        (counted(&report, "sent_as_messages")?, counted(&report, "sent_plainly")?);
    ensure!((1..10).contains(&messages) && plain >= 19, "{messages} messages, {plain} plain");
    let complaints = fs::read_to_string(complaints)?;
    ensure!(complaints.contains("a router on the path"), "it complained {complaints:?}");
    ensure!(complaints.lines().count() == 1, "it complained {complaints:?}");
    Ok(())
}

/// Messages of a stranger and of another version are refused, with one sentence.
pub fn to_strangers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("replies", folder.path())?, ports("msr:1")?);
    let (report, complaints) = (folder.path().join("report"), folder.path().join("complaints"));
    let mut serve = command(true, &ports, Some(&report), &program);
    serve.args(["serve", &ports.program.to_string()]).stderr(File::create(&complaints)?);
    let server = Server::start(&mut serve, "bound")?;
    for message in [&b"hits:1|c"[..], b"", b"\xae\x03\x00\x07\x7f\x00\x00\x01of another version"] {
        let mut job = Job::builder().connect((Ipv4Addr::LOCALHOST, ports.atp))?;
        job.send(message)?;
        let mut tries_left = 1_000;
        while job.try_outcome()?.is_none() {
            ensure!(tries_left > 0, "the library doesn't ask for the end of {message:?}");
            tries_left -= 1;
            thread::sleep(Duration::from_millis(10));
        }
    }
    let plain = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    plain.send_to(b"end", (Ipv4Addr::LOCALHOST, ports.program))?;
    server.ends_well()?;
    let (refused, received) = (counted(&report, "refused")?, counted(&report, "received")?);
    ensure!((refused, received) == (3, 0), "{refused} refused, {received} received");
    let complaints = fs::read_to_string(complaints)?;
    ensure!(complaints.lines().count() == 1, "it complained {complaints:?}");
    Ok(())
}
