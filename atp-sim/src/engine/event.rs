//! An event: time, kind, node and item.

/// The kind of an event. Among events of the same time, earlier kinds come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A packet arrives at the node. The item is the packet's number.
    Arrival,
    /// A port of the node can send its next packet. The item is the port.
    PortFree,
    /// The host runs its timers.
    Wake,
    /// The host's application has messages. The item is the flow.
    Application,
}

const KINDS: [Kind; 4] = [Kind::Arrival, Kind::PortFree, Kind::Wake, Kind::Application];

const NODE_BITS: u32 = 20;
const NUMBER_BITS: u32 = 40;

/// An event at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// Time, picoseconds.
    pub at_ps: u64,
    /// Kind, node and number of the event, from high bits to low.
    order: u64,
    /// A packet, a port or a flow, depending on the kind.
    pub item: u32,
}

impl Event {
    /// Event `number` of a run.
    ///
    /// # Panics
    /// Beyond 2^20 nodes or 2^40 events.
    pub fn new(at_ps: u64, kind: Kind, node: u32, number: u64, item: u32) -> Self {
        assert!(node < 1 << NODE_BITS && number < 1 << NUMBER_BITS, "node {node}, event {number}");
        let kind = kind as u64;
        let order = (kind << NODE_BITS | u64::from(node)) << NUMBER_BITS | number;
        Self { at_ps, order, item }
    }

    /// The event's kind.
    pub fn kind(&self) -> Kind {
        KINDS[(self.order >> (NODE_BITS + NUMBER_BITS)) as usize]
    }

    /// The event's node.
    pub fn node(&self) -> u32 {
        (self.order >> NUMBER_BITS) as u32 & ((1 << NODE_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event__keeps_its_fields() {
        for (index, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            let event = Event::new(7, kind, 1_000_003, 999_999_999_999, 5);
            assert_eq!((event.kind(), event.node(), event.item), (kind, 1_000_003, 5));
        }
    }

    #[test]
    fn event__is_ordered_by_time_kind_node_and_number() {
        let order = [
            Event::new(1, Kind::Application, 9, 9, 9),
            Event::new(2, Kind::Arrival, 8, 8, 8),
            Event::new(2, Kind::PortFree, 1, 7, 7),
            Event::new(2, Kind::PortFree, 2, 5, 6),
            Event::new(2, Kind::PortFree, 2, 6, 5),
        ];
        assert!(order.is_sorted());
    }
}
