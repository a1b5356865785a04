//! The time in which a daemon registers jobs that come at once, each with a connection and a
//! sending socket of its own.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, GroupOpen};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// How many jobs ask at once.
pub const AT_ONCE: usize = 64;
/// The MSR of the jobs, parts per billion.
const MSR: u32 = 900_000_000;

/// A registered job, until it is dropped.
type Registered = (Client, UdpSocket, Vec<OwnedFd>);

/// Registers jobs, whose sockets lead from `from` to `to`, and ends them. Returns the time from the
/// first connection to the last grant.
pub fn register(jobs: u32, socket: &Path, from: Ipv4Addr, to: SocketAddr) -> Result<Duration> {
    raise_descriptor_limit()?;
    let started_jobs = AtomicU32::new(0);
    let started = Instant::now();
    let registered = thread::scope(|scope| {
        let one = || -> Result<Vec<Registered>> {
            let mut own = Vec::new();
            while started_jobs.fetch_add(1, Ordering::Relaxed) < jobs {
                own.push(register_one(socket, from, to)?);
            }
            Ok(own)
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|own| own.map_err(|_| anyhow::anyhow!("a registering thread panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let took = started.elapsed();
    let listed = Client::connect(socket)?.stats()?.jobs.len();
    ensure!(listed == jobs as usize, "the daemon has {listed} jobs instead of {jobs}");
    drop(registered);
    Ok(took)
}

fn register_one(socket: &Path, from: Ipv4Addr, to: SocketAddr) -> Result<Registered> {
    let udp = UdpSocket::bind((from, 0))?;
    udp.connect(to)?;
    let client = Client::connect(socket)?;
    let group = GroupOpen { group: 0, msr_parts_per_billion: MSR, ..GroupOpen::default() };
    let (_, descriptors) = client.sender_open(None, &[group], udp.as_fd())?;
    Ok((client, udp, descriptors.into()))
}

/// A job of this process takes some descriptors, and the usual limit is 1,024.
fn raise_descriptor_limit() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("can't raise the limit of descriptors")
}
