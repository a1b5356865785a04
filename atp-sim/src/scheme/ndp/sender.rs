//! The sending end: a window at once, then what it is asked for.

use super::{HEADER_BYTES, HEADER_WIRE_BYTES, NdpSettings, SEGMENT_BYTES_MAX, paths::Paths};
use crate::{
    net::{Body, Cut, Ndp, NdpData, Packet},
    scheme::{Context, Endpoint, Route, cuts::Cutter, wire_bytes},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The sending end of a flow.
#[derive(Debug)]
pub struct NdpSender {
    route: Route,
    settings: NdpSettings,
    paths: Paths,
    stream: Cutter,
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
            stream: Cutter::new(SEGMENT_BYTES_MAX),
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
        self.route.packet(wire_bytes, path, Body::Ndp(body))
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

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: NdpSettings =
        NdpSettings { window_packets: 4, timeout_ps: 100, patience_ps: 1_000 };

    fn sender(packets: u32) -> NdpSender {
        let route = Route { flow: 0, source: 0, destination: 1, sprayed: true };
        let mut sender = NdpSender::new(route, SETTINGS, vec![7], 1);
        call(&mut sender, 0, |sender, context| sender.queue(context, packets * SEGMENT_BYTES_MAX));
        sender
    }

    fn call(
        sender: &mut NdpSender,
        now_ps: u64,
        work: impl FnOnce(&mut NdpSender, &mut Context<'_>),
    ) {
        let (mut out, mut delivered) = (Vec::new(), 0);
        work(sender, &mut Context { now_ps, out: &mut out, delivered: &mut delivered });
    }

    fn hear(sender: &mut NdpSender, now_ps: u64, body: Ndp) {
        let packet = sender.packet(HEADER_WIRE_BYTES, 0, body);
        call(sender, now_ps, |sender, context| sender.arrive(context, &packet));
    }

    /// The numbers of all that it sends now.
    fn sent(sender: &mut NdpSender, now_ps: u64) -> Vec<u32> {
        let mut sent = Vec::new();
        while sender.ready_ps().is_some() {
            if let Some(Body::Ndp(Ndp::Data(data))) = sender.next_packet(now_ps).map(|it| it.body) {
                sent.push(data.cut.number);
            }
        }
        sent
    }

    /// NDP §3.2: a window at once; then as many packets as the pull counter rises by, what lost its payload
    /// first; a negative acknowledgement alone brings nothing.
    #[test]
    fn sender__sends_a_window_and_what_is_pulled() {
        let mut sender = sender(20);
        assert_eq!(sent(&mut sender, 0), [0, 1, 2, 3]);
        hear(&mut sender, 1, Ndp::Nack { number: 2, pulled: 0 });
        assert!(sent(&mut sender, 1).is_empty());
        hear(&mut sender, 2, Ndp::Pull { pulled: 2 });
        assert_eq!(sent(&mut sender, 2), [2, 4]);
        // An earlier one that comes late says nothing new.
        hear(&mut sender, 3, Ndp::Pull { pulled: 1 });
        assert!(sent(&mut sender, 3).is_empty());
        hear(&mut sender, 4, Ndp::Ack { number: 0, pulled: 3 });
        assert_eq!(sent(&mut sender, 4), [5]);
    }

    /// NDP §3.2: of what nothing is heard, it is sent again after a timeout; and what was asked for while
    /// there was nothing to send leaves at once later on, a window at most.
    #[test]
    fn sender__gives_up_and_saves_up() {
        let mut sender = sender(3);
        assert_eq!(sent(&mut sender, 0), [0, 1, 2]);
        hear(&mut sender, 1, Ndp::Ack { number: 0, pulled: 1 });
        hear(&mut sender, 1, Ndp::Ack { number: 2, pulled: 1 });
        assert_eq!(sender.wake_ps(), Some(100));
        call(&mut sender, 100, |sender, context| sender.wake(context));
        assert_eq!(sent(&mut sender, 100), [1]);
        hear(&mut sender, 101, Ndp::Ack { number: 1, pulled: 9 });
        assert_eq!(sender.wake_ps(), None);
        let bytes = 10 * SEGMENT_BYTES_MAX;
        call(&mut sender, 200, |sender, context| sender.queue(context, bytes));
        assert_eq!(sent(&mut sender, 200), [3, 4, 5, 6]);
    }

    /// Pulls can be lost, too: it asks for attention, ever more seldom.
    #[test]
    fn sender__does_not_wait_for_ever() {
        let mut sender = sender(20);
        sent(&mut sender, 0);
        for number in 0..4 {
            hear(&mut sender, 10, Ndp::Nack { number, pulled: 0 });
        }
        assert_eq!(sender.wake_ps(), Some(1_010));
        call(&mut sender, 1_010, |sender, context| sender.wake(context));
        assert_eq!(sent(&mut sender, 1_010), [0]);
        hear(&mut sender, 1_020, Ndp::Nack { number: 0, pulled: 1 });
        assert_eq!(sent(&mut sender, 1_020), [0]);
    }
}
