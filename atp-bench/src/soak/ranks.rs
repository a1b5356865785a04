//! Two ranks of a collective, beside strangers that know its addresses and the ids of its jobs.

use std::{
    fs::{self, Permissions},
    io::Read,
    net::{Ipv4Addr, SocketAddrV4},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use approxlib::Job;
use serde::Deserialize;
use tempfile::TempDir;
use testbed::{Daemon, Host, Process, Signal, wait_for};

use super::host_state::ProcessState;

/// The memory of a rank's places for jobs, which strangers fill slowly, KiB: 16,384 of 8 KiB.
pub const PLACES_KIB: u64 = 128 * 1024;
/// The program, for Python.
const PROGRAM: &str = include_str!("rank.py");
/// The limit of a stranger's wait for the rank.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);
/// Messages of a stranger's job.
const MESSAGES: u32 = 500;

/// The running ranks.
pub struct Ranks {
    /// The address of rank 0.
    pub receiver: SocketAddrV4,
    /// The id of a job that rank 0 expects from rank 1.
    job: u32,
    ranks: [Process; 2],
    _store: TempDir,
}

/// The results of both ranks.
#[derive(Clone, Copy)]
pub struct Reduced {
    /// Arrays that were reduced.
    pub steps: u64,
    /// Messages of strangers under the job ids of ranks, which were refused.
    pub refused: u64,
}

impl Ranks {
    /// Starts a rank on each host, by user `uid`, and waits until both know each other.
    pub fn start(hosts: [(&Host, &Daemon); 2], uid: u32) -> Result<Self> {
        let store = tempfile::tempdir()?;
        fs::set_permissions(store.path(), Permissions::from_mode(0o777))?;
        let start = |number: usize| {
            let (host, daemon) = hosts[number];
            let mut command = host.namespace.command(testbed::collective_python()?);
            command.args(["-c", PROGRAM, &number.to_string(), &host.ipv4.to_string()]);
            command.arg(store.path()).arg(daemon.socket()).arg(uid.to_string());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            Process::spawn(command, Signal::SIGKILL)
        };
        let ranks = [start(0)?, start(1)?];
        let (_, port, _) = published::<(Ipv4Addr, u16, u32)>(&store, "rank.0")?;
        let Session { first_job } = published(&store, "session")?;
        published::<serde_json::Value>(&store, "rank.1")?;
        let receiver = SocketAddrV4::new(hosts[0].0.ipv4, port);
        Ok(Self { receiver, job: first_job + 1, ranks, _store: store })
    }

    pub fn states(&self) -> Result<[ProcessState; 2]> {
        let [a, b] = self.ranks.each_ref().map(|rank| ProcessState::of(rank.id()));
        Ok([a?, b?])
    }

    /// Sends rank 0 messages under the id of rank 1's job. The ranks may end it.
    pub fn send_as_stranger(&self) -> Result<u64> {
        let builder = Job::builder().id(self.job).msr(0.5).control_socket(None);
        let builder = builder.messages(MESSAGES).peer_timeout(PEER_TIMEOUT);
        let mut job = builder.connect(self.receiver)?;
        let sent = (0..MESSAGES).filter(|_| job.send(&[9; 1_200]).is_ok()).count();
        drop(job.finish());
        Ok(sent as u64)
    }

    /// Ends the ranks.
    pub fn finish(mut self) -> Result<Reduced> {
        drop(self.ranks[0].child().stdin.take());
        let mut total = Reduced { steps: 0, refused: 0 };
        for rank in &mut self.ranks {
            let mut output = rank.child().stdout.take().context("no output")?;
            let mut text = String::new();
            output.read_to_string(&mut text)?;
            let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
            let Ok([steps, refused]) = numbers.as_deref() else {
                return Err(anyhow!("a rank of the collective failed: see its error above"));
            };
            total = Reduced { steps: *steps, refused: total.refused + refused };
        }
        Ok(total)
    }
}

#[derive(Deserialize)]
struct Session {
    first_job: u32,
}

/// A value that a rank published in the store.
fn published<T: for<'a> Deserialize<'a>>(store: &TempDir, key: &str) -> Result<T> {
    let file = store.path().join(format!("atp.collective.default.{key}"));
    let text = wait_for("a rank", || Ok(fs::read(&file).ok()))?;
    Ok(serde_json::from_slice(&text)?)
}
