//! The sender: sends everything once at its rate, then the missing packets, until the receiver
//! stops it.

use super::{
    HEADER_BYTES, MltBody, MltSettings, SEGMENT_BYTES_MAX, SHORT_PACKET_BYTES,
    rate::{Ack, RateControl},
};
use crate::{
    net::{Ecn, Label, duration_ps},
    scheme::{
        Body, Context, Endpoint, Packet, PacketContents, Route, segments::Segmenter, unsent::Order,
        wire_bytes,
    },
};
use std::collections::VecDeque;

/// The sender of a flow.
#[derive(Debug)]
pub struct MltSender {
    route: Route,
    settings: MltSettings,
    rate: RateControl,
    messages: Segmenter,
    /// All packets of the flow, with their bytes of messages, because any of them may be missing.
    packets: Vec<(PacketContents, u32)>,
    /// Packets to retransmit.
    missing: VecDeque<u32>,
    /// Number of transmissions so far.
    transmissions: u64,
    /// The time from which the next packet may be sent.
    due_ps: u64,
    received_ps: u64,
    /// Whether the last transmission was acknowledged, or timed out.
    is_acked: bool,
    /// Whether the application has no more messages.
    finished: bool,
    probes: u32,
    /// The time of the next probe, while a probe is unanswered.
    probe_due_ps: Option<u64>,
    /// Number of consecutive probes without an answer.
    unanswered: u32,
    stopped: bool,
}

impl MltSender {
    /// Makes a sender without messages.
    pub fn new(route: Route, settings: MltSettings) -> Self {
        Self {
            route,
            settings,
            rate: RateControl::new(&settings),
            messages: Segmenter::new(SEGMENT_BYTES_MAX, Order::Arrival),
            packets: Vec::new(),
            missing: VecDeque::new(),
            transmissions: 0,
            due_ps: 0,
            received_ps: 0,
            is_acked: true,
            finished: false,
            probes: 0,
            probe_due_ps: None,
            unanswered: 0,
            stopped: false,
        }
    }

    fn has_data(&self) -> bool {
        !self.missing.is_empty() || !self.messages.is_empty()
    }

    /// Whether everything was sent, and no packet is known to be missing.
    fn has_sent_all(&self) -> bool {
        self.finished && !self.stopped && !self.has_data()
    }

    fn probe(&mut self, context: &mut Context<'_>) {
        self.probes += 1;
        let timeout_ps = self.settings.timeout_ps() << self.unanswered.min(10);
        self.probe_due_ps = Some(context.now_ps + timeout_ps);
        self.unanswered += 1;
        let body = MltBody::Probe { probe: self.probes, packets: self.messages.packets() };
        context.out.push(self.packet(SHORT_PACKET_BYTES, body));
    }

    fn packet(&self, wire_bytes: u32, body: MltBody) -> Packet {
        let ecn = Ecn::capable(matches!(body, MltBody::Data { .. }));
        let label = self.route.label(wire_bytes, self.route.path(self.transmissions as u32));
        Packet { label: Label { ecn, ..label }, body: Body::Mlt(body) }
    }

    /// The time when a missing acknowledgment of the last transmission reduces the rate.
    fn ack_timeout_ps(&self) -> Option<u64> {
        let waits = !self.is_acked && !self.stopped;
        waits.then(|| self.received_ps + self.settings.timeout_ps())
    }

    /// The time of the next probe, once everything was sent.
    fn probe_ps(&self) -> Option<u64> {
        self.has_sent_all().then(|| self.probe_due_ps.unwrap_or(self.due_ps))
    }
}

impl Endpoint for MltSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Mlt(body) = &packet.body else { return };
        self.received_ps = context.now_ps;
        match body {
            MltBody::Ack { transmission, wire_bytes, echo } => {
                self.is_acked |= *transmission == self.transmissions;
                let (transmission, wire_bytes) = (*transmission, *wire_bytes);
                let ack = Ack { transmission, wire_bytes, marked: *echo };
                self.rate.acknowledge(context.now_ps, ack, self.transmissions);
            }
            MltBody::Missing { probe, numbers } if *probe == self.probes => {
                self.missing = numbers.iter().copied().collect();
                (self.probe_due_ps, self.unanswered, self.is_acked) = (None, 0, true);
            }
            MltBody::Stop => {
                self.stopped = true;
                self.messages.clear();
                self.missing.clear();
                self.packets = Vec::new();
            }
            _ => {}
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ps = context.now_ps;
        if self.ack_timeout_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.rate.on_timeout(self.transmissions);
            self.is_acked = true;
        }
        if self.probe_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.probe(context);
        }
    }

    fn wake_ps(&self) -> Option<u64> {
        self.ack_timeout_ps().into_iter().chain(self.probe_ps()).min()
    }

    fn ready_ps(&self) -> Option<u64> {
        self.has_data().then_some(self.due_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let (contents, bytes) = match self.messages.next_packet() {
            Some(new) => {
                self.packets.push(new);
                new
            }
            None => {
                let number = self.missing.pop_front()?;
                *self.packets.get(number as usize)?
            }
        };
        if self.is_acked {
            (self.is_acked, self.received_ps) = (false, now_ps);
        }
        self.transmissions += 1;
        let data = MltBody::Data { contents, transmission: self.transmissions };
        let packet = self.packet(wire_bytes(bytes + HEADER_BYTES), data);
        self.due_ps = now_ps + duration_ps(packet.label.wire_bytes, self.rate.bits_per_s());
        Some(packet)
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if self.stopped {
            return;
        }
        self.due_ps = self.due_ps.max(context.now_ps);
        self.messages.queue(bytes);
    }

    fn finish(&mut self, _context: &mut Context<'_>) {
        self.finished = true;
    }

    fn has_ended(&self) -> bool {
        self.stopped
    }
}
