//! The sender: an unscheduled burst before the first credit, then one packet for each credit.

use super::{
    AeolusBody, AeolusReport, AeolusSettings, CONTROL_BYTES, HEADER_BYTES, PACKET_BYTES,
    SEGMENT_BYTES_MAX, packet, unacknowledged::Unacknowledged,
};
use crate::{
    net::UNSCHEDULED_DSCP,
    scheme::{
        Body, Context, Endpoint, Packet, Route,
        stream::{Outgoing, Segment},
        wire_bytes,
    },
};
use std::collections::VecDeque;

/// The sender of a flow.
#[derive(Debug)]
pub struct AeolusSender {
    route: Route,
    settings: AeolusSettings,
    stream: Outgoing,
    unacknowledged: Unacknowledged,
    phase: Phase,
    /// A packet without data to send before any other.
    due: Option<Control>,
    /// Unused credits, with their sending times at the receiver.
    credits: VecDeque<(u32, u64)>,
    /// Bytes on the wire that may be sent without a credit.
    unscheduled_bytes: u32,
    /// Whether unscheduled packets were sent since the last probe.
    is_unprobed: bool,
    /// Whether the application has no more messages.
    is_finished: bool,
    /// Number of transmissions so far, packets without data included.
    transmission: u64,
    /// The last time with data to send or to be acknowledged.
    busy_ps: u64,
    /// The time of the receiver's last packet, or of the timer's last restart.
    received_ps: u64,
    timeouts: u32,
    sent_ps: u64,
}

/// The state of the credit request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No credits are requested.
    Closed,
    /// Credits are requested, and none has arrived yet.
    Requesting,
    /// Credits arrive.
    Credited,
    /// The stop of this transmission isn't acknowledged (`u64::MAX`: the stop isn't sent yet).
    Stopping(u64),
}

/// Packets without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Request,
    Probe,
    Stop,
}

impl AeolusSender {
    /// Makes a sender without messages.
    pub fn new(route: Route, settings: AeolusSettings) -> Self {
        Self {
            route,
            settings,
            stream: Outgoing::default(),
            unacknowledged: Unacknowledged::default(),
            phase: Phase::Closed,
            due: None,
            credits: VecDeque::new(),
            unscheduled_bytes: 0,
            is_unprobed: false,
            is_finished: false,
            transmission: 0,
            busy_ps: 0,
            received_ps: 0,
            timeouts: 0,
            sent_ps: 0,
        }
    }

    fn has_data(&self) -> bool {
        self.unacknowledged.has_lost() || self.stream.left_bytes() > 0
    }

    /// Whether nothing is left to send, and no unscheduled packet may be lost.
    fn is_idle(&self) -> bool {
        !self.has_data() && !self.unacknowledged.awaits_unscheduled()
    }

    fn may_send_unscheduled(&self) -> bool {
        self.phase == Phase::Requesting
            && self.unscheduled_bytes > 0
            && self.stream.left_bytes() > 0
    }

    fn may_send(&self) -> bool {
        self.due.is_some() || self.may_send_unscheduled() || !self.credits.is_empty()
    }

    /// Requests credits: a new flow in the papers' sense.
    fn open(&mut self, now_ps: u64) {
        self.phase = Phase::Requesting;
        self.due = Some(Control::Request);
        self.unscheduled_bytes = self.settings.unscheduled_bytes;
        (self.received_ps, self.timeouts) = (now_ps, 0);
    }

    /// Sends a stop if no more credits are needed.
    fn stop_if_idle(&mut self, now_ps: u64) {
        let wants = matches!(self.phase, Phase::Requesting | Phase::Credited);
        if !self.is_idle() {
            self.busy_ps = now_ps;
        } else if wants && self.due.is_none() && now_ps >= self.idle_until_ps() {
            (self.phase, self.due) = (Phase::Stopping(u64::MAX), Some(Control::Stop));
            (self.received_ps, self.timeouts) = (now_ps, 0);
        }
    }

