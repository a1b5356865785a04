//! Processor time outside of the workers: the daemons, and the kernel's ksoftirqd threads.

use std::fs;

use anyhow::{Context, Result, bail};

/// The processor time of threads that live as long as the benchmark.
#[derive(Debug)]
pub struct Clock {
    threads: Vec<u32>,
}

impl Clock {
    /// The clock of single-threaded processes.
    pub fn of(threads: impl IntoIterator<Item = u32>) -> Self {
        Self { threads: threads.into_iter().collect() }
    }

    /// The clock of the kernel's ksoftirqd threads. It includes other users of the network.
    pub fn of_softirq_threads() -> Result<Self> {
        let mut threads = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process may end in the meantime; ksoftirqd threads don't.
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if comm.starts_with("ksoftirqd/") {
                threads.push(pid);
            }
        }
        Ok(Self { threads })
    }

    /// Seconds of processor time so far.
    pub fn read_s(&self) -> Result<f64> {
        let mut total_ns = 0;
        for thread in &self.threads {
            let path = format!("/proc/{thread}/schedstat");
            let text = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
            total_ns += on_cpu_ns(&text).with_context(|| format!("{path} holds {text:?}"))?;
        }
        Ok(total_ns as f64 / 1e9)
    }
}

/// The time on a processor, the first of three numbers.
fn on_cpu_ns(schedstat: &str) -> Result<u64> {
    match schedstat.split_whitespace().next() {
        Some(first) => Ok(first.parse()?),
        None => bail!("no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_cpu_ns__is_the_first_number() {
        assert_eq!(on_cpu_ns("54931 12 1\n").unwrap(), 54_931);
        assert!(on_cpu_ns("").is_err() && on_cpu_ns("x 1 2").is_err());
    }
}
