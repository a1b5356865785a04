//! Processes of `atp-kafka`.

use anyhow::{Context, Result, bail, ensure};
use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The longest time for anything that must happen.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A process of `atp-kafka`. It is killed when this is dropped.
pub struct Bridge {
    child: Child,
    log: PathBuf,
}

impl Bridge {
    /// Starts the program.
    pub fn start(folder: &std::path::Path, name: &str, arguments: &[&str]) -> Result<Self> {
        Self::start_with(folder, name, arguments, &[])
    }

    /// Starts the program with these variables in its environment.
    pub fn start_with(
        folder: &std::path::Path,
        name: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_atp-kafka"));
        command
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command.stderr(std::fs::File::create(&log)?);
        let child = command.spawn().context("can't start atp-kafka")?;
        Ok(Self { child, log })
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "{status}: {}", self.log());
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("it doesn't end: {}", self.log());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has logged this text.
    #[allow(dead_code, reason = "each test program uses some of these")]
    pub fn wait_for_log(&self, text: &str, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !self.log().contains(text) {
            ensure!(Instant::now() < deadline, "it doesn't say {text:?}: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends it as an operator does.
    pub fn terminate(&mut self) -> Result<()> {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        self.wait()
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends with an error, and returns what it has logged.
    pub fn wait_for_failure(&mut self) -> Result<String> {
        let deadline = Instant::now() + TIMEOUT;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "it doesn't end: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
        ensure!(!self.child.wait()?.success(), "it ends well: {}", self.log());
        Ok(self.log())
    }

    /// The lines that it has logged.
    pub fn log(&self) -> String {
        // librdkafka's own lines may have other bytes.
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

/// The output of a process of `atp-kafka`, and how it ended.
pub struct Ended {
    pub is_good: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program to its end, with these variables in its environment. It fails if that takes
/// longer than [`TIMEOUT`].
pub fn run_to_end(
    folder: &std::path::Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<Ended> {
    let files = ["stdout", "stderr"].map(|name| folder.join(name));
    let [out, err] = files.each_ref().map(std::fs::File::create);
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-kafka"));
    command.args(arguments).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(out?).stderr(err?);
    let mut child = command.spawn().context("can't start atp-kafka")?;
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                child.kill()?;
                child.wait()?;
                bail!("{arguments:?} don't end: {}", std::fs::read_to_string(&files[1])?);
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    let [stdout, stderr] = files.each_ref().map(std::fs::read_to_string);
    Ok(Ended { is_good: status.success(), stdout: stdout?, stderr: stderr? })
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
