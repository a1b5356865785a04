//! The jobs that have begun at a receiver and not ended.

use approxlib::Event;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The most jobs that are awaited. A stranger may begin any number.
const JOBS_MAX: usize = 1_024;

/// Jobs that have begun and not ended, each with the time of its last event.
///
/// A stranger's job may end first, and make up the number of senders that the command waits for.
/// The jobs under way then go on to their ends.
pub struct Underway {
    /// The last event of each run.
    runs: HashMap<u64, Instant>,
    /// Jobs without an event for so long don't count.
    silence_max: Duration,
    takes_no_more: bool,
}

impl Underway {
    /// No jobs.
    pub fn new(silence_max: Duration) -> Self {
        Self { runs: HashMap::new(), silence_max, takes_no_more: false }
    }

    /// Notes an event of a job.
    pub fn on_event(&mut self, event: &Event, now: Instant) {
        let run = match event {
            Event::Started { run, .. }
            | Event::TermsChanged { run, .. }
            | Event::Message { run, .. }
            | Event::WindowEnded { run, .. } => run,
            Event::Finished { run, .. } => {
                self.runs.remove(run);
                return;
            }
        };
        if self.runs.len() >= JOBS_MAX {
            self.forget_silent(now);
        }
        let has_room = !self.takes_no_more && self.runs.len() < JOBS_MAX;
        if has_room || self.runs.contains_key(run) {
            self.runs.insert(*run, now);
        }
    }

    /// Whether a job is still under way. Jobs that begin after the first call don't count:
    /// strangers could begin one after the other.
    pub fn any_left(&mut self, now: Instant) -> bool {
        self.takes_no_more = true;
        self.forget_silent(now);
        !self.runs.is_empty()
    }

    fn forget_silent(&mut self, now: Instant) {
        self.runs.retain(|_, last_event| now.duration_since(*last_event) < self.silence_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::{Summary, Terms};

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn started(run: u64) -> Event {
        let source = ([10, 0, 0, 1], 1).into();
        Event::Started { source, job: 7, run, terms: Terms::default() }
    }

    fn finished(run: u64) -> Event {
        let source = ([10, 0, 0, 1], 1).into();
        Event::Finished { source, job: 7, run, summary: Summary::default() }
    }

    #[test]
    fn any_left__until_each_job_ends_or_falls_silent() {
        let (mut underway, now) = (Underway::new(TIMEOUT), Instant::now());
        underway.on_event(&started(1), now);
        underway.on_event(&started(2), now + TIMEOUT / 2);
        assert!(underway.any_left(now + TIMEOUT / 2));
        // A run that ends takes no other one of the same address and job with it.
        underway.on_event(&finished(2), now + TIMEOUT / 2);
        assert!(underway.any_left(now + TIMEOUT / 2));
        assert!(!underway.any_left(now + TIMEOUT));
    }

    #[test]
    fn any_left__takes_no_job_that_begins_later() {
        let (mut underway, now) = (Underway::new(TIMEOUT), Instant::now());
        underway.on_event(&started(1), now);
        assert!(underway.any_left(now));
        underway.on_event(&started(2), now + TIMEOUT);
        assert!(!underway.any_left(now + TIMEOUT));
    }

    #[test]
    fn on_event__awaits_a_bounded_number() {
        let (mut underway, now) = (Underway::new(TIMEOUT), Instant::now());
        for run in 0..2 * JOBS_MAX as u64 {
            underway.on_event(&started(run), now);
        }
        assert_eq!(underway.runs.len(), JOBS_MAX);
        // Those that fell silent make room.
        underway.on_event(&started(u64::MAX), now + TIMEOUT);
        assert!(underway.any_left(now + TIMEOUT) && underway.runs.len() == 1);
    }
}
