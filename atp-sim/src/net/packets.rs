//! Where packets are kept while they are under way.

use super::{Body, Ecn, FlowId, Label, Ndp, NdpData, Packet, PacketId};

/// Packets under way, each with a number for as long as it is.
///
/// Labels lie apart from bodies: but for NDP's, switches look at labels only, so that a label, read at every
/// hop, is mostly in the processor's cache.
#[derive(Debug, Default)]
pub struct Packets {
    /// Of a packet that isn't under way any more, what its label was.
    labels: Vec<Label>,
    bodies: Vec<Option<Body>>,
    free: Vec<PacketId>,
    trimmed: Vec<Trimmed>,
}

/// What was cut off a packet: as much as if it had been dropped and a header sent in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Its flow.
    pub flow: FlowId,
    /// Its bytes on the wire before.
    pub wire_bytes: u32,
    /// Switches that it had come to.
    pub switches: u8,
}

impl Packets {
    /// Takes in a packet.
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        let carries_data = packet.piece().is_some();
        let Packet { label, body } = packet;
        let label = Label { switches: 0, carries_data, ..label };
        match self.free.pop() {
            Some(id) => {
                self.labels[id as usize] = label;
                self.bodies[id as usize] = Some(body);
                id
            }
            None => {
                self.labels.push(label);
                self.bodies.push(Some(body));
                self.labels.len() as u32 - 1
            }
        }
    }

    /// Gives it back.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn remove(&mut self, id: PacketId) -> Packet {
        self.free.push(id);
        let body = self.bodies[id as usize].take().expect("a packet under way");
        Packet { label: self.labels[id as usize], body }
    }

    /// What the network looks at in a packet that is under way.
    pub fn label(&self, id: PacketId) -> &Label {
        self.debug_assert_under_way(id);
        &self.labels[id as usize]
    }

    /// It came to one more switch; returns what the network looks at in it.
    pub fn note_switch(&mut self, id: PacketId) -> &Label {
        self.debug_assert_under_way(id);
        let label = &mut self.labels[id as usize];
        label.switches = label.switches.saturating_add(1);
        label
    }

    /// Marks it: congestion was experienced.
    pub fn mark(&mut self, id: PacketId) {
        self.debug_assert_under_way(id);
        self.labels[id as usize].ecn = Ecn::Experienced;
    }

    /// One of the packets that were trimmed since it was asked for last.
    pub fn next_trimmed(&mut self) -> Option<Trimmed> {
        self.trimmed.pop()
    }

    /// What the hosts say to each other with it.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn body(&self, id: PacketId) -> &Body {
        self.bodies[id as usize].as_ref().expect("a packet under way")
    }

    /// Leaves so much of it on the wire. Nothing happens to what can't be trimmed.
    pub fn trim(&mut self, id: PacketId, wire_bytes: u32) {
        self.debug_assert_under_way(id);
        if let Some(Body::Ndp(Ndp::Data(data @ NdpData { trimmed: false, .. }))) =
            &mut self.bodies[id as usize]
        {
            let label = &mut self.labels[id as usize];
            let Label { flow, switches, .. } = *label;
            self.trimmed.push(Trimmed { flow, wire_bytes: label.wire_bytes, switches });
            data.trimmed = true;
            label.carries_data = false;
            label.wire_bytes = wire_bytes;
        }
    }

    fn debug_assert_under_way(&self, id: PacketId) {
        debug_assert!(self.bodies[id as usize].is_some(), "packet {id} isn't under way");
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.labels.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
