//! An ordinary server and its client under `atp-run`, beside strangers.

use anyhow::{Context, Result, anyhow};
use std::{
    env,
    ffi::OsString,
    io::Read,
    path::PathBuf,
    process::{Command, Stdio},
};
use testbed::{Host, Process, Signal};

use super::host_state::ProcessState;

/// The program, for Python.
const PROGRAM: &str = include_str!("carried.py");
pub const LINES_PORT: u16 = 5_140;
pub const DATAGRAMS_PORT: u16 = 8_125;
/// The ports that ATP has in their place.
pub const ATP_LINES_PORT: u16 = 15_140;
pub const ATP_DATAGRAMS_PORT: u16 = 18_125;

/// The descriptors of the senders of datagrams, which stay until others need their places.
pub const SENDERS_MAX: u64 = 256;

/// A running server.
pub struct Server(Process);

/// A running client.
pub struct Client(Process);

impl Server {
    /// Starts it, and waits until it listens.
    pub fn start(host: &Host) -> Result<Self> {
        let ports = [LINES_PORT, DATAGRAMS_PORT].map(|port| port.to_string());
        let mut process = start(host, "serve", &ports)?;
        let output = process.child().stdout.as_mut().context("no output")?;
        output.read_exact(&mut [0; "ready\n".len()]).context("the server under atp-run")?;
        Ok(Self(process))
    }

    pub fn state(&self) -> Result<ProcessState> {
        ProcessState::of(self.0.id())
    }
}

impl Client {
    pub fn start(host: &Host, server: &Host) -> Result<Self> {
        let [lines, datagrams] = [LINES_PORT, DATAGRAMS_PORT].map(|port| port.to_string());
        Ok(Self(start(host, "ask", &[server.ipv4.to_string(), lines, datagrams])?))
    }

    /// Ends the client. Returns the lines and the datagrams that came back, none of which may be
    /// missing.
    pub fn finish(mut self) -> Result<[u64; 2]> {
        drop(self.0.child().stdin.take());
        let mut output = self.0.child().stdout.take().context("no output")?;
        let mut text = String::new();
        output.read_to_string(&mut text)?;
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        let counts = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        counts.ok_or_else(|| anyhow!("the client under atp-run failed: see its error above"))
    }
}

/// Starts the program under `atp-run`, which lies beside the daemon.
fn start(host: &Host, role: &str, words: &[String]) -> Result<Process> {
    let folder = testbed::program()?.parent().map(PathBuf::from).context("no folder")?;
    let python = env::var_os("ATP_PYTHON").unwrap_or_else(|| OsString::from("python3"));
    let mut command: Command = host.namespace.command(folder.join("atp-run"));
    command.arg("--map").arg(format!("{LINES_PORT}=tcp:lines,msr:1,atp:{ATP_LINES_PORT}"));
    command.arg("--map").arg(format!("{DATAGRAMS_PORT}=msr:1,atp:{ATP_DATAGRAMS_PORT}"));
    command.arg("--library").arg(folder.join("libatp_run.so"));
    command.arg("--").arg(python).args(["-c", PROGRAM, role]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Process::spawn(command, Signal::SIGKILL)
}
