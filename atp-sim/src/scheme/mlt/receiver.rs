//! The receiver: counts messages, and stops the sender when it has enough.

use super::{BITMAP_PACKETS_MAX, HEADER_BYTES, MltBody, SHORT_PACKET_BYTES};
use crate::scheme::{Body, Context, Endpoint, Packet, Route, segments::Reassembly, wire_bytes};

/// The receiver of a flow.
#[derive(Debug)]
pub struct MltReceiver {
    /// The route back to the sender.
    route: Route,
    /// Number of messages that the job needs.
    needed: u32,
    delivered: u32,
    reassembly: Reassembly,
    packets_sent: u32,
}

impl MltReceiver {
    /// Makes a receiver without data. The job needs `needed` messages, and `route` is the flow's.
    pub fn new(route: Route, needed: u32) -> Self {
        let reassembly = Reassembly::default();
        Self { route: route.back(), needed, delivered: 0, reassembly, packets_sent: 0 }
    }

    /// The missing packets among the first `packets`, as far as a bitmap reaches, and the length of
    /// the bitmap in bytes.
    fn missing(&self, packets: u32) -> (Box<[u32]>, u32) {
        let first = self.reassembly.floor();
        let end = packets.min(first.saturating_add(BITMAP_PACKETS_MAX));
        let numbers = (first..end).filter(|number| !self.reassembly.has(*number)).collect();
        (numbers, end.saturating_sub(first).div_ceil(8))
    }

    fn answer(&mut self, context: &mut Context<'_>, wire_bytes: u32, body: MltBody) {
        self.packets_sent = self.packets_sent.wrapping_add(1);
        context.out.push(self.route.packet(wire_bytes, self.route.path(self.packets_sent), body));
    }
}

impl Endpoint for MltReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Mlt(body) = &packet.body else { return };
        let transmission = match body {
            MltBody::Data { contents, transmission } => {
                let complete = self.reassembly.take(contents);
                self.delivered += complete;
                *context.delivered += complete;
                Some(*transmission)
            }
            _ => None,
        };
        // Send a stop for every packet, because an earlier stop may have been lost.
        if self.delivered >= self.needed {
            return self.answer(context, SHORT_PACKET_BYTES, MltBody::Stop);
        }
        if let Some(transmission) = transmission {
            let ack = MltBody::Ack {
                transmission,
                wire_bytes: packet.label.wire_bytes,
                echo: packet.label.ecn.is_marked(),
            };
            self.answer(context, SHORT_PACKET_BYTES, ack);
        } else if let MltBody::Probe { probe, packets } = *body {
            let (numbers, bytes) = self.missing(packets);
            self.answer(
                context,
                wire_bytes(HEADER_BYTES + bytes),
                MltBody::Missing { probe, numbers },
            );
        }
    }
}
