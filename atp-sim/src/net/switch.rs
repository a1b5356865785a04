//! A switch with output queues and one buffer for all its ports.

use super::{Packet, PacketId, Packets, Port, PortQueues, port::Fate, topology::Routes};
use std::rc::Rc;

/// A switch.
#[derive(Debug)]
pub struct Switch {
    routes: Routes,
    queues: Rc<PortQueues>,
    /// Its ports.
    pub ports: Vec<Port>,
    waiting_bytes: u64,
}

impl Switch {
    /// A switch with nothing in it.
    pub fn new(routes: Routes, ports: Vec<Port>, queues: Rc<PortQueues>) -> Self {
        Self { routes, queues, ports, waiting_bytes: 0 }
    }

    /// A packet came: the port that it leaves by, and what came of it there.
    pub fn take(&mut self, now_ps: u64, id: PacketId, packets: &mut Packets) -> (usize, Fate) {
        let number = self.route(packets.packet(id));
        let room_bytes = self.queues.buffer_bytes.saturating_sub(self.waiting_bytes);
        let port = &mut self.ports[number];
        let before = port.waiting_bytes();
        let fate = port.offer(now_ps, id, packets, &self.queues, room_bytes);
        self.waiting_bytes += port.waiting_bytes() - before;
        (number, fate)
    }

    /// A port is free: see [`Port::next`].
    pub fn next(
        &mut self,
        now_ps: u64,
        number: usize,
        packets: &Packets,
    ) -> (Option<super::port::Departure>, Option<u64>) {
        let port = &mut self.ports[number];
        let before = port.waiting_bytes();
        let next = port.next(now_ps, packets);
        self.waiting_bytes -= before - port.waiting_bytes();
        next
    }

    /// Bytes that wait in it.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    fn route(&self, packet: &Packet) -> usize {
        self.routes.port(packet.destination, packet.path)
    }
}
