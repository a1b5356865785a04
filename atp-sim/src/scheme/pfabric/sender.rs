//! The sender: serves the message with the fewest remaining bytes first.

use super::{
    HEADER_BYTES, PFabricBody, PFabricSettings, SHORT_PACKET_BYTES,
    message::{Item, Message},
};
use crate::{
    net::Label,
    scheme::{Body, Context, Endpoint, Packet, Route, wire_bytes},
};
use std::collections::{BTreeMap, BTreeSet};

/// The sender of a flow, which is all messages of a job.
#[derive(Debug)]
pub struct PFabricSender {
    route: Route,
    settings: PFabricSettings,
    /// Messages that aren't acknowledged completely, by number.
    messages: BTreeMap<u32, Filed>,
    /// Messages that may send: (remaining bytes, number).
    ready: BTreeSet<(u32, u32)>,
    /// Messages that wait for acknowledgments: (timeout, number).
    deadlines: BTreeSet<(u64, u32)>,
    queued: u32,
    packets_sent: u32,
    sent_ps: u64,
}

/// A message, and its keys in `ready` and `deadlines`.
#[derive(Debug)]
struct Filed {
    message: Message,
    ready_bytes: Option<u32>,
    deadline_ps: Option<u64>,
}

impl PFabricSender {
    /// Makes a sender without messages.
    pub fn new(route: Route, settings: PFabricSettings) -> Self {
        Self {
            route,
            settings,
            messages: BTreeMap::new(),
            ready: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            queued: 0,
            packets_sent: 0,
            sent_ps: 0,
        }
    }

    /// Applies `work` to a message, unless it is complete, and updates its keys.
    fn update<T>(&mut self, number: u32, work: impl FnOnce(&mut Message) -> T) -> Option<T> {
        let filed = self.messages.get_mut(&number)?;
        let result = work(&mut filed.message);
        let message = &filed.message;
        let ready_bytes = message.is_ready().then_some(message.remaining_bytes());
        let deadline_ps = message.deadline_ps();
        let is_done = message.is_done();
        refile(&mut self.ready, &mut filed.ready_bytes, ready_bytes, number);
        refile(&mut self.deadlines, &mut filed.deadline_ps, deadline_ps, number);
        if is_done {
            self.messages.remove(&number);
        }
        Some(result)
    }

    fn packet(&mut self, message: u32, rank: u32, wire_bytes: u32, body: PFabricBody) -> Packet {
        self.packets_sent = self.packets_sent.wrapping_add(1);
        let label = self.route.label(wire_bytes, self.route.path(self.packets_sent));
        Packet { label: Label { rank, message, ..label }, body: body.into() }
    }
}

impl Endpoint for PFabricSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::PFabric(PFabricBody::Ack { number }) = packet.body else { return };
        let now_ps = context.now_ps;
        self.update(packet.label.message, |message| message.acknowledge(now_ps, number));
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        while let Some(&(at_ps, number)) = self.deadlines.first()
            && at_ps <= context.now_ps
        {
            self.update(number, Message::on_timeout);
        }
    }

    fn wake_ps(&self) -> Option<u64> {
        self.deadlines.first().map(|(at_ps, _)| *at_ps)
    }

    fn ready_ps(&self) -> Option<u64> {
        (!self.ready.is_empty()).then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let &(rank, number) = self.ready.first()?;
        let (item, count, bytes) = self.update(number, |message| {
            let item = message.send(now_ps);
            let bytes = match item {
                Some(Item::Segment(part)) => message.segment_bytes(part),
                _ => 0,
            };
            (item, message.count(), bytes)
        })?;
        self.sent_ps = now_ps;
        let (wire_bytes, body) = match item? {
            Item::Segment(part) => {
                (wire_bytes(bytes + HEADER_BYTES), PFabricBody::Segment { number: part, count })
            }
            Item::Probe => (SHORT_PACKET_BYTES, PFabricBody::Probe),
        };
        Some(self.packet(number, rank, wire_bytes, body))
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if self.ready.is_empty() {
            self.sent_ps = self.sent_ps.max(context.now_ps);
        }
        let message = Message::new(bytes, self.settings);
        let filed = Filed { message, ready_bytes: None, deadline_ps: None };
        self.messages.insert(self.queued, filed);
        // Update the message's keys.
        self.update(self.queued, |_| ());
        self.queued += 1;
    }

    fn stop(&mut self) {
        self.messages.clear();
        self.ready.clear();
        self.deadlines.clear();
    }
}

fn refile<T: Copy + Ord>(
    order: &mut BTreeSet<(T, u32)>,
    filed: &mut Option<T>,
    now: Option<T>,
    number: u32,
) {
    if *filed == now {
        return;
    }
    if let Some(key) = *filed {
        order.remove(&(key, number));
    }
    if let Some(key) = now {
        order.insert((key, number));
    }
    *filed = now;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender() -> PFabricSender {
        let route = Route { flow: 0, source: 0, destination: 1, sprayed: false, path: 0 };
        PFabricSender::new(route, PFabricSettings::new(10_000_000, 40_000_000_000))
    }

    fn call(sender: &mut PFabricSender, work: impl FnOnce(&mut PFabricSender, &mut Context<'_>)) {
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

    /// pFabric §3: a host serves the message with the fewest remaining bytes first. Each packet
    /// carries that number.
    #[test]
    fn sender__the_least_remaining_goes_first() {
        let mut sender = sender();
        for bytes in [10_000, 300, 3_000] {
            call(&mut sender, |sender, context| sender.queue(context, bytes));
        }
        let sent: Vec<_> = std::iter::from_fn(|| sender.next_packet(0))
            .map(|packet| (packet.label.message, packet.label.rank))
            .collect();
        assert_eq!(sent[..4], [(1, 300), (2, 3_000), (2, 3_000), (2, 3_000)]);
        assert_eq!(sent[4..], [(0, 10_000); 7]);
    }

    /// Acknowledged parts don't count as remaining. A complete message is removed.
    #[test]
    fn sender__acknowledgments_raise_the_priority() {
        let mut sender = sender();
        call(&mut sender, |sender, context| sender.queue(context, 100_000));
        let first = sender.next_packet(0).unwrap();
        let ack = |number| Packet {
            body: Body::PFabric(PFabricBody::Ack { number: Some(number) }),
            label: first.label,
        };
        call(&mut sender, |sender, context| sender.arrive(context, &ack(0)));
        assert_eq!(sender.next_packet(0).unwrap().label.rank, 100_000 - 1_448);
        for number in 0..70 {
            call(&mut sender, |sender, context| {
                sender.next_packet(0);
                sender.arrive(context, &ack(number));
            });
        }
        assert!(sender.messages.is_empty() && sender.ready.is_empty());
        assert!(sender.deadlines.is_empty());
    }
}
