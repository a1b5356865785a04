//! The jobs that have begun at a receiver and not ended, and those that have.

use approxlib::{Event, Summary, Terms};
use std::{
    collections::{HashMap, hash_map::Entry},
    time::{Duration, Instant},
};

/// The most jobs that are awaited. A stranger may begin any number.
const JOBS_MAX: usize = 1_024;
/// The longest time without an event of a job that is awaited besides the wanted ones.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// The longest time for which such a job is awaited.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Decides when a receiver of `wanted` senders has all of them.
///
/// A stranger's job may end first, and make up the number of senders that the command waits for.
/// The jobs that have begun by then go on to their ends. A stranger's job may also never end, so
/// each has a limit: twice the time that its other messages take at its pace so far, and `timeout`.
pub struct Underway {
    /// By their runs: a job of the same name, from a host that forges the address, is another one.
    jobs: HashMap<u64, Begun>,
    wanted: usize,
    timeout: Duration,
    /// The time after which jobs that ended early count.
    early_wait: Duration,
    /// Jobs that reached their MSRs.
    completed: usize,
    /// All ends, and the time of the last one that was wanted.
    ended: usize,
    last_wanted: Option<Instant>,
    takes_no_more: bool,
}

/// The messages and the times of one job.
struct Begun {
    began: Instant,
    last_event: Instant,
    /// Messages, less those of the windows that ended.
    messages: i64,
    /// N, once its terms have it.
    announced: Option<i64>,
    /// It isn't awaited any longer.
    until: Option<Instant>,
}

impl Underway {
    /// No jobs.
    pub fn new(wanted: usize, timeout: Duration, early_wait: Duration) -> Self {
        Self {
            jobs: HashMap::new(),
            wanted,
            timeout,
            early_wait,
            completed: 0,
            ended: 0,
            last_wanted: None,
            takes_no_more: false,
        }
    }

    /// The longest time without an event of a job that is awaited besides the wanted ones.
    pub fn silence_max(&self) -> Duration {
        self.timeout.min(SILENCE_MAX)
    }

    /// Notes an event of a job. `ends_by_plan`: this receiver asked the senders for the end.
    pub fn on_event(&mut self, event: &Event, ends_by_plan: bool, now: Instant) {
        let (run, messages, end) = match event {
            Event::Started { run, .. } | Event::TermsChanged { run, .. } => (run, 0, None),
            Event::Message { run, .. } => (run, 1, None),
            Event::WindowEnded { run, summary, .. } => (run, -i64::from(summary.delivered), None),
            Event::Finished { run, summary, .. } => (run, 0, Some(summary)),
        };
        if let Some(summary) = end {
            self.on_end(summary, ends_by_plan, now);
            self.jobs.remove(run);
            return;
        }
        if self.jobs.len() >= JOBS_MAX {
            self.forget_silent(now);
        }
        let has_room = !self.takes_no_more && self.jobs.len() < JOBS_MAX;
        let begun = match self.jobs.entry(*run) {
            Entry::Occupied(begun) => begun.into_mut(),
            Entry::Vacant(_) if !has_room => return,
            Entry::Vacant(new) => new.insert(Begun::new(now)),
        };
        begun.last_event = now;
        begun.messages += messages;
        if let Event::Started { terms, .. } | Event::TermsChanged { terms, .. } = event {
            begun.announced = announced(terms);
        }
    }

    fn on_end(&mut self, summary: &Summary, ends_by_plan: bool, now: Instant) {
        self.ended += 1;
        self.completed += usize::from(summary.complete || ends_by_plan);
        if self.ended == self.wanted {
            self.last_wanted = Some(now);
        }
    }

    /// The number of jobs that ended, also early.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// Whether the wanted number of jobs have reached their MSRs. Jobs that ended early, which a
    /// stranger may have forged, make up the number after `early_wait` only.
    pub fn is_enough(&self, now: Instant) -> bool {
        let waited = |last| now.duration_since(last) >= self.early_wait;
        self.completed >= self.wanted || self.last_wanted.is_some_and(waited)
    }

    /// The number of jobs that are still awaited. Jobs that begin after the first call don't count:
    /// strangers could begin one after the other.
    pub fn left(&mut self, now: Instant) -> usize {
        if !self.takes_no_more {
            self.takes_no_more = true;
            for begun in self.jobs.values_mut() {
                begun.until = Some(now + self.timeout + begun.time_left(now));
            }
        }
        self.forget_silent(now);
        let awaited = |begun: &&Begun| begun.until.is_none_or(|until| now < until);
        self.jobs.values().filter(awaited).count()
    }

    /// The number of jobs that go on and aren't awaited any longer.
    pub fn go_on(&self) -> usize {
        self.jobs.len()
    }

    fn forget_silent(&mut self, now: Instant) {
        let silence_max = self.silence_max();
        self.jobs.retain(|_, begun| now.duration_since(begun.last_event) < silence_max);
    }
}

impl Begun {
    fn new(now: Instant) -> Self {
        Self { began: now, last_event: now, messages: 0, announced: None, until: None }
    }

    /// Twice the time that its other messages take at its pace so far. A job that hasn't announced
    /// its N counts as if half of its messages were there.
    fn time_left(&self, now: Instant) -> Duration {
        let arrived = self.messages.max(1);
        let left = self.announced.map_or(arrived, |announced| (announced - arrived).max(0));
        let ran_s = now.duration_since(self.began).as_secs_f64();
        let left_s = 2.0 * ran_s * left as f64 / arrived as f64;
        Duration::from_secs_f64(left_s.min(WAIT_MAX.as_secs_f64()))
    }
}

