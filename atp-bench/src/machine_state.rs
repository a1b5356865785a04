//! Numbers of the whole machine, from /proc.

use std::fs;

use anyhow::{Context, Result};

/// The kernel's load average over the last minute.
pub fn machine_load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let first = text.split_whitespace().next().context("an empty /proc/loadavg")?;
    Ok(first.parse()?)
}

/// The time of all processors since the machine's start, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    idle: u64,
    all: u64,
}

impl ProcessorTime {
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        Self::parse(&text)
            .with_context(|| format!("/proc/stat begins with {:?}", text.lines().next()))
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal. Later numbers are
    /// parts of the first two.
    fn parse(stat: &str) -> Option<Self> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let ticks: Vec<u64> = numbers.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [_, _, _, idle, iowait, ..] = ticks[..] else { return None };
        Some(Self { idle: idle + iowait, all: ticks.iter().sum() })
    }

    /// The share of the time since `before` in which processors had nothing to do; `None` within a
    /// tick.
    pub fn idle_share_since(self, before: Self) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        (all > 0).then(|| self.idle.saturating_sub(before.idle) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse__waiting_for_a_disk_is_idle() {
        let stat = "cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ProcessorTime::parse(stat), Some(ProcessorTime { idle: 450, all: 531 }));
        assert_eq!(ProcessorTime::parse("cpu  10 20 30\n"), None);
        assert_eq!(ProcessorTime::parse("intr 1 2 3 4 5 6 7 8\n"), None);
        ProcessorTime::now().unwrap();
    }

    #[test]
    fn idle_share_since__of_all_processors() {
        let (before, after) =
            (ProcessorTime { idle: 100, all: 200 }, ProcessorTime { idle: 130, all: 400 });
        assert_eq!(after.idle_share_since(before), Some(0.15));
        assert_eq!(after.idle_share_since(after), None);
    }
}
