//! The destinations of a process's datagrams: a limited number, with a limited number of threads.
//!
//! A stranger may choose destinations: a program that answers datagrams sends to the addresses from
//! which they seem to come. See `State::may_carry` for the sockets of servers.

use crate::{
    hosts, limit,
    map::Rule,
    outgoing::{Destination, Verdict},
    shared::{Shared, lock},
};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Destinations that are remembered. The one that was used longest ago makes room.
const KNOWN_MAX: usize = 1_024;
/// How long a destination was unused before its thread makes room for another one's.
const IDLE: Duration = Duration::from_secs(10);
/// Probes without an answer for which datagrams wait in an interval. One thread of the program may
/// send to many destinations: a datagram would wait for those before it.
const UNANSWERED_MAX: u32 = 8;
const UNANSWERED_INTERVAL: Duration = Duration::from_secs(60);

type Known = HashMap<SocketAddr, Arc<Destination>>;

#[derive(Default)]
pub struct Destinations {
    known: Mutex<Known>,
    /// Destinations with a thread.
    working: Arc<AtomicUsize>,
    unanswered: Mutex<Unanswered>,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Unanswered {
    since: Option<Instant>,
    count: u32,
}

/// A destination's place among those with a thread.
struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Destinations {
    /// Hands a message to the stream to `to`, if there is one. `from`: the IP address of the
    /// program's socket.
    pub fn offer(
        &self,
        shared: &'static Shared,
        from: Option<IpAddr>,
        to: SocketAddr,
        rule: Rule,
        message: Vec<u8>,
        waits: bool,
    ) -> Verdict {
        let Some(destination) = self.destination(shared, from, to, rule) else {
            return Verdict::Plain;
        };
        if destination.is_probing() && waits && self.may_wait() && !destination.wait_for_probe() {
            self.note_unanswered();
        }
        destination.offer(message, waits)
    }

    /// The destination, with a thread if it needs one and there is a place. `None`: its datagrams
    /// are plain. One lock is held from the look to the start: a destination that was evicted
    /// meanwhile would have a thread that nobody ends.
    fn destination(
        &self,
        shared: &'static Shared,
        from: Option<IpAddr>,
        to: SocketAddr,
        rule: Rule,
    ) -> Option<Arc<Destination>> {
        let mut known = lock(&self.known);
        if self.is_ending.load(Ordering::Relaxed) {
            return None;
        }
        if !known.contains_key(&to) {
            make_room(shared, &mut known);
        }
        let destination =
            known.entry(to).or_insert_with(|| Destination::new(shared, to, rule)).clone();
        if !destination.is_from(from) {
            return None;
        }
        if destination.needs_thread() {
            match self.take_working(shared, &known, to) {
                Some(working) => destination.start(working),
                None => destination.put_off(),
            }
        }
        Some(destination)
    }

    /// Takes a place for a thread. If there is none, the idle destination that was used longest ago
    /// ends its stream, and leaves its place to a later datagram. One host has a share of the
    /// places, and makes room for itself.
    fn take_working(&self, shared: &Shared, known: &Known, to: SocketAddr) -> Option<Working> {
        let (max, host) = (limit::working(), hosts::of(to.ip()));
        let working = || known.iter().filter(|(_, other)| other.is_working());
        let is_of_host = |at: &SocketAddr| hosts::of(at.ip()) == host;
        let share_is_taken =
            working().filter(|(at, _)| is_of_host(at)).count() >= hosts::share(max);
        let take = |working: usize| (working < max && !share_is_taken).then_some(working + 1);
        if self.working.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok() {
            return Some(Working(self.working.clone()));
        }
        let idle = working().filter(|(at, other)| {
            **at != to && other.used().elapsed() >= IDLE && (!share_is_taken || is_of_host(at))
        });
        if let Some((_, oldest)) = idle.min_by_key(|(_, other)| other.used())
            && oldest.end()
        {
            shared.counts.destinations_evicted.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    /// Whether a datagram may wait for a probe.
    fn may_wait(&self) -> bool {
        let mut unanswered = lock(&self.unanswered);
        if unanswered.since.is_none_or(|since| since.elapsed() >= UNANSWERED_INTERVAL) {
            *unanswered = Unanswered::default();
        }
        unanswered.count < UNANSWERED_MAX
    }

    fn note_unanswered(&self) {
        let mut unanswered = lock(&self.unanswered);
        unanswered.since.get_or_insert_with(Instant::now);
        unanswered.count += 1;
    }

    /// Ends the streams after what is queued, until `deadline`. Later datagrams are plain.
    pub fn end_all(&self, deadline: Instant) {
        self.is_ending.store(true, Ordering::Relaxed);
        let all: Vec<_> = lock(&self.known).values().cloned().collect();
        for destination in &all {
            destination.end();
        }
        all.iter().for_each(|destination| destination.wait_for_end(deadline));
    }
}

/// Forgets the destination that was used longest ago, if there are many.
fn make_room(shared: &Shared, known: &mut Known) {
    if known.len() >= KNOWN_MAX {
        // Those with a thread are fewer.
        let resting = known.iter().filter(|(_, destination)| !destination.is_working());
        let oldest = resting.min_by_key(|(_, destination)| destination.used());
        if let Some(oldest) = oldest.map(|(to, _)| *to) {
            known.remove(&oldest);
            shared.counts.destinations_evicted.fetch_add(1, Ordering::Relaxed);
        }
    }
}