/// N of all groups, if the sender knows it. Without groups, no terms have arrived.
fn announced(terms: &Terms) -> Option<i64> {
    let sum = terms.groups.iter().map(|group| group.messages.map(i64::from)).sum();
    if terms.groups.is_empty() { None } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::GroupTerms;
    use std::net::SocketAddr;

    const TIMEOUT: Duration = Duration::from_secs(60);
    const WANTED: usize = 1;

    fn underway() -> (Underway, Instant) {
        (Underway::new(WANTED, TIMEOUT, TIMEOUT), Instant::now())
    }

    fn source() -> SocketAddr {
        ([10, 0, 0, 1], 1).into()
    }

    fn started(run: u64) -> Event {
        Event::Started { source: source(), job: 7, run, terms: Terms::default() }
    }

    fn announcing(run: u64, messages: u32) -> Event {
        let group = GroupTerms { messages: Some(messages), ..GroupTerms::default() };
        let terms = Terms { groups: vec![group], ..Terms::default() };
        Event::Started { source: source(), job: 7, run, terms }
    }

    fn message(run: u64) -> Event {
        let data = Vec::new();
        Event::Message { source: source(), job: 7, run, window: 0, group: 0, message: 0, data }
    }

    fn finished(run: u64, delivered: u32, complete: bool) -> Event {
        let summary = Summary { delivered, complete, ..Summary::default() };
        Event::Finished { source: source(), job: 7, run, summary }
    }

    #[test]
    fn left__until_each_job_ends_or_falls_silent() {
        let (mut underway, now) = underway();
        underway.on_event(&started(1), false, now);
        let later = now + SILENCE_MAX / 2;
        underway.on_event(&started(2), false, later);
        assert_eq!(underway.left(later), 2);
        underway.on_event(&finished(2, 0, true), false, later);
        assert_eq!(underway.left(later), 1);
        assert_eq!(underway.left(now + SILENCE_MAX), 0);
    }

    #[test]
    fn left__takes_no_job_that_begins_later() {
        let (mut underway, now) = underway();
        underway.on_event(&started(1), false, now);
        assert_eq!(underway.left(now), 1);
        underway.on_event(&started(2), false, now + SILENCE_MAX);
        assert_eq!(underway.left(now + SILENCE_MAX), 0);
    }

    /// The job has sent a tenth of its messages in its first second, and keeps its pace.
    #[test]
    fn left__a_job_that_keeps_its_pace_ends() {
        let (mut underway, now) = underway();
        underway.on_event(&announcing(1, 2_000), false, now);
        let second = Duration::from_secs(1);
        (0..10).for_each(|_| underway.on_event(&message(1), false, now + second));
        for elapsed in 1..=199 {
            assert_eq!(underway.left(now + elapsed * second), 1, "after {elapsed} s");
            (0..10).for_each(|_| underway.on_event(&message(1), false, now + elapsed * second));
        }
    }

    /// A message a second, without an end: one job announces no N, the other one the largest.
    #[test]
    fn left__not_forever_for_senders_that_go_on() {
        let (mut underway, now) = underway();
        underway.on_event(&started(1), false, now);
        underway.on_event(&announcing(2, u32::MAX), false, now);
        let second = Duration::from_secs(1);
        let mut send = |elapsed: u32| {
            underway.on_event(&message(1), false, now + elapsed * second);
            underway.on_event(&message(2), false, now + elapsed * second);
            match elapsed {
                0..10 => 2,
                _ => underway.left(now + elapsed * second),
            }
        };
        let left: Vec<_> = (0..4_000).map(&mut send).collect();
        // Ten seconds of both; then the timeout, and twice these ten seconds.
        assert_eq!((left[89], left[91]), (2, 1), "the job without an N");
        assert_eq!((left[3_669], left[3_671]), (1, 0), "the job with the largest N");
        assert_eq!(underway.go_on(), 2);
    }

    #[test]
    fn on_event__a_forged_end_is_not_that_of_the_job() {
        let (mut underway, now) = underway();
        underway.on_event(&message(1), false, now);
        underway.on_event(&message(2), false, now);
        underway.on_event(&finished(2, 1, true), false, now);
        assert_eq!(underway.left(now), 1);
        underway.on_event(&finished(1, 1, true), false, now);
        assert_eq!(underway.left(now), 0);
    }

    #[test]
    fn on_event__awaits_a_bounded_number() {
        let (mut underway, now) = underway();
        for run in 0..2 * JOBS_MAX as u64 {
            underway.on_event(&started(run), false, now);
        }
        assert_eq!(underway.jobs.len(), JOBS_MAX);
        // Those that fell silent make room.
        underway.on_event(&started(u64::MAX), false, now + SILENCE_MAX);
        assert_eq!((underway.left(now + SILENCE_MAX), underway.jobs.len()), (1, 1));
    }

    #[test]
    fn is_enough__not_by_a_job_that_ended_early() {
        let (mut underway, now) = underway();
        underway.on_event(&finished(1, 0, false), false, now);
        assert!(!underway.is_enough(now + TIMEOUT / 2), "a canceled job took the place");
        assert!(underway.is_enough(now + TIMEOUT));
        underway.on_event(&finished(2, 10, true), false, now);
        assert!(underway.is_enough(now));
    }

    #[test]
    fn is_enough__by_a_job_that_this_receiver_ended() {
        let (mut underway, now) = underway();
        underway.on_event(&finished(1, 5, false), true, now);
        assert!(underway.is_enough(now));
    }
}
