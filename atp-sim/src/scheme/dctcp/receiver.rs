//! The receiving end: puts the stream together, acknowledges every segment.

use super::HEADER_BYTES;
use crate::{
    net::{Body, Dctcp, Packet},
    scheme::{Context, Endpoint, Route, wire_bytes},
};
use std::collections::BTreeMap;

/// The receiving end of a flow.
#[derive(Debug)]
pub struct DctcpReceiver {
    /// Back to the sender.
    route: Route,
    /// All bytes below are here.
    cumulative: u64,
    /// What is here beyond: by its beginning, its end.
    beyond: BTreeMap<u64, u64>,
    acks: u32,
    /// How many messages end at or below which byte of the stream, as segments said so far.
    ends: BTreeMap<u64, u32>,
    delivered: u32,
}

impl DctcpReceiver {
    /// A receiver that has nothing. `route`: the flow's.
    pub fn new(route: Route) -> Self {
        Self {
            route: route.back(),
            cumulative: 0,
            beyond: BTreeMap::new(),
            acks: 0,
            ends: BTreeMap::new(),
            delivered: 0,
        }
    }

    fn take(&mut self, sequence: u64, bytes: u32) {
        let end = sequence + u64::from(bytes);
        // The usual case: the next one.
        if sequence <= self.cumulative && self.beyond.is_empty() {
            self.cumulative = self.cumulative.max(end);
            return;
        }
        if end > self.cumulative {
            let known = self.beyond.entry(sequence).or_insert(end);
            *known = end.max(*known);
        }
        while let Some(first) = self.beyond.first_entry()
            && *first.key() <= self.cumulative
        {
            self.cumulative = self.cumulative.max(first.remove());
        }
    }

    /// Messages are handed over in order: those that end below all that is here.
    fn deliver(&mut self, context: &mut Context<'_>) {
        while let Some(first) = self.ends.first_entry()
            && *first.key() <= self.cumulative
        {
            let messages = first.remove();
            if messages > self.delivered {
                *context.delivered += messages - self.delivered;
                self.delivered = messages;
            }
        }
    }
}

impl Endpoint for DctcpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Dctcp(Dctcp::Segment { sequence, bytes, messages, turn, sent_ps }) = packet.body
        else {
            return;
        };
        self.take(sequence, bytes);
        self.ends.insert(sequence + u64::from(bytes), messages);
        self.deliver(context);
        self.acks = self.acks.wrapping_add(1);
        let ack = Dctcp::Ack {
            cumulative: self.cumulative,
            sequence,
            echo: packet.marked,
            turn,
            sent_ps,
        };
        context.out.push(Packet {
            flow: self.route.flow,
            source: self.route.source,
            destination: self.route.destination,
            wire_bytes: wire_bytes(HEADER_BYTES),
            path: self.route.path(self.acks),
            dscp: 0,
            rank: 0,
            message: 0,
            ecn_capable: false,
            marked: false,
            body: Body::Dctcp(ack),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the order, with repetitions: in the end everything is here, and before that
        /// exactly what begins the stream.
        #[test]
        fn take__knows_what_begins_the_stream(order in proptest::collection::vec(0u64..40, 0..200)) {
            let route = Route { flow: 0, source: 0, destination: 1, sprayed: false };
            let mut receiver = DctcpReceiver::new(route);
            let mut here = [false; 40];
            for segment in order {
                receiver.take(segment * 100, 100);
                here[segment as usize] = true;
                let first_missing = here.iter().position(|here| !here).unwrap_or(40);
                prop_assert_eq!(receiver.cumulative, first_missing as u64 * 100);
            }
        }
    }
}
