//! Says for how long the control loop stood still, and what its thread waited for.

use std::{
    fs, io,
    time::{Duration, Instant},
};

/// A late tick that is worth a line in the log. Clients wait for replies for ten seconds.
const STALL: Duration = Duration::from_secs(1);
/// The time between two looks at what the thread did.
const LOOK: Duration = Duration::from_secs(1);

/// Compares the ends of ticks with the clock.
pub struct Stalls {
    looked: Instant,
    /// `None` if the kernel doesn't count (`CONFIG_SCHED_INFO`).
    at_look: Option<ThreadTimes>,
}

impl Stalls {
    /// From now on.
    pub fn new() -> Self {
        Self { looked: Instant::now(), at_look: ThreadTimes::read().ok() }
    }

    /// Logs a tick that was `late` by [`STALL`] or more.
    pub fn on_tick(&mut self, late: Duration) {
        let time = self.looked.elapsed();
        if late >= STALL {
            let did = self.at_look.zip(ThreadTimes::read().ok()).map_or_else(
                || "the kernel doesn't say what its thread did".into(),
                |(before, now)| now.since(before).describe(time),
            );
            tracing::warn!("the control loop stood still for {:.1} s: {did}", late.as_secs_f64());
        }
        if time >= LOOK {
            *self = Self::new();
        }
    }
}

/// The times of a thread since its start.
#[derive(Clone, Copy)]
struct ThreadTimes {
    ran: Duration,
    waited_for_processor: Duration,
}

impl ThreadTimes {
    fn read() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/thread-self/schedstat")?;
        Self::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut times = text.split_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
        let (ran, waited_for_processor) = (times.next()?.ok()?, times.next()?.ok()?);
        Some(Self { ran, waited_for_processor })
    }

    fn since(self, before: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(before.ran),
            waited_for_processor: self
                .waited_for_processor
                .saturating_sub(before.waited_for_processor),
        }
    }

    fn describe(self, time: Duration) -> String {
        let asleep = time.saturating_sub(self.ran).saturating_sub(self.waited_for_processor);
        format!(
            "in the last {:.1} s its thread ran for {:.1} s, waited for a processor for {:.1} s, \
             and slept in the kernel or was stopped for {:.1} s",
            time.as_secs_f64(),
            self.ran.as_secs_f64(),
            self.waited_for_processor.as_secs_f64(),
            asleep.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describe__adds_up() {
        let before = ThreadTimes::parse("1000000000 500000000 7\n").unwrap();
        let now = ThreadTimes::parse("1200000000 8500000000 9\n").unwrap();
        assert_eq!(
            now.since(before).describe(Duration::from_secs(10)),
            "in the last 10.0 s its thread ran for 0.2 s, waited for a processor for 8.0 s, and \
             slept in the kernel or was stopped for 1.8 s"
        );
        assert!(ThreadTimes::parse("").is_none());
        assert!(ThreadTimes::parse("1 x 2").is_none());
    }
}
