//! The receiver: delivers a message when all its datagrams have arrived.

use super::UdpBody;
use crate::scheme::{Body, Context, Endpoint, Packet};
use std::collections::HashMap;

/// The receiver of a flow.
#[derive(Debug, Default)]
pub struct UdpReceiver {
    /// Number of datagrams received, by message, for incomplete messages.
    incomplete: HashMap<u32, u32>,
}

impl Endpoint for UdpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Udp(UdpBody { message, count, .. }) = packet.body else { return };
        let here = if count == 1 {
            1
        } else {
            *self.incomplete.entry(message).and_modify(|here| *here += 1).or_insert(1)
        };
        if here == count {
            self.incomplete.remove(&message);
            *context.delivered += 1;
        }
    }
}
