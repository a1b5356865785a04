//! The receiver: acknowledges every packet, and delivers a message when it is complete.

use super::{PFabricBody, SHORT_PACKET_BYTES};
use crate::{
    net::Label,
    scheme::{Body, Context, Endpoint, Packet, Route},
};
use std::collections::{BTreeMap, BTreeSet};

/// The receiver of a flow.
#[derive(Debug)]
pub struct PFabricReceiver {
    /// The route back to the sender.
    route: Route,
    /// Received parts of incomplete messages.
    incomplete: BTreeMap<u32, BTreeSet<u32>>,
    complete: BTreeSet<u32>,
    acks: u32,
}

impl PFabricReceiver {
    /// Makes a receiver without data. `route` is the flow's.
    pub fn new(route: Route) -> Self {
        let (incomplete, complete) = (BTreeMap::new(), BTreeSet::new());
        Self { route: route.back(), incomplete, complete, acks: 0 }
    }

    /// Adds a part. Returns whether it completes the message.
    fn take(&mut self, message: u32, number: u32, count: u32) -> bool {
        if self.complete.contains(&message) {
            return false;
        }
        let here = self.incomplete.entry(message).or_default();
        here.insert(number);
        if here.len() < count as usize {
            return false;
        }
        self.incomplete.remove(&message);
        self.complete.insert(message)
    }
}

impl Endpoint for PFabricReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let number = match packet.body {
            Body::PFabric(PFabricBody::Segment { number, count }) => {
                *context.delivered += u32::from(self.take(packet.label.message, number, count));
                Some(number)
            }
            Body::PFabric(PFabricBody::Probe) => None,
            _ => return,
        };
        self.acks = self.acks.wrapping_add(1);
        // Acknowledgments have the highest priority: rank 0.
        let label = self.route.label(SHORT_PACKET_BYTES, self.route.path(self.acks));
        context.out.push(Packet {
            label: Label { message: packet.label.message, ..label },
            body: PFabricBody::Ack { number }.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// With parts in any order and duplicates, every message is delivered once, when its last
        /// part arrives.
        #[test]
        fn take__delivers_once(parts in proptest::collection::vec((0u32..5, 0u32..6), 0..200)) {
            let route = Route { flow: 0, source: 0, destination: 1, sprayed: false, path: 0 };
            let mut receiver = PFabricReceiver::new(route);
            let mut here = [[false; 6]; 5];
            for (message, number) in parts {
                let known = &mut here[message as usize];
                let before = known.iter().all(|here| *here);
                known[number as usize] = true;
                let after = known.iter().all(|here| *here);
                prop_assert_eq!(receiver.take(message, number, 6), after && !before);
            }
        }
    }
}
