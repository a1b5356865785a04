//! The sender: sends all messages at line rate.

use super::{HEADER_BYTES, PAYLOAD_BYTES_MAX, UdpBody};
use crate::scheme::{Context, Endpoint, Packet, Route, wire_bytes};
use std::collections::VecDeque;

/// The sender of a flow.
#[derive(Debug)]
pub struct UdpSender {
    route: Route,
    /// Queued messages: number and bytes.
    waiting: VecDeque<(u32, u32)>,
    queued: u32,
    /// Number of datagrams sent of the first message.
    sent_of_first: u32,
    sent: u32,
    sent_ps: u64,
}

impl UdpSender {
    /// Makes a sender without messages.
    pub fn new(route: Route) -> Self {
        let waiting = VecDeque::new();
        Self { route, waiting, queued: 0, sent_of_first: 0, sent: 0, sent_ps: 0 }
    }
}

impl Endpoint for UdpSender {
    fn arrive(&mut self, _context: &mut Context<'_>, _packet: &Packet) {}

    fn ready_ps(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.sent_ps)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let &(message, bytes) = self.waiting.front()?;
        let count = bytes.div_ceil(PAYLOAD_BYTES_MAX).max(1);
        let payload = (bytes - self.sent_of_first * PAYLOAD_BYTES_MAX).min(PAYLOAD_BYTES_MAX);
        let number = self.sent_of_first;
        self.sent_of_first += 1;
        if self.sent_of_first == count {
            self.waiting.pop_front();
            self.sent_of_first = 0;
        }
        self.sent = self.sent.wrapping_add(1);
        self.sent_ps = now_ps;
        Some(self.route.packet(
            wire_bytes(payload + HEADER_BYTES),
            self.route.path(self.sent),
            UdpBody { message, number, count },
        ))
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        if self.waiting.is_empty() {
            self.sent_ps = context.now_ps;
        }
        self.waiting.push_back((self.queued, bytes));
        self.queued += 1;
    }

    fn stop(&mut self) {
        self.waiting.clear();
        self.sent_of_first = 0;
    }
}
