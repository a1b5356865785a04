//! Programs in the background that don't outlive their test.

use super::{PATIENCE, wait_for};
use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs::File,
    os::unix::fs::FileExt,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A running program. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: File,
    stderr: File,
}

/// What is left of one.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote to standard output.
    pub stdout: String,
    /// All that it wrote to standard error.
    pub stderr: String,
}

impl Process {
    /// Starts a program; its output goes to files that have no names.
    pub fn spawn(name: &str, mut command: Command) -> Result<Self> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { name: name.into(), child, stdout, stderr })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends by itself, successfully.
    pub fn success(self) -> Result<Finished> {
        let name = self.name.clone();
        let finished = self.end(PATIENCE)?;
        if !finished.status.success() {
            bail!("{name} failed ({}): {}", finished.status, finished.stderr.trim());
        }
        Ok(finished)
    }

    /// Waits until it ends by itself, within `limit`.
    pub fn end(mut self, limit: Duration) -> Result<Finished> {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                let (name, limit) = (&self.name, limit.as_secs_f64());
                bail!("{name} did not end within {limit} s; its words: {}", self.stderr()?);
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ok(Finished { status, stdout: self.stdout()?, stderr: self.stderr()? })
    }

    /// Waits until it has said `words` on standard error.
    pub fn wait_until_it_says(&mut self, words: &str) -> Result<()> {
        let what = format!("{} to say {words:?}", self.name);
        wait_for(&what, || {
            let said = self.stderr()?;
            if said.contains(words) {
                return Ok(Some(()));
            }
            match self.child.try_wait()? {
                Some(status) => bail!("{} ended ({status}): {}", self.name, said.trim()),
                None => Ok(None),
            }
        })
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), signal).context("kill")
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> Result<String> {
        whole(&self.stdout)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> Result<String> {
        whole(&self.stderr)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The file's content, without moving the position that the program writes at.
fn whole(file: &File) -> Result<String> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
