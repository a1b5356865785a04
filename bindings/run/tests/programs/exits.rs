//! A C server that replies and ends at once, at the end of a path that the test holds up.

use crate::{
    relay::{Entrance, Relay},
    tools::{EXIT_TIMEOUT, Server, command, compile, counted, ports, unhurried},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    thread,
    time::{Duration, Instant},
};

/// A reply that is longer than buffers, and one that the server's kernel holds while nobody reads.
const LONG: usize = 4 << 20;
const SHORT: usize = 256 << 10;
/// Time in which a library without the mend makes its mistake. It is no bound.
const PAUSE: Duration = Duration::from_secs(1);

/// A server, and a client that has asked it.
struct Ends {
    folder: tempfile::TempDir,
    server: Server,
    client: Server,
    relay: Relay,
}

impl Ends {
    fn start(bytes: usize, how: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = compile("reply", folder.path())?;
        let (of_server, of_client) = (ports("tcp:lines,msr:1")?, ports("tcp:lines,msr:1")?);
        let entrance = Entrance::open(&of_client, &of_server)?;
        let mut serve = unhurried(command(true, &of_server, None, &program));
        serve.args(["serve", &bytes.to_string(), &of_server.program.to_string()]);
        let server = Server::start(&mut serve, "listening")?;
        let report = folder.path().join("report");
        let mut client = command(true, &of_client, Some(&report), &program);
        client.args([how, &of_client.program.to_string()]);
        client.stderr(File::create(folder.path().join("complaints"))?);
        let accepted = thread::spawn(move || entrance.accept());
        let client = Server::start(&mut client, "asked")?;
        let relay = accepted.join().map_err(|_| anyhow::anyhow!("the relay's thread"))??;
        Ok(Self { folder, server, client, relay })
    }
}

/// A client that hasn't ended its own bytes reads the whole reply of a server that has ended since.
pub fn to_a_client_that_waits() -> Result<()> {
    let Ends { folder, server, mut client, mut relay } = Ends::start(LONG, "ask")?;
    let replies = relay.read();
    server.ends_well().context("the server")?;
    // The client's window ends meanwhile, and no receiver is there.
    thread::sleep(PAUSE);
    relay.pass_on(&replies);
    let read = client.line()?;
    ensure!(read == format!("{LONG} bytes, end"), "the client read {read:?}");
    client.ends_well().context("the client")?;
    let complaints = fs::read_to_string(folder.path().join("complaints"))?;
    ensure!(complaints.is_empty(), "the client complained {complaints:?}");
    ensure!(counted(&folder.path().join("report"), "connections_carried")? == 1, "it was plain");
    Ok(())
}

/// A server's process waits until the client's host has the reply. Otherwise what the client sends
/// would reset the connection.
pub fn to_a_client_that_ends() -> Result<()> {
    let start = Instant::now();
    let Ends { folder, mut server, mut client, mut relay } = Ends::start(SHORT, "shut")?;
    let pause = Instant::now();
    while pause.elapsed() < PAUSE {
        let has_ended = server.has_ended()?;
        ensure!(
            !has_ended || start.elapsed() >= EXIT_TIMEOUT,
            "the server has ended before its reply"
        );
        thread::sleep(Duration::from_millis(10));
    }
    client.go_on();
    relay.wait_for_client(start + EXIT_TIMEOUT);
    let replies = relay.read();
    let is_late = start.elapsed() >= EXIT_TIMEOUT;
    relay.pass_on(&replies);
    let read = client.line()?;
    let is_right = read == format!("{SHORT} bytes, end") || is_late && read.contains("ECONNRESET");
    ensure!(is_right, "the client read {read:?}");
    server.ends_well().context("the server")?;
    client.ends_well().context("the client")?;
    ensure!(counted(&folder.path().join("report"), "connections_carried")? == 1, "it was plain");
    Ok(())
}
