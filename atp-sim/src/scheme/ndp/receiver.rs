//! The receiving end: answers at once, and asks for more when it is its turn.

use super::{HEADER_WIRE_BYTES, PACKET_BYTES};
use crate::{
    net::{Body, Ndp, Packet},
    scheme::{Context, Endpoint, Route, stream::Assembly},
};

/// The receiving end of a flow.
#[derive(Debug)]
pub struct NdpReceiver {
    /// Back to the sender.
    route: Route,
    assembly: Assembly,
    /// All that was heard of is below.
    seen: u32,
    /// The sender had nothing after this one.
    last: Option<u32>,
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
            assembly: Assembly::default(),
            seen: 0,
            last: None,
            pulls: 0,
            pulled: 0,
            ended: false,
            packets_sent: 0,
        }
    }

    /// Nothing that was heard of is missing, and the sender had nothing more.
    fn has_all(&self) -> bool {
        self.assembly.floor() == self.seen && self.last.is_some_and(|last| last + 1 == self.seen)
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
        let number = data.cut.number;
        self.seen = self.seen.max(number + 1);
        if data.last {
            self.last = self.last.max(Some(number));
        }
        self.pulls += 1;
        let answer = if data.trimmed {
            Ndp::Nack { number, pulled: self.pulled }
        } else {
            *context.delivered += self.assembly.take(&data.cut);
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
