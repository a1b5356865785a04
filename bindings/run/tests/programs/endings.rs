//! A C program that ends its TCP connections in all ways: the other program gets all bytes and an
//! end, or a reset.

use crate::tools::{EXIT_TIMEOUT, Ports, Server, command, compile, counted, ports, run, unhurried};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

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
/// Ends without the library's, which therefore writes no report. The last one may hang for 7 s.
const UNREPORTED: [&str; 7] =
    ["kill", "term", "abort", "execv", "exit_group", "daemon", "handler-allocates"];
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

/// The end that a program reads after another one has ended.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Whole,
    Reset,
    /// Nothing is missing before an end.
    WholeOrReset,
}
use Ending::{Reset, Whole, WholeOrReset};

impl Ending {
    fn is(self, read: &str) -> bool {
        let is_reset = read.ends_with(" bytes, ECONNRESET") && !read.contains("other");
        match self {
            Whole => read == ALL,
            Reset => is_reset,
            WholeOrReset => read == ALL || is_reset,
        }
    }
}

/// The C program at both ends of a connection, with the library or without.
struct Programs {
    folder: tempfile::TempDir,
    program: PathBuf,
    under: bool,
}

impl Programs {
    fn new(under: bool) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = compile("endings", folder.path())?;
        Ok(Self { folder, program, under })
    }

    /// The command of `program`. Its bytes have to reach the other one if the end is a whole one.
    fn other(&self, program: &Path, ports: &Ports, ending: Ending) -> Command {
        let command = command(self.under, ports, Some(&self.report()), program);
        if ending == Whole { unhurried(command) } else { command }
    }

    fn command(&self, how: &[&str], ports: &Ports, ending: Ending) -> Command {
        let mut command = self.other(&self.program, ports, ending);
        command.args(how).arg(ports.program.to_string());
        command
    }

    fn serve(&self, ports: &Ports) -> Result<Server> {
        Server::start(&mut self.command(&["serve"], ports, WholeOrReset), "listening")
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report")
    }

    /// So many connections were carried since the last call. A process may end after the test has
    /// read the other end. Without the library there is no report.
    fn were_carried(&self, expected: u64) -> Result<()> {
        let report = self.report();
        let deadline = Instant::now() + 2 * EXIT_TIMEOUT;
        let carried = || counted(&report, "connections_carried").ok();
        while self.under && carried() != Some(expected) {
            let told = fs::read_to_string(&report).unwrap_or_default();
            ensure!(Instant::now() < deadline, "{expected} connections aren't carried: {told}");
            thread::sleep(Duration::from_millis(10));
        }
        if self.under {
            fs::remove_file(&report)?;
        }
        Ok(())
    }
}

/// The server reads such an ending, for each way in which a client ends.
fn read_by_server(ways: &[&str], under: bool, ending: Ending) -> Result<()> {
    let (programs, ports) = (Programs::new(under)?, ports(RULE)?);
    let mut server = programs.serve(&ports)?;
    are_right(ways, ending, |way| {
        let mut client = programs.command(&["write", way], &ports, ending);
        // Some end with a signal.
        client.status().context("a client")?;
        let read = server.line()?;
        if !UNREPORTED.iter().any(|end| way.ends_with(end)) {
            programs.were_carried(1)?;
        }
        Ok(read)
    })
}

/// A client reads such an ending of servers that end in these ways.
fn read_by_client(ways: &[&str], under: bool, ending: Ending) -> Result<()> {
    let programs = Programs::new(under)?;
    are_right(ways, ending, |way| {
        let ports = ports(RULE)?;
        let mut answer = programs.command(&["answer", way], &ports, ending);
        let _server = Server::start(&mut answer, "listening")?;
        let read = run(&mut programs.command(&["read"], &ports, ending))?;
        programs.were_carried(1)?;
        Ok(read)
    })
}

