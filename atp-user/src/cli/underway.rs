//! The jobs that have begun at a receiver and not ended.

use approxlib::Event;
use std::{
    collections::{HashMap, hash_map::Entry},
    net::SocketAddr,
    time::{Duration, Instant},
};

/// The most jobs that are awaited. A stranger may begin any number.
const JOBS_MAX: usize = 1_024;

/// Jobs that have begun and not ended, each with the time of its last event.
///
/// A stranger's job may end first, and make up the number of senders that the command waits for.
/// The jobs under way then go on to their ends.
///
/// A host that forges a sender's address can end a job of the same name. Events don't tell the two
/// apart, their counts do: a job is under way as long as there were more messages than those of the
/// windows that ended.
pub struct Underway {
    jobs: HashMap<(SocketAddr, u32), Begun>,
    /// Jobs without an event for so long don't count.
    silence_max: Duration,
    takes_no_more: bool,
}

/// The messages and the last event of one job from one address.
struct Begun {
    last_event: Instant,
    /// Messages, less those of the windows that ended.
    messages: i64,
}

impl Underway {
    /// No jobs.
    pub fn new(silence_max: Duration) -> Self {
        Self { jobs: HashMap::new(), silence_max, takes_no_more: false }
    }

    /// Notes an event of a job.
    pub fn on_event(&mut self, event: &Event, now: Instant) {
        let (source, job, messages, is_end) = match event {
            Event::Started { source, job, .. } | Event::TermsChanged { source, job, .. } => {
                (source, job, 0, false)
            }
            Event::Message { source, job, .. } => (source, job, 1, false),
            Event::WindowEnded { source, job, summary } => {
                (source, job, -i64::from(summary.delivered), false)
            }
            Event::Finished { source, job, summary } => {
                (source, job, -i64::from(summary.delivered), true)
            }
        };
        if self.jobs.len() >= JOBS_MAX {
            self.forget_silent(now);
        }
        let has_room = !self.takes_no_more && self.jobs.len() < JOBS_MAX;
        let mut begun = match self.jobs.entry((*source, *job)) {
            Entry::Occupied(begun) => begun,
            Entry::Vacant(_) if !has_room => return,
            Entry::Vacant(new) => new.insert_entry(Begun { last_event: now, messages: 0 }),
        };
        begun.get_mut().last_event = now;
        begun.get_mut().messages += messages;
        if is_end && begun.get().messages <= 0 {
            begun.remove();
        }
    }

    /// Whether a job is still under way. Jobs that begin after the first call don't count:
    /// strangers could begin one after the other.
    pub fn any_left(&mut self, now: Instant) -> bool {
        self.takes_no_more = true;
        self.forget_silent(now);
        !self.jobs.is_empty()
    }

    fn forget_silent(&mut self, now: Instant) {
        self.jobs.retain(|_, begun| now.duration_since(begun.last_event) < self.silence_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::{Summary, Terms};

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn source(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    fn started(port: u16) -> Event {
        Event::Started { source: source(port), job: 7, terms: Terms::default() }
    }

    #[test]
    fn any_left__until_each_job_ends_or_falls_silent() {
        let (mut underway, now) = (Underway::new(TIMEOUT), Instant::now());
        underway.on_event(&started(1), now);
        underway.on_event(&started(2), now + TIMEOUT / 2);
        assert!(underway.any_left(now + TIMEOUT / 2));
        let finished = Event::Finished { source: source(2), job: 7, summary: Summary::default() };
        underway.on_event(&finished, now + TIMEOUT / 2);
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

    /// The forged job has two messages and an end. The honest one has had three messages so far.
    #[test]
    fn on_event__tells_a_forged_end_from_that_of_the_job() {
        let (mut underway, now) = (Underway::new(TIMEOUT), Instant::now());
        let (source, job) = (source(1), 7);
        let message =
            Event::Message { source, job, window: 0, group: 0, message: 0, data: Vec::new() };
        let finished = |delivered| {
            let summary = Summary { delivered, ..Summary::default() };
            Event::Finished { source, job, summary }
        };
        (0..5).for_each(|_| underway.on_event(&message, now));
        underway.on_event(&finished(2), now);
        assert!(underway.any_left(now));
        underway.on_event(&message, now);
        underway.on_event(&finished(4), now);
        assert!(!underway.any_left(now));
    }

    #[test]
    fn on_event__awaits_a_bounded_number() {
        let (mut underway, now) = (Underway::new(TIMEOUT), Instant::now());
        for port in 0..2 * JOBS_MAX as u16 {
            underway.on_event(&started(port), now);
        }
        assert_eq!(underway.jobs.len(), JOBS_MAX);
        // Those that fell silent make room.
        underway.on_event(&started(u16::MAX), now + TIMEOUT);
        assert!(underway.any_left(now + TIMEOUT) && underway.jobs.len() == 1);
    }
}
