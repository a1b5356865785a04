//! The processor time of a process, all its threads together.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::super::library::Clock;

/// The share of a core that a process uses during `work`. Threads that end meanwhile don't count.
pub fn share(process: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (started, before_s) = (Instant::now(), cpu_s(process)?);
    work()?;
    Ok((cpu_s(process)? - before_s).max(0.0) / started.elapsed().as_secs_f64())
}

/// The share of a core that a process uses in a time in which the benchmark does nothing.
pub fn share_for(process: u32, time: Duration) -> Result<f64> {
    share(process, || {
        thread::sleep(time);
        Ok(())
    })
}

/// Seconds of processor time of the current threads of a process.
fn cpu_s(process: u32) -> Result<f64> {
    let mut total_s = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?.file_name().to_string_lossy().parse()?;
        // A thread may have ended since it was listed.
        total_s += Clock::of([thread]).read_s().unwrap_or(0.0);
    }
    Ok(total_s)
}
