//! A C program that ends its TCP connections in all ways: the other program gets all bytes and an
//! end, or a reset.

use crate::tools::{Ports, Server, command, compile, counted, patient, ports, run};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Ends of a connection or a process after which all bytes arrive, and then an end.
const GOOD: [&str; 17] = [
    "close,_exit",
    "close,_Exit",
    "close,quick_exit",
    "close,exit",
    "close,return",
    "shutdown,_exit",
    "shutdown-both,_exit",
    "dup,close,_exit",
    "dup2,_exit",
    "close_range,_exit",
    "closefrom,_exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "return",
    "nonblock,close,_exit",
    "stdio,return",
];
/// With children, threads and handlers.
const GOOD_WITH_OTHERS: [&str; 12] = [
    "stdio,fclose,_exit",
    "child-closes,close,_exit",
    "child-closes,_exit",
    "child-writes,close,_exit",
    "child-writes,_exit",
    "vfork,_exit",
    "last-thread",
    "close,exit_of_main",
    "reader,_exit",
    "reader,return",
    "exit-of-thread",
    "handler",
];
/// Ends of a client that connects in a child.
const GOOD_IN_CHILD: [&str; 5] = [
    "fork,close,_exit",
    "fork,_exit",
    "fork,return",
    "double-fork,close,_exit",
    "double-fork,_exit",
];
/// Ends that are resets without the library too.
const RESETS: [&str; 3] = ["linger,close,_exit", "linger,close,return", "linger,_exit"];
/// Ends of the process that carries the connection, before it is told that all bytes were written.
const KILLED: [&str; 6] = ["kill", "term", "abort", "execv", "exit_group", "hand-to-child,_exit"];
/// Ends of the process right after a close: the library may have told all bytes and the end before.
/// Also ends while another program writes: the library waits for that, for 5 s at most.
const CUT_OFF: [&str; 6] = [
    "close,execv",
    "close,exit_group",
    "close,kill",
    "close,daemon",
    "spawn-writes,_exit",
    "spawn-writes,reader,_exit",
];
/// Ends with processes of two users.
const WITH_OTHER_RIGHTS: [&str; 3] =
    ["child-drops,second-half,close,_exit", "drop-first,child-connects,second-half,_exit", LEAVES];
/// The child has other rights than root's, and writes while the parent ends.
const LEAVES: &str = "drop-first,hand-half-to-child";
/// Python's ways: processes that end right after the close, or without one.
const PYTHON: [&str; 4] = [
    "write(); os._exit(0)",
    "process = multiprocessing.get_context('fork').Process(target=write); \
     process.start(); process.join()",
    "pid = os.fork()\nif pid: os.waitpid(pid, 0)\nelif os.fork(): os._exit(0)\nelse: write(); os._exit(0)",
    "write(close=False); os._exit(0)",
];

const ALL: &str = "22000 bytes, end";
const RULE: &str = "tcp:lines,msr:1";

/// The bytes and the end that the server read, for each way in which a client ended.
fn read_by_server(ways: &[&str], under: bool, is_right: fn(&str) -> bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("endings", folder.path())?, ports(RULE)?);
    let port = ports.program.to_string();
    let mut serve = command(under, &ports, None, &program);
    let mut server = Server::start(serve.args(["serve", &port]), "listening")?;
    are_right(ways, is_right, |way| {
        let mut client = command(under, &ports, None, &program);
        // Some end with a signal.
        client.args(["write", way, &port]).status().context("a client")?;
        server.line()
    })
}

/// What a client read of servers that ended in these ways.
fn read_by_client(ways: &[&str], under: bool, is_right: fn(&str) -> bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("endings", folder.path())?;
    are_right(ways, is_right, |way| {
        let ports = ports(RULE)?;
        let port = ports.program.to_string();
        let mut answer = command(under, &ports, None, &program);
        let _server = Server::start(answer.args(["answer", way, &port]), "listening")?;
        run(command(under, &ports, None, &program).args(["read", &port]))
    })
}

/// All of what was read is right, after each way to end.
fn are_right(
    ways: &[&str],
    is_right: fn(&str) -> bool,
    mut read: impl FnMut(&str) -> Result<String>,
) -> Result<()> {
    let mut wrong = Vec::new();
    for way in ways {
        let read = read(way).with_context(|| way.to_string())?;
        if !is_right(read.trim_end()) {
            wrong.push(format!("{way}: {}", read.trim_end()));
        }
    }
    ensure!(wrong.is_empty(), "{} of {} are wrong: {}", wrong.len(), ways.len(), wrong.join("; "));
    Ok(())
}

fn is_whole(read: &str) -> bool {
    read == ALL
}

fn is_reset(read: &str) -> bool {
    read.ends_with(" bytes, ECONNRESET") && !read.contains("other")
}

