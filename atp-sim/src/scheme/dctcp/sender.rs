//! The sender: segments in flight, loss detection by reordering, and the retransmission timeout.

use super::{
    DctcpBody, HEADER_BYTES, SEGMENT_BYTES_MAX,
    window::{Reach, Window},
};
use crate::{
    engine::US,
    net::{Ecn, Label},
    scheme::{
        Body, Context, Endpoint, Packet, PathState, Route,
        stream::{Outgoing, Segment},
        unsent::Order,
        wire_bytes,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Reordering threshold, as RFC 5681's three duplicate acknowledgments: a transmission is lost if
/// one sent `REORDERING` transmissions later, or more, is acknowledged.
const REORDERING: u64 = 3;

/// Settings of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpSettings {
    /// Initial congestion window.
    pub window_bytes: u32,
    /// Minimum of the retransmission timeout. The authors of pFabric gave DCTCP 200 us (SIGCOMM
    /// 2013, §5.1).
    pub timeout_ps_min: u64,
    /// The order in which messages enter the stream.
    pub order: Order,
    /// DSCP of data.
    pub dscp: u8,
}

impl Default for DctcpSettings {
    /// RFC 6928's ten segments.
    fn default() -> Self {
        let (window_bytes, timeout_ps_min) = (10 * SEGMENT_BYTES_MAX, 200 * US);
        Self { window_bytes, timeout_ps_min, order: Order::Arrival, dscp: 0 }
    }
}

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    segment: Segment,
    /// The number of the last transmission, and its time.
    transmission: u64,
    sent_ps: u64,
}

/// An acknowledgment.
#[derive(Clone, Copy, Debug)]
struct Ack {
    cumulative: u64,
    sequence: u64,
    echo: bool,
    transmission: u64,
    sent_ps: u64,
}

/// The sender of a flow.
#[derive(Debug)]
pub struct DctcpSender {
    route: Route,
    settings: DctcpSettings,
    stream: Outgoing,
    cumulative: u64,
    /// The segments in flight by sequence.
    in_flight: BTreeMap<u64, InFlight>,
    /// The segments in flight by (transmission, sequence).
    transmissions: BTreeSet<(u64, u64)>,
    in_flight_bytes: u64,
    /// Segments to retransmit, by sequence.
    lost: BTreeMap<u64, Segment>,
    /// Number of transmissions so far.
    transmission: u64,
    /// The largest acknowledged transmission, its time, and the RTT that it measured.
    acked_transmission: u64,
    acked_sent_ps: u64,
    acked_rtt_ps: u64,
    window: Window,
    smoothed_ps: f64,
    variation_ps: f64,
    timeouts: u32,
    received_ps: u64,
    sent_ps: u64,
}

