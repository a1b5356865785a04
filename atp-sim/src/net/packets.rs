//! Where packets are kept while they are under way.

use super::{Body, FlowId, Ndp, Packet, PacketId};

/// Packets under way, each with a number for as long as it is.
#[derive(Debug, Default)]
pub struct Packets {
    slots: Vec<Option<Packet>>,
    /// By slot: switches that its packet has come to.
    switches: Vec<u8>,
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
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(packet);
                self.switches[id as usize] = 0;
                id
            }
            None => {
                self.slots.push(Some(packet));
                self.switches.push(0);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Gives it back.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn remove(&mut self, id: PacketId) -> Packet {
        self.free.push(id);
        self.slots[id as usize].take().expect("a packet under way")
    }

    /// Looks at it.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn packet(&self, id: PacketId) -> &Packet {
        self.slots[id as usize].as_ref().expect("a packet under way")
    }

    /// It came to one more switch; returns to how many that makes.
    pub fn note_switch(&mut self, id: PacketId) -> u8 {
        let switches = &mut self.switches[id as usize];
        *switches = switches.saturating_add(1);
        *switches
    }

    /// How many switches it has come to.
    pub fn switches(&self, id: PacketId) -> u8 {
        self.switches[id as usize]
    }

    /// Marks it: congestion was experienced.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn mark(&mut self, id: PacketId) {
        self.slots[id as usize].as_mut().expect("a packet under way").marked = true;
    }

    /// One of the packets that were trimmed since it was asked for last.
    pub fn next_trimmed(&mut self) -> Option<Trimmed> {
        self.trimmed.pop()
    }

    /// Leaves so much of it on the wire. Nothing happens to what can't be trimmed.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn trim(&mut self, id: PacketId, wire_bytes: u32) {
        let switches = self.switches(id);
        let packet = self.slots[id as usize].as_mut().expect("a packet under way");
        if let Body::Ndp(Ndp::Data(data)) = &mut packet.body {
            self.trimmed.push(Trimmed {
                flow: packet.flow,
                wire_bytes: packet.wire_bytes,
                switches,
            });
            data.trimmed = true;
            packet.wire_bytes = wire_bytes;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
