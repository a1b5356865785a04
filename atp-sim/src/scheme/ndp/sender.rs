//! The sender: sends a window at once, then one packet for each that the receiver pulls.

use super::{
    HEADER_BYTES, HEADER_WIRE_BYTES, NdpBody, NdpData, NdpSettings, SEGMENT_BYTES_MAX,
    path_permutation::PathPermutation,
};
use crate::scheme::{
    Body, Context, Endpoint, Packet, PacketContents, Route, segments::Segmenter, unsent::Order,
    wire_bytes,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The sender of a flow.
#[derive(Debug)]
pub struct NdpSender {
    route: Route,
    settings: NdpSettings,
    paths: PathPermutation,
    messages: Segmenter,
    /// Packets that aren't acknowledged, by number.
    segments: BTreeMap<u32, Segment>,
    /// Packets to retransmit.
    lost: BTreeSet<u32>,
    /// Unanswered transmissions by time, with some answered ones among them.
    in_flight: VecDeque<Transmission>,
    /// Number of packets that may be sent: the rest of the first window, and pulled packets.
    credit: u32,
    /// Number of packets that the receiver has pulled so far.
    pulled: u32,
    transmissions: u64,
    sent_ps: u64,
    received_ps: u64,
    /// Number of pull timeouts since the last packet from the receiver.
    pull_timeouts: u32,
    stopped: bool,
}

#[derive(Debug)]
struct Segment {
    contents: PacketContents,
    bytes: u32,
    /// The packet's unanswered transmission.
    in_flight: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    transmission: u64,
    number: u32,
    sent_ps: u64,
}

impl NdpSender {
    /// Makes a sender without messages. `paths` has one number for each path to its peer, used in
    /// orders that `seed` determines.
    pub fn new(route: Route, settings: NdpSettings, paths: Vec<u32>, seed: u64) -> Self {
        Self {
            route,
            settings,
            paths: PathPermutation::new(paths, seed),
            messages: Segmenter::new(SEGMENT_BYTES_MAX, Order::Arrival),
            segments: BTreeMap::new(),
            lost: BTreeSet::new(),
            in_flight: VecDeque::new(),
            credit: settings.window_packets,
            pulled: 0,
            transmissions: 0,
            sent_ps: 0,
            received_ps: 0,
            pull_timeouts: 0,
            stopped: false,
        }
    }

    /// Changes the order in which messages begin. Call it before the first message.
    pub fn with_order(self, order: Order) -> Self {
        Self { messages: Segmenter::new(SEGMENT_BYTES_MAX, order), ..self }
    }

    fn has_data(&self) -> bool {
        !self.lost.is_empty() || !self.messages.is_empty()
    }

    fn take_pulled(&mut self, now_ps: u64, pulled: u32) {
        (self.received_ps, self.pull_timeouts) = (now_ps, 0);
        self.add_credit(pulled.saturating_sub(self.pulled));
        self.pulled = self.pulled.max(pulled);
    }

    /// Adds credit. Unused credit remains for later, up to a window.
    fn add_credit(&mut self, packets: u32) {
        self.credit = self.credit.saturating_add(packets).min(self.settings.window_packets);
    }

    /// Schedules a retransmission, unless the packet is acknowledged or already scheduled.
    fn lose(&mut self, number: u32) {
        if let Some(segment) = self.segments.get_mut(&number)
            && segment.in_flight.take().is_some()
        {
            self.lost.insert(number);
        }
    }

    /// Removes answered transmissions from the front.
    fn remove_answered(&mut self) {
        while let Some(first) = self.in_flight.front()
            && self.segments.get(&first.number).and_then(|segment| segment.in_flight)
                != Some(first.transmission)
        {
            self.in_flight.pop_front();
        }
    }

    fn timeout_ps(&self) -> Option<u64> {
        self.in_flight.front().map(|first| first.sent_ps + self.settings.timeout_ps)
    }

    fn pull_timeout_ps(&self) -> Option<u64> {
        let waits = self.credit == 0 && self.in_flight.is_empty() && self.has_data();
        waits.then(|| {
            self.received_ps + (self.settings.pull_timeout_ps << self.pull_timeouts.min(10))
        })
    }

    fn packet(&self, wire_bytes: u32, path: u32, body: NdpBody) -> Packet {
        self.route.packet(wire_bytes, path, body)
    }
}

impl Endpoint for NdpSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        match packet.body {
            Body::Ndp(NdpBody::Ack { number, pulled }) => {
                self.segments.remove(&number);
                self.lost.remove(&number);
                self.take_pulled(context.now_ps, pulled);
            }
            Body::Ndp(NdpBody::Nack { number, pulled }) => {
                self.lose(number);
                self.take_pulled(context.now_ps, pulled);
            }
            Body::Ndp(NdpBody::Pull { pulled }) => {
                self.take_pulled(context.now_ps, pulled);
                if self.stopped {
                    let path = self.paths.next();
                    context.out.push(self.packet(HEADER_WIRE_BYTES, path, NdpBody::End));
                }
            }
            _ => {}
        }
        self.remove_answered();
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ps = context.now_ps;
        while self.timeout_ps().is_some_and(|at_ps| at_ps <= now_ps)
            && let Some(first) = self.in_flight.pop_front()
        {
            // The receiver won't pull another packet for this transmission.
            self.lose(first.number);
            self.add_credit(1);
            self.remove_answered();
        }
        if self.pull_timeout_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            (self.received_ps, self.pull_timeouts) = (now_ps, self.pull_timeouts + 1);
            self.add_credit(1);
        }
    }

    fn wake_ps(&self) -> Option<u64> {
        self.timeout_ps().or_else(|| self.pull_timeout_ps())
    }

    fn ready_ps(&self) -> Option<u64> {
        (self.credit > 0 && self.has_data()).then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let number = match self.lost.pop_first() {
            Some(number) => number,
            None => {
                let (contents, bytes) = self.messages.next_packet()?;
                let segment = Segment { contents, bytes, in_flight: None };
                self.segments.insert(contents.number, segment);
                contents.number
            }
        };
        self.credit -= 1;
        self.transmissions += 1;
        let transmission = self.transmissions;
        let last = self.messages.is_empty() && number + 1 == self.messages.packets();
        let segment = self.segments.get_mut(&number)?;
        segment.in_flight = Some(transmission);
        let data = NdpData { contents: segment.contents, last };
        let bytes = segment.bytes;
        self.in_flight.push_back(Transmission { transmission, number, sent_ps: now_ps });
        self.sent_ps = now_ps;
        let path = self.paths.next();
        Some(self.packet(wire_bytes(bytes + HEADER_BYTES), path, NdpBody::Data(data)))
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if !self.has_data() {
            self.sent_ps = self.sent_ps.max(context.now_ps);
        }
        if self.segments.is_empty() {
            self.received_ps = context.now_ps;
        }
        self.messages.queue(bytes);
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.messages.clear();
        self.segments.clear();
        self.lost.clear();
        self.in_flight.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: NdpSettings =
        NdpSettings { window_packets: 4, timeout_ps: 100, pull_timeout_ps: 1_000 };

    fn sender(packets: u32) -> NdpSender {
        let route = Route { flow: 0, source: 0, destination: 1, sprayed: true, path: 0 };
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
        work(
            sender,
            &mut Context {
                now_ps,
                out: &mut out,
                delivered: &mut delivered,
                host: &mut crate::scheme::HostState::new(0),
            },
        );
    }

    fn hear(sender: &mut NdpSender, now_ps: u64, body: NdpBody) {
        let packet = sender.packet(HEADER_WIRE_BYTES, 0, body);
        call(sender, now_ps, |sender, context| sender.arrive(context, &packet));
    }

    /// The numbers of all packets that the sender sends now.
    fn sent(sender: &mut NdpSender, now_ps: u64) -> Vec<u32> {
        let mut sent = Vec::new();
        while sender.ready_ps().is_some() {
            if let Some(Body::Ndp(NdpBody::Data(data))) =
                sender.next_packet(now_ps).map(|it| it.body)
            {
                sent.push(data.contents.number);
            }
        }
        sent
    }

    /// NDP §3.2: a window at once, then as many packets as the pull counter rises by, trimmed ones
    /// first. A negative acknowledgment alone permits no packet.
    #[test]
    fn sender__sends_a_window_and_pulled_packets() {
        let mut sender = sender(20);
        assert_eq!(sent(&mut sender, 0), [0, 1, 2, 3]);
        hear(&mut sender, 1, NdpBody::Nack { number: 2, pulled: 0 });
        assert!(sent(&mut sender, 1).is_empty());
        hear(&mut sender, 2, NdpBody::Pull { pulled: 2 });
        assert_eq!(sent(&mut sender, 2), [2, 4]);
        // A reordered earlier pull has no effect.
        hear(&mut sender, 3, NdpBody::Pull { pulled: 1 });
        assert!(sent(&mut sender, 3).is_empty());
        hear(&mut sender, 4, NdpBody::Ack { number: 0, pulled: 3 });
        assert_eq!(sent(&mut sender, 4), [5]);
    }

    /// NDP §3.2: an unanswered packet is retransmitted after a timeout. Credit that arrives while
    /// there is nothing to send remains for later, up to a window.
    #[test]
    fn sender__times_out_and_saves_credit() {
        let mut sender = sender(3);
        assert_eq!(sent(&mut sender, 0), [0, 1, 2]);
        hear(&mut sender, 1, NdpBody::Ack { number: 0, pulled: 1 });
        hear(&mut sender, 1, NdpBody::Ack { number: 2, pulled: 1 });
        assert_eq!(sender.wake_ps(), Some(100));
        call(&mut sender, 100, |sender, context| sender.wake(context));
        assert_eq!(sent(&mut sender, 100), [1]);
        hear(&mut sender, 101, NdpBody::Ack { number: 1, pulled: 9 });
        assert_eq!(sender.wake_ps(), None);
        let bytes = 10 * SEGMENT_BYTES_MAX;
        call(&mut sender, 200, |sender, context| sender.queue(context, bytes));
        assert_eq!(sent(&mut sender, 200), [3, 4, 5, 6]);
    }

    /// Pulls can be lost too: after a pull timeout the sender sends a packet, with exponential
    /// backoff.
    #[test]
    fn sender__survives_lost_pulls() {
        let mut sender = sender(20);
        sent(&mut sender, 0);
        for number in 0..4 {
            hear(&mut sender, 10, NdpBody::Nack { number, pulled: 0 });
        }
        assert_eq!(sender.wake_ps(), Some(1_010));
        call(&mut sender, 1_010, |sender, context| sender.wake(context));
        assert_eq!(sent(&mut sender, 1_010), [0]);
        hear(&mut sender, 1_020, NdpBody::Nack { number: 0, pulled: 1 });
        assert_eq!(sent(&mut sender, 1_020), [0]);
    }
}