    /// End of the time in which an idle sender keeps its credits coming.
    fn idle_until_ps(&self) -> u64 {
        self.busy_ps + if self.is_finished { 0 } else { self.settings.round_trip_ps }
    }

    fn timeout_ps(&self) -> Option<u64> {
        let waits = match self.phase {
            Phase::Closed => false,
            Phase::Stopping(_) => true,
            Phase::Requesting | Phase::Credited => !self.is_idle(),
        };
        waits.then(|| self.received_ps + (self.settings.timeout_ps() << self.timeouts.min(6)))
    }

    fn take_report(&mut self, now_ps: u64, report: &AeolusReport, reordering: u64) {
        self.unacknowledged.take_report(report, reordering);
        // Later credits don't acknowledge a stop.
        if !matches!(self.phase, Phase::Stopping(_)) {
            (self.received_ps, self.timeouts) = (now_ps, 0);
        }
    }

    fn take_credit(&mut self, number: u32, sent_ps: u64) {
        if self.phase == Phase::Requesting {
            self.phase = Phase::Credited;
            self.unscheduled_bytes = 0;
            if self.is_unprobed && self.due.is_none() {
                self.due = Some(Control::Probe);
            }
        }
        if self.has_data() || self.unacknowledged.awaits_unscheduled() {
            self.credits.push_back((number, sent_ps));
        }
    }

    fn take_ack(&mut self, now_ps: u64, sequence: Option<u64>, transmission: u64) {
        if let Some(sequence) = sequence {
            self.unacknowledged.acknowledge(sequence);
        }
        self.unacknowledged.lose_unscheduled(transmission);
        if let Phase::Stopping(stop) = self.phase
            && transmission >= stop
        {
            self.phase = Phase::Closed;
            // Late credits released packets meanwhile, or lost packets are in no report yet.
            if self.has_data() || self.unacknowledged.awaits_any() {
                self.open(now_ps);
            }
        }
    }

    /// Maximum reordering: the number of the flow's packets that may overtake another.
    fn reordering(&self) -> u64 {
        let packets = self.settings.unscheduled_bytes / PACKET_BYTES;
        if self.route.sprayed { u64::from(packets) } else { 0 }
    }

    fn control(&mut self, now_ps: u64, control: Control) -> Packet {
        self.received_ps = now_ps;
        self.transmission += 1;
        let transmission = self.transmission;
        self.is_unprobed = false;
        let body = match control {
            Control::Request => AeolusBody::Request { transmission },
            Control::Probe => AeolusBody::Probe { transmission },
            Control::Stop => {
                self.phase = Phase::Stopping(transmission);
                AeolusBody::Stop { transmission }
            }
        };
        packet(self.route, self.route.path(transmission as u32), 0, CONTROL_BYTES, body)
    }

    /// Aeolus §3.3: credits carry lost segments first, then new ones, then unscheduled ones that
    /// aren't acknowledged.
    fn scheduled(&mut self, (number, sent_ps): (u32, u64)) -> Option<Packet> {
        let lost = self.unacknowledged.take_lost();
        let segment = lost
            .or_else(|| self.stream.next_segment(SEGMENT_BYTES_MAX))
            .or_else(|| self.unacknowledged.take_unscheduled())?;
        // Data takes its credit's path back, because ports limit credits for the answers
        // on that path.
        let path = self.route.path(number);
        Some(self.segment(segment, path, Some((number, sent_ps))))
    }

    fn unscheduled(&mut self) -> Option<Packet> {
        let segment = self.stream.next_segment(SEGMENT_BYTES_MAX)?;
        let path = self.route.path(self.transmission as u32 + 1);
        let packet = self.segment(segment, path, None);
        self.unscheduled_bytes = self.unscheduled_bytes.saturating_sub(packet.label.wire_bytes);
        self.is_unprobed = true;
        if !self.may_send_unscheduled() {
            self.due = Some(Control::Probe);
        }
        Some(packet)
    }

