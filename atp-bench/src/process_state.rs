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
    fn resident_kib__of_this_process() {
        assert!(resident_kib(std::process::id()).unwrap() > 100);
        assert!(status_number(std::process::id(), "NoSuchName:").is_err());
    }
}
