//! The receiving end: answers at once, and asks for more when it is its turn.

use super::{HEADER_WIRE_BYTES, PACKET_BYTES};
use crate::{
    net::{Body, Ndp, NdpData, Packet},
    scheme::{Context, Endpoint, Route},
};
use std::collections::{BTreeMap, BTreeSet};

/// The receiving end of a flow.
#[derive(Debug)]
pub struct NdpReceiver {
    /// Back to the sender.
    route: Route,
    /// All packets below are here.
    floor: u32,
    /// What is here beyond.
    beyond: BTreeSet<u32>,
    /// All that was heard of is below.
    seen: u32,
    /// The sender had nothing after this one.
    last: Option<u32>,
    /// Of messages in several packets: how many of them are here.
    incomplete: BTreeMap<u32, u32>,
    /// Packets to ask for.
    pulls: u32,
    /// Packets that were asked for.
    pulled: u32,
    /// Nothing more comes.
    ended: bool,
    packets_sent: u32,
}

impl NdpReceiver {
    /// A receiver that has nothing. `route`: the flow's.
    pub fn new(route: Route) -> Self {
        Self {
            route: Route { sprayed: true, ..route.back() },
            floor: 0,
            beyond: BTreeSet::new(),
            seen: 0,
            last: None,
            incomplete: BTreeMap::new(),
            pulls: 0,
            pulled: 0,
            ended: false,
            packets_sent: 0,
        }
    }

    /// Messages that are complete with this packet; none if it was here before.
    fn take(&mut self, data: &NdpData) -> u32 {
        if data.number < self.floor || !self.beyond.insert(data.number) {
            return 0;
        }
        while self.beyond.remove(&self.floor) {
            self.floor += 1;
        }
        let mut complete = data.whole;
        for part in data.parts.into_iter().flatten() {
            let here = self.incomplete.entry(part.message).or_default();
            *here += 1;
            if *here == part.packets {
                self.incomplete.remove(&part.message);
                complete += 1;
            }
        }
        complete
    }

    /// Nothing that was heard of is missing, and the sender had nothing more.
    fn has_all(&self) -> bool {
        self.floor == self.seen && self.last.is_some_and(|last| last + 1 == self.seen)
    }

    fn packet(&mut self, body: Ndp) -> Packet {
        self.packets_sent = self.packets_sent.wrapping_add(1);
        Packet {
            flow: self.route.flow,
            source: self.route.source,
            destination: self.route.destination,
            wire_bytes: HEADER_WIRE_BYTES,
            path: self.route.path(self.packets_sent),
            dscp: 0,
            rank: 0,
            message: 0,
            ecn_capable: false,
            marked: false,
            body: Body::Ndp(body),
        }
    }
}

impl Endpoint for NdpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let data = match packet.body {
            Body::Ndp(Ndp::Data(data)) if !self.ended => data,
            Body::Ndp(Ndp::End) => {
                (self.ended, self.pulls) = (true, 0);
                return;
            }
            _ => return,
        };
        let number = data.number;
        self.seen = self.seen.max(number + 1);
        if data.last {
            self.last = self.last.max(Some(number));
        }
        self.pulls += 1;
        let answer = if data.trimmed {
            Ndp::Nack { number, pulled: self.pulled }
        } else {
            *context.delivered += self.take(&data);
            if self.has_all() {
                self.pulled += self.pulls;
                self.pulls = 0;
            }
            Ndp::Ack { number, pulled: self.pulled }
        };
        let answer = self.packet(answer);
        context.out.push(answer);
    }

    fn wants_pull(&self) -> bool {
        self.pulls > 0
    }

    fn pull(&mut self, context: &mut Context<'_>) -> u32 {
        self.pulls -= 1;
        self.pulled += 1;
        // What leaves anyway takes it along.
        if let Some(Body::Ndp(Ndp::Ack { pulled, .. } | Ndp::Nack { pulled, .. })) =
            context.out.last_mut().map(|answer| &mut answer.body)
        {
            *pulled = self.pulled;
        } else {
            let pull = self.packet(Ndp::Pull { pulled: self.pulled });
            context.out.push(pull);
        }
        PACKET_BYTES
    }
}