/// The tests' expectations are those of the kernel.
pub fn without_the_library() -> Result<()> {
    for ways in [&GOOD[..], &GOOD_WITH_OTHERS] {
        read_by_server(ways, false, is_whole)?;
        read_by_client(ways, false, is_whole)?;
    }
    read_by_server(&GOOD_IN_CHILD, false, is_whole)?;
    read_by_server(&RESETS, false, is_reset)?;
    read_by_client(&RESETS, false, is_reset)
}

pub fn of_clients() -> Result<()> {
    read_by_server(&GOOD, true, is_whole)
}

pub fn of_clients_with_others() -> Result<()> {
    read_by_server(&GOOD_WITH_OTHERS, true, is_whole)?;
    read_by_server(&GOOD_IN_CHILD, true, is_whole)
}

pub fn of_servers() -> Result<()> {
    read_by_client(&GOOD, true, is_whole)
}

pub fn of_servers_with_others() -> Result<()> {
    read_by_client(&GOOD_WITH_OTHERS, true, is_whole)
}

pub fn that_are_resets() -> Result<()> {
    for ways in [&RESETS[..], &KILLED] {
        read_by_server(ways, true, is_reset)?;
        read_by_client(ways, true, is_reset)?;
    }
    Ok(())
}

/// Whether nothing is missing before an end.
fn is_whole_or_reset(read: &str) -> bool {
    is_whole(read) || is_reset(read)
}

/// An end that the library didn't see is none of a connection that misses bytes.
pub fn that_are_cut_off() -> Result<()> {
    read_by_server(&CUT_OFF, true, is_whole_or_reset)?;
    read_by_client(&CUT_OFF, true, is_whole_or_reset)
}

/// A process doesn't end the connections of another one at which it can't look, or which can't look
/// at it.
pub fn of_other_users() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("endings", folder.path())?, ports(RULE)?);
    let port = ports.program.to_string();
    for way in WITH_OTHER_RIGHTS {
        let mut serve = command(true, &ports, None, &program);
        let mut server = Server::start(serve.args(["serve", &port]), "listening")?;
        run(command(true, &ports, None, &program).args(["write", way, &port]))?;
        let parent = server.line()?;
        if way == LEAVES {
            ensure!(is_whole_or_reset(&parent), "{way}: the server read {parent:?}");
        } else {
            let child = server.line()?;
            ensure!(parent == ALL, "{way}: the server read {parent:?} of the parent");
            ensure!(child == ALL, "{way}: the server read {child:?} of the child");
        }
    }
    Ok(())
}

/// A process shares a connection without having children.
pub fn of_received() -> Result<()> {
    read_by_server(&["receive-from-child"], true, is_whole_or_reset)
}

/// A process that had children, at which it can look, ends its connections as one without.
pub fn of_former_parents() -> Result<()> {
    read_by_server(&["child-closes,reader,_exit"], true, is_whole)
}

/// A process ends with the program's last thread, though that isn't the one of `main`.
pub fn of_last_threads() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("endings", folder.path())?;
    for under in [false, true] {
        let ports = ports("msr:1")?;
        let port = ports.program.to_string();
        run(command(under, &ports, None, &program).args(["last-thread-of-udp", &port]))?;
    }
    Ok(())
}

/// A signal handler that ends the process in the middle of the allocator's work gets to its end.
/// The server reads all bytes or a reset.
pub fn in_the_allocator() -> Result<()> {
    read_by_server(&["handler-allocates"; 2], true, is_whole_or_reset)
}

/// A client that closes many connections at once, and ends.
pub fn of_many() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("endings", folder.path())?, ports(RULE)?);
    let port = ports.program.to_string();
    let mut serve = command(true, &ports, None, &program);
    let mut server = Server::start(serve.args(["serve", &port]), "listening")?;
    run(command(true, &ports, None, &program).args(["write", "many,", &port]))?;
    for connection in 0..20 {
        let read = server.line()?;
        ensure!(read == ALL, "connection {connection}: the server read {read:?}");
    }
    Ok(())
}

/// A client that goes on writing learns that the server's program has closed the connection.
pub fn of_one_way() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("endings", folder.path())?;
    for way in ["close,wait", "close,_exit"] {
        let ports = ports(RULE)?;
        let port = ports.program.to_string();
        let mut answer = command(true, &ports, None, &program);
        let _server = Server::start(answer.args(["answer", way, &port]), "listening")?;
        let said = run(command(true, &ports, None, &program).args(["write-on", &port]))?;
        let is_right = ["EPIPE", "ECONNRESET"].map(|error| format!("{ALL}\n{error}\n"));
        ensure!(is_right.contains(&said), "{way}: the client said {said:?}");
    }
    Ok(())
}

