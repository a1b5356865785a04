//! Processes of `atp-kafka`.

use anyhow::{Context, Result, bail, ensure};
use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The longest time for anything that must happen.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A process of `atp-kafka`. It is killed when this is dropped.
pub struct Bridge {
    child: Child,
    log: PathBuf,
}

impl Bridge {
    /// Starts the program.
    pub fn start(folder: &std::path::Path, name: &str, arguments: &[&str]) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_atp-kafka"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
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

    /// The lines that it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
