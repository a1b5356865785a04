//! The sending end: a window in bytes, DCTCP's estimate of marks, losses by what overtook them.

use super::{HEADER_BYTES, SEGMENT_BYTES_MAX};
use crate::{
    engine::US,
    net::{Body, Dctcp, Packet},
    scheme::{Context, Endpoint, Route, wire_bytes},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// DCTCP's g.
const GAIN: f64 = 1.0 / 16.0;
/// RFC 5681's duplicate acknowledgements.
const OVERTAKEN: u64 = 3;

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpSettings {
    /// Bytes of the first window.
    pub window_bytes: u32,
    /// The least retransmission time-out. pFabric's authors gave DCTCP 200 us (SIGCOMM 2013, §5.1).
    pub timeout_ps_min: u64,
}

impl Default for DctcpSettings {
    /// RFC 6928's ten segments.
    fn default() -> Self {
        Self { window_bytes: 10 * SEGMENT_BYTES_MAX, timeout_ps_min: 200 * US }
    }
}

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    bytes: u32,
    /// Counts transmissions: which ones it was sent after.
    turn: u64,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
struct Answer {
    cumulative: u64,
    sequence: u64,
    echo: bool,
    turn: u64,
}

/// The sending end of a flow.
#[derive(Debug)]
pub struct DctcpSender {
    route: Route,
    settings: DctcpSettings,
    /// Where the messages end that aren't sent in full.
    ends: VecDeque<u64>,
    /// Messages that end below `next`.
    messages_sent: u32,
    /// The stream's length so far.
    queued_bytes: u64,
    next: u64,
    cumulative: u64,
    /// By beginning.
    flying: BTreeMap<u64, Flying>,
    /// The same by turn: (turn, beginning).
    turns: BTreeSet<(u64, u64)>,
    flying_bytes: u64,
    /// What to send again: beginning, bytes.
    lost: BTreeMap<u64, u32>,
    /// How many messages end at or below the end of each segment that isn't acknowledged.
    messages: BTreeMap<u64, u32>,
    turn: u64,
    /// The latest turn that was acknowledged.
    acked_turn: u64,
    window: f64,
    threshold: f64,
    /// DCTCP's estimate of the share of marked bytes, and what it is made of.
    alpha: f64,
    acked_bytes: u64,
    marked_bytes: u64,
    /// The estimate is renewed, and the window reduced for marks, once everything below is
    /// acknowledged.
    alpha_until: u64,
    reduced_until: u64,
    /// The same for losses; and the window before marks reduced it.
    halved_until: u64,
    window_before: f64,
    smoothed_ps: f64,
    variation_ps: f64,
    timeouts: u32,
    heard_ps: u64,
    sent_ps: u64,
}

impl DctcpSender {
    /// A sender with nothing to send.
    pub fn new(route: Route, settings: DctcpSettings) -> Self {
        Self {
            route,
            settings,
            ends: VecDeque::new(),
            messages_sent: 0,
            queued_bytes: 0,
            next: 0,
            cumulative: 0,
            flying: BTreeMap::new(),
            turns: BTreeSet::new(),
            flying_bytes: 0,
            lost: BTreeMap::new(),
            messages: BTreeMap::new(),
            turn: 0,
            acked_turn: 0,
            window: f64::from(settings.window_bytes),
            threshold: f64::INFINITY,
            alpha: 1.0,
            acked_bytes: 0,
            marked_bytes: 0,
            alpha_until: 0,
            reduced_until: 0,
            halved_until: 0,
            window_before: f64::from(settings.window_bytes),
            smoothed_ps: 0.0,
            variation_ps: 0.0,
            timeouts: 0,
            heard_ps: 0,
            sent_ps: 0,
        }
    }

    fn has_data(&self) -> bool {
        !self.lost.is_empty() || self.next < self.queued_bytes
    }

    fn timeout_ps(&self) -> u64 {
        let usual = (self.smoothed_ps + 4.0 * self.variation_ps) as u64;
        let first = 10 * self.settings.timeout_ps_min;
        let base = if self.smoothed_ps == 0.0 { first } else { usual };
        base.max(self.settings.timeout_ps_min) << self.timeouts.min(6)
    }

    /// RFC 6298.
    fn observe_rtt(&mut self, sample_ps: f64) {
        if self.smoothed_ps == 0.0 {
            (self.smoothed_ps, self.variation_ps) = (sample_ps, sample_ps / 2.0);
            return;
        }
        self.variation_ps += ((sample_ps - self.smoothed_ps).abs() - self.variation_ps) / 4.0;
        self.smoothed_ps += (sample_ps - self.smoothed_ps) / 8.0;
    }

    /// RFC 8257 §3.3: the estimate, once per window; the window, at most once per window.
    fn heed_marks(&mut self, bytes: u64, marked: bool) {
        self.acked_bytes += bytes;
        self.marked_bytes += if marked { bytes } else { 0 };
        if marked && self.cumulative >= self.reduced_until {
            self.window_before = self.window;
            self.reduce_to(self.window * (1.0 - self.alpha / 2.0));
            self.reduced_until = self.next;
        }
        if self.cumulative >= self.alpha_until && self.acked_bytes > 0 {
            let share = self.marked_bytes as f64 / self.acked_bytes as f64;
            self.alpha += GAIN * (share - self.alpha);
            (self.acked_bytes, self.marked_bytes) = (0, 0);
            self.alpha_until = self.next;
        }
    }

    /// Never below two segments, unless it is there already.
    fn reduce_to(&mut self, window: f64) {
        self.window = window.max(self.least()).min(self.window);
        self.threshold = self.window;
    }

    fn least(&self) -> f64 {
        f64::from(2 * SEGMENT_BYTES_MAX)
    }

    fn grow(&mut self, bytes: u64) {
        let (bytes, segment) = (bytes as f64, f64::from(SEGMENT_BYTES_MAX));
        self.window +=
            if self.window < self.threshold { bytes } else { bytes * segment / self.window };
    }

    fn land(&mut self, sequence: u64) -> Option<Flying> {
        let flying = self.flying.remove(&sequence)?;
        self.turns.remove(&(flying.turn, sequence));
        self.flying_bytes -= u64::from(flying.bytes);
        Some(flying)
    }

    /// Those in flight that three later ones have overtaken are lost.
    fn find_losses(&mut self) {
        let mut any = false;
        while let Some(&(turn, sequence)) = self.turns.first()
            && turn + OVERTAKEN <= self.acked_turn
        {
            if let Some(flying) = self.land(sequence) {
                self.lost.insert(sequence, flying.bytes);
                any = true;
            }
        }
        // As any TCP does (RFC 8257 §3.5), also where marks have reduced this window a little before.
        if any && self.cumulative >= self.halved_until {
            let is_reduced = self.cumulative < self.reduced_until;
            let before = if is_reduced { self.window_before } else { self.window };
            self.reduce_to(before / 2.0);
            (self.reduced_until, self.halved_until) = (self.next, self.next);
        }
    }

    fn take_ack(&mut self, now_ps: u64, ack: &Answer) {
        let Answer { cumulative, sequence, echo, turn } = *ack;
        let before = self.cumulative;
        self.cumulative = self.cumulative.max(cumulative);
        let mut bytes = 0;
        // Of a segment that was sent twice, the answer may be to the first.
        self.acked_turn = self.acked_turn.max(turn);
        bytes += self.land(sequence).map_or(0, |flying| u64::from(flying.bytes));
        self.lost.remove(&sequence);
        // What other acknowledgements would have said that got lost.
        while let Some((&first, _)) = self.flying.first_key_value()
            && first < self.cumulative
        {
            bytes += self.land(first).map_or(0, |flying| u64::from(flying.bytes));
        }
        forget_below(&mut self.lost, self.cumulative);
        forget_below(&mut self.messages, self.cumulative);
        (self.timeouts, self.heard_ps) = (0, now_ps);
        // A window that wasn't used doesn't grow.
        let was_full = (self.flying_bytes + bytes) as f64 * 2.0 >= self.window;
        self.heed_marks(bytes, echo);
        if was_full && !echo && self.cumulative > before {
            self.grow(bytes);
        }
        self.find_losses();
    }

    fn segment(&mut self, now_ps: u64, sequence: u64, bytes: u32) -> Packet {
        self.turn += 1;
        self.flying.insert(sequence, Flying { bytes, turn: self.turn });
        self.turns.insert((self.turn, sequence));
        self.flying_bytes += u64::from(bytes);
        self.sent_ps = now_ps;
        if self.flying.len() == 1 {
            self.heard_ps = now_ps;
        }
        let messages = self.messages[&sequence];
        Packet {
            flow: self.route.flow,
            source: self.route.source,
            destination: self.route.destination,
            wire_bytes: wire_bytes(bytes + HEADER_BYTES),
            path: self.route.path(self.turn as u32),
            dscp: 0,
            rank: 0,
            message: 0,
            ecn_capable: true,
            marked: false,
            body: Body::Dctcp(Dctcp::Segment {
                sequence,
                bytes,
                messages,
                turn: self.turn,
                sent_ps: now_ps,
            }),
        }
    }
}

/// As `split_off` does, but nearly always there is one to forget, or none.
fn forget_below<T>(by_sequence: &mut BTreeMap<u64, T>, cumulative: u64) {
    while let Some(first) = by_sequence.first_entry()
        && *first.key() < cumulative
    {
        first.remove();
    }
}

impl Endpoint for DctcpSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Dctcp(Dctcp::Ack { cumulative, sequence, echo, turn, sent_ps }) = packet.body
        else {
            return;
        };
        self.observe_rtt((context.now_ps - sent_ps) as f64);
        self.take_ack(context.now_ps, &Answer { cumulative, sequence, echo, turn });
    }

    /// Nothing was heard for too long: everything in flight is lost.
    fn wake(&mut self, context: &mut Context<'_>) {
        if self.wake_ps().is_none_or(|at_ps| at_ps > context.now_ps) {
            return;
        }
        // RFC 5681 §3.1: not again if the same is lost again.
        if self.timeouts == 0 {
            self.threshold = (self.flying_bytes as f64 / 2.0).max(self.least());
        }
        while let Some((&sequence, _)) = self.flying.first_key_value() {
            if let Some(flying) = self.land(sequence) {
                self.lost.insert(sequence, flying.bytes);
            }
        }
        self.window = f64::from(SEGMENT_BYTES_MAX);
        (self.reduced_until, self.halved_until) = (self.next, self.next);
        (self.timeouts, self.heard_ps) = (self.timeouts + 1, context.now_ps);
    }

    fn wake_ps(&self) -> Option<u64> {
        (!self.flying.is_empty()).then(|| self.heard_ps + self.timeout_ps())
    }

    fn ready_ps(&self) -> Option<u64> {
        let fits = self.flying_bytes == 0 || (self.flying_bytes as f64) < self.window;
        (fits && self.has_data()).then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        if let Some((sequence, bytes)) = self.lost.pop_first() {
            return Some(self.segment(now_ps, sequence, bytes));
        }
        let bytes = (self.queued_bytes - self.next).min(u64::from(SEGMENT_BYTES_MAX)) as u32;
        if bytes == 0 {
            return None;
        }
        let sequence = self.next;
        self.next += u64::from(bytes);
        while self.ends.pop_front_if(|end| *end <= self.next).is_some() {
            self.messages_sent += 1;
        }
        self.messages.insert(sequence, self.messages_sent);
        Some(self.segment(now_ps, sequence, bytes))
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if !self.has_data() {
            self.sent_ps = self.sent_ps.max(context.now_ps);
        }
        self.queued_bytes += u64::from(bytes);
        self.ends.push_back(self.queued_bytes);
    }

    fn stop(&mut self) {
        self.queued_bytes = self.next;
        self.ends.clear();
        self.lost.clear();
        while let Some((&sequence, _)) = self.flying.first_key_value() {
            self.land(sequence);
        }
    }
}
