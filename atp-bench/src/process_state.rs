//! Numbers of a process, from /proc.

use std::fs;

use anyhow::{Context, Result};

/// A number of `/proc/PID/status`. `name` is as there, with its colon.
pub fn status_number(process: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
    number_in(&text, name).with_context(|| format!("{path} has no number {name}"))
}

/// The memory of a process that is in RAM, KiB.
pub fn resident_kib(process: u32) -> Result<u64> {
    status_number(process, "VmRSS:")
}

/// The processor time of a process, in the user's code and in the kernel, of all its threads.
pub fn processor_s(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
    let ticks = ticks_in(&text).with_context(|| format!("{path} holds {text:?}"))?;
    // SAFETY: the call reads a constant of the system.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks as f64 / ticks_per_s.max(1) as f64)
}

/// `utime` and `stime`, the fields 14 and 15. The second field is a name in parentheses, which may
/// hold anything.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

fn number_in(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_in__is_that_of_the_line() {
        let status = "Name:\tVmRSS\nVmRSS:\t   17920 kB\nThreads:\t5\n";
        assert_eq!(number_in(status, "VmRSS:"), Some(17_920));
        assert_eq!(number_in(status, "Threads:"), Some(5));
        assert_eq!(number_in(status, "VmSize:"), None);
    }

    #[test]
    fn ticks_in__are_of_the_user_and_of_the_kernel() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 90 0 0 0 31 11 5 6 20 0 1 0";
        assert_eq!(ticks_in(stat), Some(42));
        assert_eq!(ticks_in("7 (a) S 1"), None);
        assert!(processor_s(std::process::id()).unwrap() >= 0.0);
    }

    #[test]
    fn resident_kib__of_this_process() {
        assert!(resident_kib(std::process::id()).unwrap() > 100);
        assert!(status_number(std::process::id(), "NoSuchName:").is_err());
    }
}
