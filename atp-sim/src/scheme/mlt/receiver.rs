//! The receiving end: counts, and says when it has enough.

use super::{BITMAP_PACKETS_MAX, HEADER_BYTES, SHORT_PACKET_BYTES};
use crate::{
    net::{Body, Mlt, Packet},
    scheme::{Context, Endpoint, Route, cuts::Assembly, wire_bytes},
};

/// The receiving end of a flow.
#[derive(Debug)]
pub struct MltReceiver {
    /// Back to the sender.
    route: Route,
    /// Messages that the job needs.
    needed: u32,
    delivered: u32,
    assembly: Assembly,
    packets_sent: u32,
}

impl MltReceiver {
    /// A receiver that has nothing, of a job that needs so many messages. `route`: the flow's.
    pub fn new(route: Route, needed: u32) -> Self {
        let assembly = Assembly::default();
        Self { route: route.back(), needed, delivered: 0, assembly, packets_sent: 0 }
    }

    /// Which of the first `packets` aren't here, as far as a bitmap tells; and its bytes.
    fn missing(&self, packets: u32) -> (Box<[u32]>, u32) {
        let first = self.assembly.floor();
        let end = packets.min(first.saturating_add(BITMAP_PACKETS_MAX));
        let numbers = (first..end).filter(|number| !self.assembly.has(*number)).collect();
        (numbers, end.saturating_sub(first).div_ceil(8))
    }

    fn answer(&mut self, context: &mut Context<'_>, wire_bytes: u32, body: Mlt) {
        self.packets_sent = self.packets_sent.wrapping_add(1);
        context.out.push(self.route.packet(
            wire_bytes,
            self.route.path(self.packets_sent),
            Body::Mlt(body),
        ));
    }
}

impl Endpoint for MltReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Mlt(body) = &packet.body else { return };
        let turn = match body {
            Mlt::Data { cut, turn } => {
                let complete = self.assembly.take(cut);
                self.delivered += complete;
                *context.delivered += complete;
                Some(*turn)
            }
            _ => None,
        };
        // Once more for whatever comes: the last one may have been lost.
        if self.delivered >= self.needed {
            return self.answer(context, SHORT_PACKET_BYTES, Mlt::Stop);
        }
        if let Some(turn) = turn {
            let ack = Mlt::Ack {
                turn,
                wire_bytes: packet.label.wire_bytes,
                echo: packet.label.ecn.is_marked(),
            };
            self.answer(context, SHORT_PACKET_BYTES, ack);
        } else if let Mlt::Probe { probe, packets } = *body {
            let (numbers, bytes) = self.missing(packets);
            self.answer(context, wire_bytes(HEADER_BYTES + bytes), Mlt::Missing { probe, numbers });
        }
    }
}
