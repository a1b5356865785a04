//! A switch with output queues and one buffer for all its ports.

use super::{Departure, Label, PacketId, Packets, Port, Waiting, port::Fate, topology::Routes};

/// A switch.
#[derive(Debug)]
pub struct Switch {
    routes: Routes,
    buffer_bytes: u64,
    /// Its ports.
    pub ports: Vec<Port>,
    waiting_bytes: u64,
}

impl Switch {
    /// A switch with nothing in it, whose ports share `buffer_bytes`.
    pub fn new(routes: Routes, ports: Vec<Port>, buffer_bytes: u64) -> Self {
        Self { routes, buffer_bytes, ports, waiting_bytes: 0 }
    }

    /// A packet came: the port that it leaves by, and what came of it there. Others that have to go for
    /// it are added to `displaced`.
    pub fn take(
        &mut self,
        now_ps: u64,
        id: PacketId,
        packets: &mut Packets,
        displaced: &mut Vec<Waiting>,
    ) -> (usize, Fate) {
        let number = self.route(packets.label(id));
        let room_bytes = self.buffer_bytes.saturating_sub(self.waiting_bytes);
        let port = &mut self.ports[number];
        let before = port.waiting_bytes();
        let fate = port.offer(now_ps, id, packets, room_bytes, displaced);
        self.waiting_bytes = self.waiting_bytes - before + port.waiting_bytes();
        (number, fate)
    }

    /// A port is free: see [`Port::next`].
    pub fn next(&mut self, now_ps: u64, number: usize) -> (Option<Departure>, Option<u64>) {
        let port = &mut self.ports[number];
        let before = port.waiting_bytes();
        let next = port.next(now_ps);
        self.waiting_bytes -= before - port.waiting_bytes();
        next
    }

    /// Bytes that wait in it.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    fn route(&self, label: &Label) -> usize {
        self.routes.port(label.destination, label.path)
    }
}
