//! A switch with output queues and one buffer that its ports share.

use super::{Departure, Label, Labels, PacketId, Port, Queued, port::Fate, topology::Routes};

/// A switch.
#[derive(Debug)]
pub struct Switch {
    routes: Routes,
    buffer_bytes: u64,
    /// The ports by number.
    pub ports: Vec<Port>,
    /// Bytes in the queues of all ports.
    waiting_bytes: u64,
}

impl Switch {
    /// Makes an empty switch whose ports share `buffer_bytes`.
    pub fn new(routes: Routes, ports: Vec<Port>, buffer_bytes: u64) -> Self {
        Self { routes, buffer_bytes, ports, waiting_bytes: 0 }
    }

    /// Forwards a packet to its output port. Returns the port's number and the packet's fate there.
    /// Queued packets that the port dropped in favor of the new one are added to `displaced`.
    pub fn take(
        &mut self,
        now_ps: u64,
        id: PacketId,
        labels: &mut Labels,
        displaced: &mut Vec<Queued>,
    ) -> (usize, Fate) {
        let number = self.route(labels.label(id));
        let room_bytes = self.buffer_bytes.saturating_sub(self.waiting_bytes);
        let port = &mut self.ports[number];
        let before = port.waiting_bytes();
        let fate = port.offer(now_ps, id, labels, room_bytes, displaced);
        self.waiting_bytes = self.waiting_bytes - before + port.waiting_bytes();
        (number, fate)
    }

    /// Handles the event that a port asked for, see [`Port::next`].
    pub fn next(&mut self, now_ps: u64, number: usize) -> (Option<Departure>, Option<u64>) {
        let port = &mut self.ports[number];
        let before = port.waiting_bytes();
        let next = port.next(now_ps);
        self.waiting_bytes -= before - port.waiting_bytes();
        next
    }

    fn route(&self, label: &Label) -> usize {
        self.routes.port(label.destination, label.path)
    }
}
