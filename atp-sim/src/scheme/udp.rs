//! UDP: everything leaves at line rate, and what arrives, arrives.

use super::{Context, Endpoint, Route, wire_bytes};
use crate::net::{Body, Packet};
use std::collections::{HashMap, VecDeque};

/// IP and UDP headers.
const HEADER_BYTES: u32 = 28;
/// As many as an Ethernet packet takes.
const PAYLOAD_BYTES_MAX: u32 = 1_472;

/// The sending end.
#[derive(Debug)]
pub struct UdpSender {
    route: Route,
    waiting: VecDeque<(u32, u32)>,
    queued: u32,
    /// Datagrams of the first message that have left.
    sent_of_first: u32,
    sent: u32,
    sent_ps: u64,
}

impl UdpSender {
    /// A sender with nothing to send.
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
            Body::Datagram { message, number, count },
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

/// The receiving end. A message counts once all its datagrams are here.
#[derive(Debug, Default)]
pub struct UdpReceiver {
    /// Of messages of several: how many are here.
    incomplete: HashMap<u32, u32>,
}

impl Endpoint for UdpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Datagram { message, count, .. } = packet.body else { return };
        let here = if count == 1 {
            1
        } else {
            *self.incomplete.entry(message).and_modify(|here| *here += 1).or_insert(1)
        };
        if here == count {
            self.incomplete.remove(&message);
            *context.delivered += 1;
        }
    }
}
