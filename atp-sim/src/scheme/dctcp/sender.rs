//! The sending end: what is in flight, losses by what overtook them, and the timeout.

use super::{
    HEADER_BYTES, SEGMENT_BYTES_MAX,
    window::{Reach, Window},
};
use crate::{
    engine::US,
    net::{Body, Dctcp, Ecn, Label, Packet},
    scheme::{
        Context, Endpoint, Route,
        stream::{Outgoing, Segment},
        wire_bytes,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// RFC 5681's duplicate acknowledgements.
const OVERTAKEN: u64 = 3;

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpSettings {
    /// Bytes of the first window.
    pub window_bytes: u32,
    /// The least retransmission timeout. pFabric's authors gave DCTCP 200 us (SIGCOMM 2013, §5.1).
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
    segment: Segment,
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
    stream: Outgoing,
    cumulative: u64,
    /// By beginning.
    flying: BTreeMap<u64, Flying>,
    /// The same by turn: (turn, beginning).
    turns: BTreeSet<(u64, u64)>,
    flying_bytes: u64,
    /// What to send again, by beginning.
    lost: BTreeMap<u64, Segment>,
    turn: u64,
    /// The latest turn that was acknowledged.
    acked_turn: u64,
    window: Window,
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
            stream: Outgoing::default(),
            cumulative: 0,
            flying: BTreeMap::new(),
            turns: BTreeSet::new(),
            flying_bytes: 0,
            lost: BTreeMap::new(),
            turn: 0,
            acked_turn: 0,
            window: Window::new(settings.window_bytes),
            smoothed_ps: 0.0,
            variation_ps: 0.0,
            timeouts: 0,
            heard_ps: 0,
            sent_ps: 0,
        }
    }

    fn has_data(&self) -> bool {
        !self.lost.is_empty() || self.stream.left_bytes() > 0
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

    fn reach(&self) -> Reach {
        Reach { cumulative: self.cumulative, next: self.stream.next() }
    }

    fn land(&mut self, sequence: u64) -> Option<Flying> {
        let flying = self.flying.remove(&sequence)?;
        self.turns.remove(&(flying.turn, sequence));
        self.flying_bytes -= u64::from(flying.segment.bytes);
        Some(flying)
    }

    /// Those in flight that three later ones have overtaken are lost.
    fn find_losses(&mut self) {
        let mut any = false;
        while let Some(&(turn, sequence)) = self.turns.first()
            && turn + OVERTAKEN <= self.acked_turn
        {
            if let Some(flying) = self.land(sequence) {
                self.lost.insert(sequence, flying.segment);
                any = true;
            }
        }
        if any {
            self.window.heed_loss(self.reach());
        }
    }

    fn take_ack(&mut self, now_ps: u64, ack: &Answer) {
        let Answer { cumulative, sequence, echo, turn } = *ack;
        let before = self.cumulative;
        self.cumulative = self.cumulative.max(cumulative);
        let mut bytes = 0;
        // Of a segment that was sent twice, the answer may be to the first.
        self.acked_turn = self.acked_turn.max(turn);
        bytes += self.land(sequence).map_or(0, |flying| u64::from(flying.segment.bytes));
        self.lost.remove(&sequence);
        // What other acknowledgements would have said that got lost.
        while let Some((&first, _)) = self.flying.first_key_value()
            && first < self.cumulative
        {
            bytes += self.land(first).map_or(0, |flying| u64::from(flying.segment.bytes));
        }
        forget_below(&mut self.lost, self.cumulative);
        (self.timeouts, self.heard_ps) = (0, now_ps);
        // A window that wasn't used doesn't grow.
        let was_full = (self.flying_bytes + bytes) as f64 * 2.0 >= self.window.bytes();
        self.window.heed_marks(bytes, echo, self.reach());
        if was_full && !echo && self.cumulative > before {
            self.window.grow(bytes);
        }
        self.find_losses();
    }

    fn segment(&mut self, now_ps: u64, segment: Segment) -> Packet {
        let Segment { sequence, bytes, messages } = segment;
        self.turn += 1;
        self.flying.insert(sequence, Flying { segment, turn: self.turn });
        self.turns.insert((self.turn, sequence));
        self.flying_bytes += u64::from(bytes);
        self.sent_ps = now_ps;
        if self.flying.len() == 1 {
            self.heard_ps = now_ps;
        }
        let (turn, sent_ps) = (self.turn, now_ps);
        let body = Dctcp::Segment { sequence, bytes, messages, turn, sent_ps };
        let path = self.route.path(turn as u32);
        let label = self.route.label(wire_bytes(bytes + HEADER_BYTES), path);
        Packet { label: Label { ecn: Ecn::Capable, ..label }, body: Body::Dctcp(body) }
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
        self.window.timeout(self.flying_bytes, self.timeouts == 0, self.reach());
        while let Some((&sequence, _)) = self.flying.first_key_value() {
            if let Some(flying) = self.land(sequence) {
                self.lost.insert(sequence, flying.segment);
            }
        }
        (self.timeouts, self.heard_ps) = (self.timeouts + 1, context.now_ps);
    }

    fn wake_ps(&self) -> Option<u64> {
        (!self.flying.is_empty()).then(|| self.heard_ps + self.timeout_ps())
    }

    fn ready_ps(&self) -> Option<u64> {
        let fits = self.flying_bytes == 0 || (self.flying_bytes as f64) < self.window.bytes();
        (fits && self.has_data()).then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let again = self.lost.pop_first().map(|(_, segment)| segment);
        let segment = again.or_else(|| self.stream.cut(SEGMENT_BYTES_MAX))?;
        Some(self.segment(now_ps, segment))
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if !self.has_data() {
            self.sent_ps = self.sent_ps.max(context.now_ps);
        }
        self.stream.queue(bytes);
    }

    fn stop(&mut self) {
        self.stream.clear();
        self.lost.clear();
        while let Some((&sequence, _)) = self.flying.first_key_value() {
            self.land(sequence);
        }
    }
}