impl DctcpSender {
    /// Makes a sender without messages.
    pub fn new(route: Route, settings: DctcpSettings) -> Self {
        Self {
            route,
            settings,
            stream: Outgoing::new(settings.order),
            cumulative: 0,
            in_flight: BTreeMap::new(),
            transmissions: BTreeSet::new(),
            in_flight_bytes: 0,
            lost: BTreeMap::new(),
            transmission: 0,
            acked_transmission: 0,
            acked_sent_ps: 0,
            acked_rtt_ps: 0,
            window: Window::new(settings.window_bytes),
            smoothed_ps: 0.0,
            variation_ps: 0.0,
            timeouts: 0,
            received_ps: 0,
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

    /// The time of the retransmission timeout.
    fn retransmit_ps(&self) -> Option<u64> {
        (!self.in_flight.is_empty()).then(|| self.received_ps + self.timeout_ps())
    }

    /// Updates the RTT estimate (RFC 6298).
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

    fn remove(&mut self, sequence: u64) -> Option<InFlight> {
        let removed = self.in_flight.remove(&sequence)?;
        self.transmissions.remove(&(removed.transmission, sequence));
        self.in_flight_bytes -= u64::from(removed.segment.bytes);
        Some(removed)
    }

    /// The time from which the first transmission in flight is lost because a later one was
    /// acknowledged.
    fn lost_ps(&self) -> Option<u64> {
        let &(transmission, sequence) = self.transmissions.first()?;
        if !self.route.sprayed {
            return (transmission + REORDERING <= self.acked_transmission).then_some(0);
        }
        let sent_ps = self.in_flight.get(&sequence)?.sent_ps;
        let window_ps = self.acked_rtt_ps + self.smoothed_ps as u64;
        (sent_ps < self.acked_sent_ps).then_some(sent_ps + window_ps)
    }

    fn detect_losses(&mut self, now_ps: u64) {
        let mut any = false;
        while self.lost_ps().is_some_and(|at_ps| at_ps <= now_ps)
            && let Some(&(_, sequence)) = self.transmissions.first()
        {
            if let Some(lost) = self.remove(sequence) {
                self.lost.insert(sequence, lost.segment);
                any = true;
            }
        }
        if any {
            self.window.on_loss(self.reach());
        }
    }

    fn take_ack(&mut self, now_ps: u64, ack: &Ack) {
        let Ack { cumulative, sequence, echo, transmission, sent_ps } = *ack;
        let before = self.cumulative;
        self.cumulative = self.cumulative.max(cumulative);
        let mut bytes = 0;
        // The acknowledgment of a retransmitted segment may belong to its first transmission.
        self.acked_transmission = self.acked_transmission.max(transmission);
        if sent_ps >= self.acked_sent_ps {
            (self.acked_sent_ps, self.acked_rtt_ps) = (sent_ps, now_ps - sent_ps);
        }
        bytes += self.remove(sequence).map_or(0, |acked| u64::from(acked.segment.bytes));
        self.lost.remove(&sequence);
        // Remove segments whose own acknowledgments were lost.
        while let Some((&first, _)) = self.in_flight.first_key_value()
            && first < self.cumulative
        {
            bytes += self.remove(first).map_or(0, |acked| u64::from(acked.segment.bytes));
        }
        forget_below(&mut self.lost, self.cumulative);
        (self.timeouts, self.received_ps) = (0, now_ps);
        // A window grows only if it is at least half full.
        let was_full = (self.in_flight_bytes + bytes) as f64 * 2.0 >= self.window.bytes();
        self.window.on_ack(bytes, echo, self.reach());
        if was_full && !echo && (self.cumulative > before || self.route.sprayed) {
            self.window.grow(bytes);
        }
        self.detect_losses(now_ps);
    }

    fn segment(&mut self, now_ps: u64, segment: Segment) -> Packet {
        let Segment { sequence, bytes, messages } = segment;
        self.transmission += 1;
        let transmission = self.transmission;
        let sent_ps = now_ps;
        self.in_flight.insert(sequence, InFlight { segment, transmission, sent_ps });
        self.transmissions.insert((transmission, sequence));
        self.in_flight_bytes += u64::from(bytes);
        self.sent_ps = now_ps;
        if self.in_flight.len() == 1 {
            self.received_ps = now_ps;
        }
        let body = DctcpBody::Segment { sequence, bytes, messages, transmission, sent_ps };
        let path = self.route.path(transmission as u32);
        let label = self.route.label(wire_bytes(bytes + HEADER_BYTES), path);
        let label = Label { ecn: Ecn::Capable, dscp: self.settings.dscp, ..label };
        Packet { label, body: Body::Dctcp(body) }
    }
}

/// Removes entries below `cumulative`. Faster than `split_off`, because there is mostly one or
/// none.
fn forget_below<T>(by_sequence: &mut BTreeMap<u64, T>, cumulative: u64) {
    while let Some(first) = by_sequence.first_entry()
        && *first.key() < cumulative
    {
        first.remove();
    }
}

impl Endpoint for DctcpSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Dctcp(DctcpBody::Ack { cumulative, sequence, echo, transmission, sent_ps }) =
            packet.body
        else {
            return;
        };
        self.observe_rtt((context.now_ps - sent_ps) as f64);
        self.take_ack(context.now_ps, &Ack { cumulative, sequence, echo, transmission, sent_ps });
    }

    /// Handles the end of the reordering window, and the retransmission timeout, after which
    /// everything in flight is lost.
    fn wake(&mut self, context: &mut Context<'_>) {
        self.detect_losses(context.now_ps);
        if self.retransmit_ps().is_none_or(|at_ps| at_ps > context.now_ps) {
            return;
        }
        self.window.on_timeout(self.in_flight_bytes, self.timeouts == 0, self.reach());
        while let Some((&sequence, _)) = self.in_flight.first_key_value() {
            if let Some(lost) = self.remove(sequence) {
                self.lost.insert(sequence, lost.segment);
            }
        }
        (self.timeouts, self.received_ps) = (self.timeouts + 1, context.now_ps);
    }

    fn wake_ps(&self) -> Option<u64> {
        self.retransmit_ps().into_iter().chain(self.lost_ps()).min()
    }

    fn ready_ps(&self) -> Option<u64> {
        let fits = self.in_flight_bytes == 0 || (self.in_flight_bytes as f64) < self.window.bytes();
        (fits && self.has_data()).then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let lost = self.lost.pop_first().map(|(_, segment)| segment);
        let segment = lost.or_else(|| self.stream.next_segment(SEGMENT_BYTES_MAX))?;
        Some(self.segment(now_ps, segment))
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if !self.has_data() {
            self.sent_ps = self.sent_ps.max(context.now_ps);
        }
        self.stream.queue(bytes);
    }

    fn path_state(&self) -> Option<PathState> {
        Some(self.window.path_state((self.smoothed_ps, self.variation_ps)))
    }

    fn resume(&mut self, state: PathState) {
        self.window.resume(&state);
        (self.smoothed_ps, self.variation_ps) = state.round_trip_ps;
    }

    fn stop(&mut self) {
        self.stream.clear();
        self.lost.clear();
        while let Some((&sequence, _)) = self.in_flight.first_key_value() {
            self.remove(sequence);
        }
    }
}