    fn segment(&mut self, segment: Segment, path: u32, credit: Option<(u32, u64)>) -> Packet {
        self.transmission += 1;
        let transmission = self.transmission;
        self.unacknowledged.send(segment, transmission, credit.is_none());
        let Segment { sequence, bytes, messages } = segment;
        let wire_bytes = wire_bytes(bytes + HEADER_BYTES);
        debug_assert!(wire_bytes <= PACKET_BYTES);
        let dscp = if credit.is_none() { UNSCHEDULED_DSCP } else { 0 };
        let body = AeolusBody::Segment { sequence, bytes, messages, transmission, credit };
        packet(self.route, path, dscp, wire_bytes, body)
    }
}

impl Endpoint for AeolusSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Aeolus(body) = packet.body else { return };
        let now_ps = context.now_ps;
        match body {
            AeolusBody::Credit { number, sent_ps, report } => {
                self.take_report(now_ps, &report, self.reordering());
                self.take_credit(number, sent_ps);
            }
            AeolusBody::Ack { sequence, transmission, report } => {
                // No packet overtakes a packet without data, so its acknowledgment allows no
                // reordering.
                let reordering = if sequence.is_some() { self.reordering() } else { 0 };
                self.take_report(now_ps, &report, reordering);
                self.take_ack(now_ps, sequence, transmission);
            }
            _ => return,
        }
        self.stop_if_idle(now_ps);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ps = context.now_ps;
        self.stop_if_idle(now_ps);
        if self.timeout_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            let is_stopping = matches!(self.phase, Phase::Stopping(_));
            self.due = Some(if is_stopping { Control::Stop } else { Control::Request });
            (self.received_ps, self.timeouts) = (now_ps, self.timeouts + 1);
        }
    }

    fn wake_ps(&self) -> Option<u64> {
        let wants = matches!(self.phase, Phase::Requesting | Phase::Credited);
        let idle_ps = (wants && self.due.is_none() && self.is_idle()).then(|| self.idle_until_ps());
        idle_ps.into_iter().chain(self.timeout_ps()).min()
    }

    fn ready_ps(&self) -> Option<u64> {
        self.may_send().then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        self.sent_ps = now_ps;
        if let Some(control) = self.due.take() {
            return Some(self.control(now_ps, control));
        }
        let packet = match self.credits.pop_front() {
            Some(credit) => self.scheduled(credit),
            None if self.may_send_unscheduled() => self.unscheduled(),
            None => None,
        };
        self.stop_if_idle(now_ps);
        packet
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if !self.may_send() {
            self.sent_ps = self.sent_ps.max(context.now_ps);
        }
        self.stream.queue(bytes);
        self.busy_ps = context.now_ps;
        if matches!(self.phase, Phase::Closed | Phase::Stopping(_)) {
            self.open(context.now_ps);
        }
    }

    fn finish(&mut self, context: &mut Context<'_>) {
        self.is_finished = true;
        self.stop_if_idle(context.now_ps);
    }

    fn stop(&mut self) {
        self.stream.clear();
        self.unacknowledged.clear();
        self.credits.clear();
        if matches!(self.phase, Phase::Requesting | Phase::Credited) {
            (self.phase, self.due) = (Phase::Stopping(u64::MAX), Some(Control::Stop));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: AeolusSettings = AeolusSettings {
        round_trip_ps: 8_000_000,
        bits_per_s: 40_000_000_000,
        unscheduled_bytes: 5 * PACKET_BYTES,
    };

    fn sender() -> AeolusSender {
        let route = Route { flow: 0, source: 0, destination: 1, sprayed: false, path: 0 };
        AeolusSender::new(route, SETTINGS)
    }

    fn call(sender: &mut AeolusSender, work: impl FnOnce(&mut AeolusSender, &mut Context<'_>)) {
        let (mut out, mut delivered) = (Vec::new(), 0);
        work(
            sender,
            &mut Context {
                now_ps: 0,
                out: &mut out,
                delivered: &mut delivered,
                host: &mut crate::scheme::HostState::new(0),
            },
        );
    }

    fn arrive(sender: &mut AeolusSender, body: AeolusBody) {
        let packet = packet(sender.route.back(), 0, 0, CONTROL_BYTES, body);
        call(sender, |sender, context| sender.arrive(context, &packet));
    }

    fn credit(number: u32) -> AeolusBody {
        let report = AeolusReport { cumulative: 0, hole_end: u64::MAX, transmission: 0 };
        AeolusBody::Credit { number, sent_ps: 0, report }
    }

    /// The packets that the sender sends until it waits: segment and credit.
    fn sent(sender: &mut AeolusSender) -> Vec<(Option<u64>, Option<u32>)> {
        let packets = std::iter::from_fn(|| sender.next_packet(0));
        let sent = packets.map(|packet| match packet.body {
            Body::Aeolus(AeolusBody::Segment { sequence, credit, .. }) => {
                assert_eq!(packet.label.dscp == UNSCHEDULED_DSCP, credit.is_none());
                (Some(sequence / u64::from(SEGMENT_BYTES_MAX)), credit.map(|(number, _)| number))
            }
            _ => (None, None),
        });
        sent.collect()
    }

    /// Aeolus §3.1: a request, a bandwidth-delay product without credits, and a probe. Then one
    /// packet for each credit, and none without.
    #[test]
    fn sender__begins_with_a_burst() {
        let mut sender = sender();
        call(&mut sender, |sender, context| sender.queue(context, 20 * SEGMENT_BYTES_MAX));
        let mut expected = vec![(None, None)];
        expected.extend((0..5).map(|number| (Some(number), None)));
        expected.push((None, None));
        assert_eq!(sent(&mut sender), expected);
        for number in 0..3 {
            arrive(&mut sender, credit(number));
            assert_eq!(sent(&mut sender), [(Some(5 + u64::from(number)), Some(number))]);
        }
    }

    /// Aeolus §3.3: credits carry lost segments, then new ones, then unacknowledged ones.
    #[test]
    fn sender__lost_segments_go_first() {
        let mut sender = sender();
        call(&mut sender, |sender, context| sender.queue(context, 6 * SEGMENT_BYTES_MAX));
        sent(&mut sender);
        // Transmission 1 is the request. Segments 0 and 2 are lost, and 4 isn't acknowledged yet.
        let report = AeolusReport { cumulative: 0, hole_end: 1_448, transmission: 3 };
        arrive(&mut sender, AeolusBody::Ack { sequence: Some(1_448), transmission: 3, report });
        let report = AeolusReport { cumulative: 0, hole_end: 1_448, transmission: 5 };
        let sequence = Some(3 * 1_448);
        arrive(&mut sender, AeolusBody::Ack { sequence, transmission: 5, report });
        for number in 0..5 {
            arrive(&mut sender, credit(number));
        }
        let order =
            [(Some(0), Some(0)), (Some(2), Some(1)), (Some(5), Some(2)), (Some(4), Some(3))];
        // The fifth credit finds nothing to send.
        assert_eq!(sent(&mut sender), order);
    }

    /// A complete job sends only its stop, and waits for the acknowledgment.
    #[test]
    fn stop__wants_no_more_credits() {
        let mut sender = sender();
        call(&mut sender, |sender, context| sender.queue(context, 20 * SEGMENT_BYTES_MAX));
        sent(&mut sender);
        sender.stop();
        arrive(&mut sender, credit(0));
        assert_eq!(sent(&mut sender), [(None, None)]);
        let Phase::Stopping(transmission) = sender.phase else { panic!("{sender:?}") };
        assert!(sender.wake_ps().is_some());
        let report = AeolusReport::default();
        arrive(&mut sender, AeolusBody::Ack { sequence: None, transmission, report });
        assert_eq!(
            (sender.phase, sender.wake_ps(), sender.ready_ps()),
            (Phase::Closed, None, None)
        );
    }
}
