//! Starts programs with and without `atp-run`.

pub use crate::trials::run;
use anyhow::{Context, Result, bail, ensure};
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io::{BufRead, BufReader, Write},
    net::{self, Ipv4Addr},
    ops::RangeInclusive,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// A port for a program, and one for ATP.
pub struct Ports {
    pub program: u16,
    pub atp: u16,
    pub rule: String,
}

/// How long the library waits for the other end's. It comes, on a busy machine too.
const PROBE: &str = "10s";
/// The same, if the other end has no library: the first datagram waits for so long.
const PROBE_ALONE: &str = "500ms";
/// Ports that the kernel gives to no socket by itself, as it does to many while a test runs.
const PORTS: RangeInclusive<u16> = 10_000..=32_767;

/// Ports of this test alone, and the rule with these settings.
pub fn ports(settings: &str) -> Result<Ports> {
    ports_with(settings, PROBE)
}

/// The ports of a program without the library that receives datagrams.
pub fn ports_alone(settings: &str) -> Result<Ports> {
    ports_with(settings, PROBE_ALONE)
}

fn ports_with(settings: &str, probe: &str) -> Result<Ports> {
    let (program, atp) = (port()?, port()?);
    let rule = format!("{program}={settings},window:200ms,probe:{probe},atp:{atp}");
    Ok(Ports { program, atp, rule })
}

/// A free port. No other test gets it until this process ends.
pub fn port() -> Result<u16> {
    let (random, count) = (RandomState::new(), PORTS.len() as u64);
    for index in 0..10 * count {
        let port = PORTS.start() + (random.hash_one(index) % count) as u16;
        // A port is free again before its program binds it, so a name stands for it.
        let name = SocketAddr::from_abstract_name(format!("atp-run's tests: port {port}"))?;
        if let Ok(reserved) = UnixListener::bind_addr(&name) {
            std::mem::forget(reserved);
            if is_free(port, Type::DGRAM)? && is_free(port, Type::STREAM)? {
                return Ok(port);
            }
        }
    }
    bail!("no port is free")
}

/// Whether a program can bind a port, also one that doesn't set SO_REUSEADDR.
fn is_free(port: u16, kind: Type) -> Result<bool> {
    let socket = Socket::new(Domain::IPV4, kind, None)?;
    Ok(socket.bind(&net::SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()).is_ok())
}

/// Compiles a C program of this folder.
pub fn compile(name: &str, into: &Path) -> Result<PathBuf> {
    compile_all(&[name], into)
}

/// Compiles a C program of several files, of which the first names it. Glibc checks lengths.
pub fn compile_all(names: &[&str], into: &Path) -> Result<PathBuf> {
    let program = into.join(names[0]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut cc = Command::new("cc");
    // Some distributions' compilers define another level.
    cc.args(["-O2", "-Wall", "-Werror", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-pthread"]);
    cc.args(names.iter().map(|name| folder.join(format!("{name}.c"))));
    run(cc.arg("-o").arg(&program))?;
    Ok(program)
}

/// A command under `atp-run`, or the plain command.
pub fn command(under: bool, ports: &Ports, report: Option<&Path>, program: &Path) -> Command {
    if !under {
        return Command::new(program);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-run"));
    command.args(["--map", &ports.rule]).arg("--library").arg(library());
    if let Some(report) = report {
        command.arg("--report").arg(report);
    }
    command.arg("--").arg(program);
    command
}

/// How long the end of an [`unhurried`] process waits. The library gives up a server that doesn't
/// read after a minute.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Lets the end of the process wait for longer than 5 s until the other end has confirmed all: on a
/// busy machine too.
pub fn unhurried(mut command: Command) -> Command {
    command.env("ATP_RUN_EXIT_TIMEOUT", EXIT_TIMEOUT.as_secs().to_string());
    command
}

/// The library that cargo built for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program's path");
    test.with_file_name("libatp_run.so")
}

/// A server, which is killed when the test ends.
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let input = child.stdin.take();
        Ok(Self { child, input, output })
    }

    pub fn start(command: &mut Command, ready: &str) -> Result<Self> {
        let mut server = Self::spawn(command)?;
        while !server.line()?.contains(ready) {}
        Ok(server)
    }

    /// The server's next line.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "the server has ended");
        Ok(line.trim_end().to_owned())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child wasn't waited for, so the number is its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to its input.
    pub fn write(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input has ended")?;
        Ok(writeln!(input, "{line}")?)
    }

    /// Ends its input, for which it waits.
    pub fn go_on(&mut self) {
        self.input = None;
    }

    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end, which is to be a good one.
    pub fn ends_well(mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }

    /// What it prints before the line `end`.
    pub fn until(&mut self, end: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end) {
            ensure!(self.output.read_until(b'\n', &mut bytes)? > 0, "the server has ended");
        }
        bytes.truncate(bytes.len() - end.len());
        Ok(bytes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The sum of a count over the processes of a report.
pub fn counted(report: &Path, name: &str) -> Result<u64> {
    let text = fs::read_to_string(report).context("no report")?;
    let number = |line: &str| -> Option<u64> {
        let value = line.split(&format!("\"{name}\":")).nth(1)?;
        value.split([',', '}']).next()?.parse().ok()
    };
    text.lines().map(|line| number(line).with_context(|| format!("{name} in {line}"))).sum()
}
