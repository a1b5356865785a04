//! A C program that forks while the library works.

use crate::tools::{Ports, Server, command, compile, ports, run, unhurried};
use anyhow::{Result, ensure};
use std::{
    fs,
    io::Read,
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Libc's allocator counts the processors once it has many threads. A child that is forked just
/// then has the file, which is none of the library's, unless the limit is known.
const ALLOCATOR: (&str, &str) = ("MALLOC_ARENA_MAX", "8");

/// A child has no port, no thread and no descriptor of the library, and goes on.
pub fn have_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("children", folder.path())?;
    let (udp, tcp) = (ports("msr:1")?, ports("tcp:lines,msr:1")?);
    let numbers = [udp.program, udp.atp, tcp.program].map(|port| port.to_string());
    let both = Ports { rule: format!("{};{}", udp.rule, tcp.rule), ..udp };
    let report = folder.path().join("report");
    let mut command = unhurried(command(true, &both, Some(&report), &program));
    let said = run(command.env(ALLOCATOR.0, ALLOCATOR.1).args(numbers))?;
    ensure!(said == "as expected\n", "it printed {said:?}");
    // The parent ends last. Its datagrams before and after the child of vfork were messages.
    let report = fs::read_to_string(report)?;
    let parent = report.lines().next_back().unwrap_or_default();
    ensure!(parent.contains("\"sent_as_messages\":2,\"sent_plainly\":0,"), "it sent {parent}");
    Ok(())
}

/// A child has no socket that the library was about to note as its own when the parent forked.
pub fn have_nothing_unnoted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("forks", folder.path())?, ports("tcp:lines,msr:1")?);
    let mut command = command(true, &ports, None, &program);
    command.env(ALLOCATOR.0, ALLOCATOR.1);
    let mut server = Server::start(command.arg(ports.program.to_string()), "listening")?;
    let has_ended = AtomicBool::new(false);
    let connect = || {
        while !has_ended.load(Ordering::Relaxed) {
            // The library accepts each, and says hello.
            let hello = TcpStream::connect(("127.0.0.1", ports.atp));
            drop(hello.and_then(|mut hello| hello.read(&mut [0; 12])));
        }
    };
    let said = thread::scope(|scope| {
        scope.spawn(connect);
        let said = server.line();
        has_ended.store(true, Ordering::Relaxed);
        said
    })?;
    ensure!(said == "0 of 500", "{said} children have a descriptor of the library");
    server.ends_well()
}
