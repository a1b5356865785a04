//! The sending end: all once, at its rate; then what is missing, until it is told to stop.

use super::{
    HEADER_BYTES, MltSettings, SEGMENT_BYTES_MAX, SHORT_PACKET_BYTES,
    rate::{Answer, RateControl},
};
use crate::{
    net::{Body, Cut, Ecn, Label, Mlt, Packet, duration_ps},
    scheme::{Context, Endpoint, Route, cuts::Cutter, wire_bytes},
};
use std::collections::VecDeque;

/// The sending end of a flow.
#[derive(Debug)]
pub struct MltSender {
    route: Route,
    settings: MltSettings,
    rate: RateControl,
    stream: Cutter,
    /// All packets that were cut, by number, and how many bytes of messages are in each: any may be
    /// missing.
    packets: Vec<(Cut, u32)>,
    /// Packets to send again.
    missing: VecDeque<u32>,
    /// Transmissions so far.
    turns: u64,
    /// From when on the next packet may leave.
    due_ps: u64,
    heard_ps: u64,
    /// The last transmission was answered, or given up.
    is_answered: bool,
    /// The application has no more.
    finished: bool,
    probes: u32,
    /// The last one isn't answered; when it is sent again.
    probe_due_ps: Option<u64>,
    /// Probes in a row without an answer.
    unanswered: u32,
    stopped: bool,
}

impl MltSender {
    /// A sender with nothing to send.
    pub fn new(route: Route, settings: MltSettings) -> Self {
        Self {
            route,
            settings,
            rate: RateControl::new(&settings),
            stream: Cutter::new(SEGMENT_BYTES_MAX),
            packets: Vec::new(),
            missing: VecDeque::new(),
            turns: 0,
            due_ps: 0,
            heard_ps: 0,
            is_answered: true,
            finished: false,
            probes: 0,
            probe_due_ps: None,
            unanswered: 0,
            stopped: false,
        }
    }

    fn has_data(&self) -> bool {
        !self.missing.is_empty() || !self.stream.is_empty()
    }

    /// Everything has left, and more than that isn't known.
    fn is_through(&self) -> bool {
        self.finished && !self.stopped && !self.has_data()
    }

    fn probe(&mut self, context: &mut Context<'_>) {
        self.probes += 1;
        let timeout_ps = self.settings.timeout_ps() << self.unanswered.min(10);
        self.probe_due_ps = Some(context.now_ps + timeout_ps);
        self.unanswered += 1;
        let body = Mlt::Probe { probe: self.probes, packets: self.stream.packets() };
        context.out.push(self.packet(SHORT_PACKET_BYTES, body));
    }

    fn packet(&self, wire_bytes: u32, body: Mlt) -> Packet {
        let ecn = Ecn::capable(matches!(body, Mlt::Data { .. }));
        let label = self.route.label(wire_bytes, self.route.path(self.turns as u32));
        Packet { label: Label { ecn, ..label }, body: Body::Mlt(body) }
    }

    /// A word is overdue: the rate goes down.
    fn silence_ps(&self) -> Option<u64> {
        let waits = !self.is_answered && !self.stopped;
        waits.then(|| self.heard_ps + self.settings.timeout_ps())
    }

    /// When to ask what is missing: as soon as everything has left.
    fn ask_ps(&self) -> Option<u64> {
        self.is_through().then(|| self.probe_due_ps.unwrap_or(self.due_ps))
    }
}

impl Endpoint for MltSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Mlt(body) = &packet.body else { return };
        self.heard_ps = context.now_ps;
        match body {
            Mlt::Ack { turn, wire_bytes, echo } => {
                self.is_answered |= *turn == self.turns;
                let answer = Answer { turn: *turn, wire_bytes: *wire_bytes, marked: *echo };
                self.rate.acknowledge(context.now_ps, answer, self.turns);
            }
            Mlt::Missing { probe, numbers } if *probe == self.probes => {
                self.missing = numbers.iter().copied().collect();
                (self.probe_due_ps, self.unanswered, self.is_answered) = (None, 0, true);
            }
            Mlt::Stop => {
                self.stopped = true;
                self.stream.clear();
                self.missing.clear();
                self.packets = Vec::new();
            }
            _ => {}
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ps = context.now_ps;
        if self.silence_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.rate.timeout(self.turns);
            self.is_answered = true;
        }
        if self.ask_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.probe(context);
        }
    }

    fn wake_ps(&self) -> Option<u64> {
        self.silence_ps().into_iter().chain(self.ask_ps()).min()
    }

    fn ready_ps(&self) -> Option<u64> {
        self.has_data().then_some(self.due_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let (cut, bytes) = match self.stream.cut() {
            Some(new) => {
                self.packets.push(new);
                new
            }
            None => {
                let number = self.missing.pop_front()?;
                *self.packets.get(number as usize)?
            }
        };
        if self.is_answered {
            (self.is_answered, self.heard_ps) = (false, now_ps);
        }
        self.turns += 1;
        let packet =
            self.packet(wire_bytes(bytes + HEADER_BYTES), Mlt::Data { cut, turn: self.turns });
        self.due_ps = now_ps + duration_ps(packet.label.wire_bytes, self.rate.bits_per_s());
        Some(packet)
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if self.stopped {
            return;
        }
        self.due_ps = self.due_ps.max(context.now_ps);
        self.stream.queue(bytes);
    }

    fn finish(&mut self, _context: &mut Context<'_>) {
        self.finished = true;
    }

    fn has_ended(&self) -> bool {
        self.stopped
    }
}
