//! Starts programs with and without `atp-run`.

pub use crate::trials::run;
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::{TcpListener, UdpSocket},
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

/// Free ports, and the rule with these settings.
pub fn ports(settings: &str) -> Result<Ports> {
    ports_with(settings, PROBE)
}

/// The same for datagrams to a program without the library.
pub fn ports_alone(settings: &str) -> Result<Ports> {
    ports_with(settings, PROBE_ALONE)
}

fn ports_with(settings: &str, probe: &str) -> Result<Ports> {
    loop {
        let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
        let [program, atp] = [&sockets[0], &sockets[1]].map(|socket| socket.local_addr());
        let (program, atp) = (program?, atp?);
        // They are to be free for TCP as well.
        if TcpListener::bind(program).is_ok() && TcpListener::bind(atp).is_ok() {
            let (port, atp_port) = (program.port(), atp.port());
            let rule = format!("{port}={settings},window:200ms,probe:{probe},atp:{atp_port}");
            return Ok(Ports { program: program.port(), atp: atp.port(), rule });
        }
    }
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
    pub fn start(command: &mut Command, ready: &str) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let input = child.stdin.take();
        let mut server = Self { child, input, output };
        while !server.line()?.contains(ready) {}
        Ok(server)
    }

    /// Its next line.
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