/// All of what was read is right, after each way to end.
fn are_right(
    ways: &[&str],
    ending: Ending,
    mut read: impl FnMut(&str) -> Result<String>,
) -> Result<()> {
    let mut wrong = Vec::new();
    for way in ways {
        let read = read(way).with_context(|| way.to_string())?;
        if !ending.is(read.trim_end()) {
            wrong.push(format!("{way}: {}", read.trim_end()));
        }
    }
    ensure!(wrong.is_empty(), "{} of {} are wrong: {}", wrong.len(), ways.len(), wrong.join("; "));
    Ok(())
}

/// The tests' expectations are those of the kernel.
pub fn without_the_library() -> Result<()> {
    for ways in [&GOOD[..], &GOOD_WITH_OTHERS] {
        read_by_server(ways, false, Whole)?;
        read_by_client(ways, false, Whole)?;
    }
    read_by_server(&GOOD_IN_CHILD, false, Whole)?;
    read_by_server(&RESETS, false, Reset)?;
    read_by_client(&RESETS, false, Reset)
}

pub fn of_clients() -> Result<()> {
    read_by_server(&GOOD, true, Whole)
}

pub fn of_clients_with_others() -> Result<()> {
    read_by_server(&GOOD_WITH_OTHERS, true, Whole)?;
    read_by_server(&GOOD_IN_CHILD, true, Whole)
}

pub fn of_servers() -> Result<()> {
    read_by_client(&GOOD, true, Whole)
}

pub fn of_servers_with_others() -> Result<()> {
    read_by_client(&GOOD_WITH_OTHERS, true, Whole)
}

pub fn that_are_resets() -> Result<()> {
    for ways in [&RESETS[..], &KILLED] {
        read_by_server(ways, true, Reset)?;
        read_by_client(ways, true, Reset)?;
    }
    Ok(())
}

/// An end that the library didn't see is none of a connection that misses bytes.
pub fn that_are_cut_off() -> Result<()> {
    read_by_server(&CUT_OFF, true, WholeOrReset)?;
    read_by_client(&CUT_OFF, true, WholeOrReset)
}

/// A process doesn't end the connections of another one at which it can't look, or which can't look
/// at it.
pub fn of_other_users() -> Result<()> {
    let ports = ports(RULE)?;
    for way in WITH_OTHER_RIGHTS {
        let programs = Programs::new(true)?;
        // The other user's process writes as well.
        fs::write(programs.report(), "")?;
        fs::set_permissions(programs.report(), Permissions::from_mode(0o666))?;
        fs::set_permissions(programs.folder.path(), Permissions::from_mode(0o755))?;
        let mut server = programs.serve(&ports)?;
        let (ending, connections) = if way == LEAVES { (WholeOrReset, 1) } else { (Whole, 2) };
        run(&mut programs.command(&["write", way], &ports, ending))?;
        for connection in 0..connections {
            let read = server.line()?;
            ensure!(ending.is(&read), "{way}: the server read {read:?} of connection {connection}");
        }
        programs.were_carried(connections)?;
    }
    Ok(())
}

/// A process shares a connection without having children.
pub fn of_received() -> Result<()> {
    read_by_server(&["receive-from-child"], true, WholeOrReset)
}

/// A process that had children, at which it can look, ends its connections as one without.
pub fn of_former_parents() -> Result<()> {
    read_by_server(&["child-closes,reader,_exit"], true, Whole)
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
    read_by_server(&["handler-allocates"; 2], true, WholeOrReset)
}

/// A client that closes many connections at once, and ends.
pub fn of_many() -> Result<()> {
    let (programs, ports) = (Programs::new(true)?, ports(RULE)?);
    let mut server = programs.serve(&ports)?;
    run(&mut programs.command(&["write", "many,"], &ports, Whole))?;
    for connection in 0..20 {
        let read = server.line()?;
        ensure!(Whole.is(&read), "connection {connection}: the server read {read:?}");
    }
    programs.were_carried(20)
}

