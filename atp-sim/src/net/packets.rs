//! Stores the packets that are in flight.

use super::{Content, Ecn, FlowId, Label, Packet, PacketId};

/// The labels of the packets in flight, by packet number.
#[derive(Debug, Default)]
pub struct Labels {
    /// In debug builds, a free entry has 0 bytes on the wire.
    labels: Vec<Label>,
    free: Vec<PacketId>,
    trimmed: Vec<Trimmed>,
}

/// A packet that lost its payload. Accounts treat it as dropped, and its header as a new packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// The packet's flow.
    pub flow: FlowId,
    /// Bytes on the wire before trimming.
    pub wire_bytes: u32,
    /// Number of switches that the packet had reached.
    pub switches: u8,
}

impl Labels {
    /// Adds a packet's label.
    pub fn insert(&mut self, label: Label) -> PacketId {
        let label = Label { switches: 0, ..label };
        match self.free.pop() {
            Some(id) => {
                self.labels[id as usize] = label;
                id
            }
            None => {
                self.labels.push(label);
                self.labels.len() as u32 - 1
            }
        }
    }

    /// Removes a packet's label.
    pub fn remove(&mut self, id: PacketId) -> Label {
        self.debug_assert_in_flight(id);
        self.free.push(id);
        let removed = self.labels[id as usize];
        #[cfg(debug_assertions)]
        {
            self.labels[id as usize].wire_bytes = 0;
        }
        removed
    }

    /// The label of a packet in flight.
    pub fn label(&self, id: PacketId) -> &Label {
        self.debug_assert_in_flight(id);
        &self.labels[id as usize]
    }

    /// Records that the packet reached one more switch. Returns its label.
    pub fn note_switch(&mut self, id: PacketId) -> &Label {
        self.debug_assert_in_flight(id);
        let label = &mut self.labels[id as usize];
        label.switches = label.switches.saturating_add(1);
        label
    }

    /// Sets the ECN mark.
    pub fn mark(&mut self, id: PacketId) {
        self.debug_assert_in_flight(id);
        self.labels[id as usize].ecn = Ecn::Experienced;
    }

    /// Trims the packet to a header of `wire_bytes`. Other packets than trimmable data stay
    /// unchanged.
    pub fn trim(&mut self, id: PacketId, wire_bytes: u32) {
        self.debug_assert_in_flight(id);
        let label = &mut self.labels[id as usize];
        if label.content == Content::TrimmableData {
            let Label { flow, switches, .. } = *label;
            self.trimmed.push(Trimmed { flow, wire_bytes: label.wire_bytes, switches });
            label.content = Content::Header;
            label.wire_bytes = wire_bytes;
        }
    }

    /// Takes one of the packets trimmed since the last call that returned `None`.
    pub fn next_trimmed(&mut self) -> Option<Trimmed> {
        self.trimmed.pop()
    }

    fn debug_assert_in_flight(&self, id: PacketId) {
        debug_assert!(self.labels[id as usize].wire_bytes > 0, "packet {id} isn't in flight");
    }
}

/// The packets in flight, each with a number while it is in flight.
///
/// Switches read only labels, at every hop. Labels are stored apart from bodies, so they are mostly
/// in the processor's cache.
#[derive(Debug)]
pub struct Packets<B> {
    labels: Labels,
    bodies: Vec<Option<B>>,
}

impl<B> Default for Packets<B> {
    fn default() -> Self {
        Self { labels: Labels::default(), bodies: Vec::new() }
    }
}

impl<B> Packets<B> {
    /// Adds a packet, and returns its number.
    pub fn insert(&mut self, packet: Packet<B>) -> PacketId {
        let id = self.labels.insert(packet.label);
        match self.bodies.get_mut(id as usize) {
            Some(free) => *free = Some(packet.body),
            None => self.bodies.push(Some(packet.body)),
        }
        id
    }

    /// Removes a packet.
    ///
    /// # Panics
    /// If the packet isn't in flight.
    pub fn remove(&mut self, id: PacketId) -> Packet<B> {
        let body = self.bodies[id as usize].take().expect("a packet in flight");
        Packet { label: self.labels.remove(id), body }
    }

    /// The labels of all packets.
    pub fn labels_mut(&mut self) -> &mut Labels {
        &mut self.labels
    }

    /// Number of packets in flight.
    pub fn count(&self) -> usize {
        self.labels.labels.len() - self.labels.free.len()
    }
}