/// A child that inherited a connection sees how the process ended that carries it.
pub fn of_a_parent() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("endings", folder.path())?;
    for (one, other) in [("write", "serve"), ("answer", "read")] {
        let ports = ports(RULE)?;
        let port = ports.program.to_string();
        let own = |how: &[&str]| {
            let mut command = command(true, &ports, None, &program);
            command.args(how).arg(&port);
            command
        };
        let way = [one, "die-before-child"];
        let (child, read) = if one == "write" {
            let mut server = Server::start(&mut own(&[other]), "listening")?;
            let said = own(&way).output().context("the parent")?.stdout;
            (String::from_utf8_lossy(&said).trim_end().to_owned(), server.line()?)
        } else {
            let mut server = Server::start(&mut own(&way), "listening")?;
            let read = run(&mut own(&[other]))?;
            (server.line()?, read.trim_end().to_owned())
        };
        ensure!(child == "child 0 bytes, ECONNRESET", "{one}: the child read {child:?}");
        ensure!(is_reset(&read), "{one}: the other end read {read:?}");
    }
    Ok(())
}

pub fn of_python() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("endings", folder.path())?, ports(RULE)?);
    let port = ports.program.to_string();
    let mut serve = command(true, &ports, None, &program);
    let mut server = Server::start(serve.args(["serve", &port]), "listening")?;
    let begin = format!(
        "import multiprocessing, os, socket\n\
         def write(close=True):\n \
         global end\n \
         end = socket.create_connection(('127.0.0.1', {port}))\n \
         end.sendall(b''.join(b'line %05d\\n' % line for line in range(2000)))\n \
         if close: end.close()\n"
    );
    are_right(&PYTHON, is_whole, |way| {
        let mut client = command(true, &ports, None, Path::new("python3"));
        run(client.args(["-c", &format!("{begin}{way}\n")]))?;
        server.line()
    })
}

/// A child with a connection of its own ends that alone, not the one that it inherited.
pub fn of_a_child() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("endings", folder.path())?, ports(RULE)?);
    let port = ports.program.to_string();
    let mut serve = command(true, &ports, None, &program);
    let mut server = Server::start(serve.args(["serve", &port]), "listening")?;
    for end in ["close,_exit", "_exit", "return"] {
        let way = format!("child-connects,second-half,{end}");
        run(command(true, &ports, None, &program).args(["write", &way, &port]))?;
        let (parent, child) = (server.line()?, server.line()?);
        ensure!(parent == ALL, "{way}: the server read {parent:?} of the parent");
        ensure!(child == ALL, "{way}: the server read {child:?} of the child");
    }
    Ok(())
}

/// A server that doesn't answer any more holds up the end of a client for a while only.
pub fn to_a_dead_peer() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("endings", folder.path())?, ports(RULE)?);
    let port = ports.program.to_string();
    let mut serve = command(true, &ports, None, &program);
    let mut server = Server::start(serve.args(["serve", &port]), "listening")?;
    let mut client = command(true, &ports, None, &program);
    let mut client = Server::start(client.args(["write", "wait,close,_exit", &port]), "waiting")?;
    server.signal(libc::SIGSTOP);
    client.go_on();
    client.ends_well().context("the client")?;
    server.signal(libc::SIGCONT);
    let read = server.line()?;
    ensure!(is_reset(&read), "the server read {read:?}");
    Ok(())
}

/// A connection whose close would wait for a server that doesn't read (SO_LINGER) holds up no other
/// one: the server that doesn't read ends once the other one has read.
pub fn beside_a_full_one() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report");
    let (endings, streams) =
        (compile("endings", folder.path())?, compile("streams", folder.path())?);
    let (full, free) = (ports(RULE)?, ports(RULE)?);
    let both = Ports { rule: format!("{};{}", full.rule, free.rule), ..ports(RULE)? };
    let numbers = [&full, &free].map(|ports| ports.program.to_string());
    let mut ignore = command(true, &full, None, &streams);
    let mut deaf = Server::start(ignore.args(["ignore", &numbers[0]]), "listening")?;
    let mut serve = command(true, &free, None, &endings);
    let mut server = Server::start(serve.args(["serve", &numbers[1]]), "listening")?;
    let mut client = patient(command(true, &both, Some(&report), &endings));
    let client = client.args(["write", "beside-full,_exit"]).args(&numbers).spawn()?;
    let read = server.line()?;
    deaf.go_on();
    let output = client.wait_with_output()?;
    ensure!(read == ALL, "the server read {read:?}");
    ensure!(output.status.success(), "the client: {}", output.status);
    let carried = counted(&report, "connections_carried")?;
    ensure!(carried == 2, "{carried} of 2 connections were carried");
    Ok(())
}
