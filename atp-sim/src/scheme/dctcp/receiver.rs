//! The receiver: acknowledges every segment.

use super::{DctcpBody, HEADER_BYTES};
use crate::scheme::{
    Body, Context, Endpoint, Packet, Route,
    stream::{Incoming, Segment},
    wire_bytes,
};

/// The receiver of a flow.
#[derive(Debug)]
pub struct DctcpReceiver {
    /// The route back to the sender.
    route: Route,
    stream: Incoming,
    acks: u32,
}

impl DctcpReceiver {
    /// Makes a receiver without data. `route` is the flow's.
    pub fn new(route: Route) -> Self {
        Self { route: route.back(), stream: Incoming::default(), acks: 0 }
    }
}

impl Endpoint for DctcpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Dctcp(DctcpBody::Segment { sequence, bytes, messages, transmission, sent_ps }) =
            packet.body
        else {
            return;
        };
        *context.delivered += self.stream.take(Segment { sequence, bytes, messages });
        self.acks = self.acks.wrapping_add(1);
        let ack = DctcpBody::Ack {
            cumulative: self.stream.cumulative(),
            sequence,
            echo: packet.label.ecn.is_marked(),
            transmission,
            sent_ps,
        };
        context.out.push(self.route.packet(
            wire_bytes(HEADER_BYTES),
            self.route.path(self.acks),
            ack,
        ));
    }
}