/// A client that goes on writing learns that the server's program has closed the connection.
pub fn of_one_way() -> Result<()> {
    let programs = Programs::new(true)?;
    for way in ["close,wait", "close,_exit"] {
        let ports = ports(RULE)?;
        let mut answer = programs.command(&["answer", way], &ports, Whole);
        let _server = Server::start(&mut answer, "listening")?;
        let said = run(&mut programs.command(&["write-on"], &ports, Whole))?;
        let is_right = ["EPIPE", "ECONNRESET"].map(|error| format!("{ALL}\n{error}\n"));
        ensure!(is_right.contains(&said), "{way}: the client said {said:?}");
        programs.were_carried(1)?;
    }
    Ok(())
}

/// A child that inherited a connection sees how the process ended that carries it. Without the
/// library the connection would go on.
pub fn of_a_parent() -> Result<()> {
    let programs = Programs::new(true)?;
    for (one, other) in [("write", "serve"), ("answer", "read")] {
        let ports = ports(RULE)?;
        let own = |how: &[&str]| programs.command(how, &ports, Reset);
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
        ensure!(Reset.is(&read), "{one}: the other end read {read:?}");
    }
    Ok(())
}

pub fn of_python() -> Result<()> {
    let (programs, ports) = (Programs::new(true)?, ports(RULE)?);
    let mut server = programs.serve(&ports)?;
    let begin = format!(
        "import multiprocessing, os, socket\n\
         def write(close=True):\n \
         global end\n \
         end = socket.create_connection(('127.0.0.1', {}))\n \
         end.sendall(b''.join(b'line %05d\\n' % line for line in range(2000)))\n \
         if close: end.close()\n",
        ports.program
    );
    are_right(&PYTHON, Whole, |way| {
        let mut client = programs.other(Path::new("python3"), &ports, Whole);
        run(client.args(["-c", &format!("{begin}{way}\n")]))?;
        let read = server.line()?;
        programs.were_carried(1)?;
        Ok(read)
    })
}

/// A child with a connection of its own ends that alone, not the one that it inherited.
pub fn of_a_child() -> Result<()> {
    let (programs, ports) = (Programs::new(true)?, ports(RULE)?);
    let mut server = programs.serve(&ports)?;
    for end in ["close,_exit", "_exit", "return"] {
        let way = format!("child-connects,second-half,{end}");
        run(&mut programs.command(&["write", &way], &ports, Whole))?;
        for whose in ["parent", "child"] {
            let read = server.line()?;
            ensure!(Whole.is(&read), "{way}: the server read {read:?} of the {whose}");
        }
        programs.were_carried(2)?;
    }
    Ok(())
}

/// A server that doesn't answer any more holds up the end of a client for a while only.
pub fn to_a_dead_peer() -> Result<()> {
    let (programs, ports) = (Programs::new(true)?, ports(RULE)?);
    let mut server = programs.serve(&ports)?;
    let mut client = programs.command(&["write", "wait,close,_exit"], &ports, Reset);
    let mut client = Server::start(&mut client, "waiting")?;
    server.signal(libc::SIGSTOP);
    client.go_on();
    client.ends_well().context("the client")?;
    server.signal(libc::SIGCONT);
    let read = server.line()?;
    ensure!(Reset.is(&read), "the server read {read:?}");
    programs.were_carried(1)
}

/// A connection whose close would wait for a server that doesn't read (SO_LINGER) holds up no other
/// one: the server that doesn't read ends once the other one has read.
pub fn beside_a_full_one() -> Result<()> {
    let programs = Programs::new(true)?;
    let streams = compile("streams", programs.folder.path())?;
    let (full, free) = (ports(RULE)?, ports(RULE)?);
    let mut ignore = command(true, &full, None, &streams);
    let mut deaf = Server::start(ignore.args(["ignore", &full.program.to_string()]), "listening")?;
    let mut server = programs.serve(&free)?;
    let both = Ports { rule: format!("{};{}", full.rule, free.rule), ..free };
    let how = ["write", "beside-full,_exit", &full.program.to_string()];
    let mut client = programs.command(&how, &both, Whole).spawn()?;
    let read = server.line()?;
    deaf.go_on();
    let status = client.wait()?;
    ensure!(Whole.is(&read), "the server read {read:?}");
    ensure!(status.success(), "the client: {status}");
    programs.were_carried(2)
}
