//! Workers: child processes inside a host, which print lines and are killed when their handle is
//! dropped.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use testbed::{Host, Process, Signal};

/// A process of `bench worker`.
pub struct Worker {
    process: Process,
    lines: BufReader<ChildStdout>,
    role: &'static str,
}

impl Worker {
    /// Starts this program as a worker, inside a host.
    pub fn start(
        host: &Host,
        cpu: Option<usize>,
        role: &'static str,
        args: &[String],
    ) -> Result<Self> {
        let command = host.namespace.command(std::env::current_exe()?);
        Self::spawn(Self::with_args(command, cpu, role, args), role)
    }

    /// The command line of a worker, after the program.
    pub fn with_args(
        mut command: Command,
        cpu: Option<usize>,
        role: &str,
        args: &[String],
    ) -> Command {
        command.args(["bench", "worker"]);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        command.arg(role).args(args);
        command
    }

    /// Starts a program that prints lines as a worker does.
    pub fn spawn(mut command: Command, role: &'static str) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::spawn(command, Signal::SIGKILL)?;
        let lines = process.child().stdout.take().context("its output was piped")?;
        Ok(Self { process, lines: BufReader::new(lines), role })
    }

    /// Reads the worker's next line.
    pub fn line<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.process.child().wait()?;
            bail!("{} ended without a result ({status})", self.role);
        }
        serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.role))
    }
}
