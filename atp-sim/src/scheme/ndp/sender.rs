//! The sending end: a window at once, then what it is asked for.

use super::{HEADER_BYTES, HEADER_WIRE_BYTES, NdpSettings, SEGMENT_BYTES_MAX, paths::Paths};
use crate::{
    net::{Body, Cut, Ndp, NdpData, Packet},
    scheme::{Context, Endpoint, Route, stream::Stream, wire_bytes},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The sending end of a flow.
#[derive(Debug)]
pub struct NdpSender {
    route: Route,
    settings: NdpSettings,
    paths: Paths,
    stream: Stream,
    /// Packets that aren't acknowledged, by number.
    segments: BTreeMap<u32, Segment>,
    /// Those of them that have to be sent again.
    lost: BTreeSet<u32>,
    /// Transmissions of which something may still be heard, by time; of others, some.
    flying: VecDeque<Transmission>,
    /// Packets that may leave: what is left of the first window, and what was asked for.
    credit: u32,
    /// How many were asked for.
    pulled: u32,
    transmissions: u64,
    sent_ps: u64,
    heard_ps: u64,
    /// Packets sent out of impatience since anything was heard.
    impatient: u32,
    stopped: bool,
}

#[derive(Debug)]
struct Segment {
    cut: Cut,
    bytes: u32,
    /// Its transmission of which something may still be heard.
    flies: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    transmission: u64,
    number: u32,
    sent_ps: u64,
}

impl NdpSender {
    /// A sender with nothing to send. `paths`: one number for each way to its peer, taken in orders that
    /// follow from `seed`.
    pub fn new(route: Route, settings: NdpSettings, paths: Vec<u32>, seed: u64) -> Self {
        Self {
            route,
            settings,
            paths: Paths::new(paths, seed),
            stream: Stream::new(SEGMENT_BYTES_MAX),
            segments: BTreeMap::new(),
            lost: BTreeSet::new(),
            flying: VecDeque::new(),
            credit: settings.window_packets,
            pulled: 0,
            transmissions: 0,
            sent_ps: 0,
            heard_ps: 0,
            impatient: 0,
            stopped: false,
        }
    }

    fn has_data(&self) -> bool {
        !self.lost.is_empty() || !self.stream.is_empty()
    }

    fn hear(&mut self, now_ps: u64, pulled: u32) {
        (self.heard_ps, self.impatient) = (now_ps, 0);
        self.add_credit(pulled.saturating_sub(self.pulled));
        self.pulled = self.pulled.max(pulled);
    }

    /// What isn't used is sent at once later on, but never more than a window.
    fn add_credit(&mut self, packets: u32) {
        self.credit = self.credit.saturating_add(packets).min(self.settings.window_packets);
    }

    /// A packet has to be sent again, unless that is known, or it is there.
    fn lose(&mut self, number: u32) {
        if let Some(segment) = self.segments.get_mut(&number)
            && segment.flies.take().is_some()
        {
            self.lost.insert(number);
        }
    }

    /// Forgets transmissions that were answered.
    fn settle(&mut self) {
        while let Some(first) = self.flying.front()
            && self.segments.get(&first.number).and_then(|segment| segment.flies)
                != Some(first.transmission)
        {
            self.flying.pop_front();
        }
    }

    fn give_up_ps(&self) -> Option<u64> {
        self.flying.front().map(|first| first.sent_ps + self.settings.timeout_ps)
    }

    fn impatient_ps(&self) -> Option<u64> {
        let waits = self.credit == 0 && self.flying.is_empty() && self.has_data();
        waits.then(|| self.heard_ps + (self.settings.patience_ps << self.impatient.min(10)))
    }

    fn packet(&self, wire_bytes: u32, path: u32, body: Ndp) -> Packet {
        Packet {
            flow: self.route.flow,
            source: self.route.source,
            destination: self.route.destination,
            wire_bytes,
            path,
            dscp: 0,
            rank: 0,
            message: 0,
            ecn_capable: false,
            marked: false,
            body: Body::Ndp(body),
        }
    }
}

impl Endpoint for NdpSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        match packet.body {
            Body::Ndp(Ndp::Ack { number, pulled }) => {
                self.segments.remove(&number);
                self.lost.remove(&number);
                self.hear(context.now_ps, pulled);
            }
            Body::Ndp(Ndp::Nack { number, pulled }) => {
                self.lose(number);
                self.hear(context.now_ps, pulled);
            }
            Body::Ndp(Ndp::Pull { pulled }) => {
                self.hear(context.now_ps, pulled);
                if self.stopped {
                    let path = self.paths.next();
                    context.out.push(self.packet(HEADER_WIRE_BYTES, path, Ndp::End));
                }
            }
            _ => {}
        }
        self.settle();
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ps = context.now_ps;
        while self.give_up_ps().is_some_and(|at_ps| at_ps <= now_ps)
            && let Some(first) = self.flying.pop_front()
        {
            // Nobody will ask for another packet because of this one.
            self.lose(first.number);
            self.add_credit(1);
            self.settle();
        }
        if self.impatient_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            (self.heard_ps, self.impatient) = (now_ps, self.impatient + 1);
            self.add_credit(1);
        }
    }

    fn wake_ps(&self) -> Option<u64> {
        self.give_up_ps().or_else(|| self.impatient_ps())
    }

    fn ready_ps(&self) -> Option<u64> {
        (self.credit > 0 && self.has_data()).then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let number = match self.lost.pop_first() {
            Some(number) => number,
            None => {
                let (cut, bytes) = self.stream.cut()?;
                self.segments.insert(cut.number, Segment { cut, bytes, flies: None });
                cut.number
            }
        };
        self.credit -= 1;
        self.transmissions += 1;
        let transmission = self.transmissions;
        let last = self.stream.is_empty() && number + 1 == self.stream.packets();
        let segment = self.segments.get_mut(&number)?;
        segment.flies = Some(transmission);
        let data = NdpData { cut: segment.cut, last, trimmed: false };
        let bytes = segment.bytes;
        self.flying.push_back(Transmission { transmission, number, sent_ps: now_ps });
        self.sent_ps = now_ps;
        let path = self.paths.next();
        Some(self.packet(wire_bytes(bytes + HEADER_BYTES), path, Ndp::Data(data)))
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if !self.has_data() {
            self.sent_ps = self.sent_ps.max(context.now_ps);
        }
        if self.segments.is_empty() {
            self.heard_ps = context.now_ps;
        }
        self.stream.queue(bytes);
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.stream.clear();
        self.segments.clear();
        self.lost.clear();
        self.flying.clear();
    }
}
