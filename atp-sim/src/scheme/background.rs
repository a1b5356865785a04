//! Background traffic: UDP's packets, each with the code point that is due when it leaves.

use super::{Context, Endpoint, Route, udp::UdpSender};
use crate::net::Packet;

/// The sending end. Its packets leave when its application has them, which is paced.
#[derive(Debug)]
pub struct BackgroundSender {
    udp: UdpSender,
    /// From when on which code point is due, in the order of time.
    dscps: Vec<(u64, u8)>,
}

impl BackgroundSender {
    /// A sender with nothing to send. `dscps`: from when on, picoseconds, which code point is due, in
    /// the order of time; before the first it is 0.
    pub fn new(route: Route, dscps: Vec<(u64, u8)>) -> Self {
        Self { udp: UdpSender::new(route), dscps }
    }

    fn dscp(&self, now_ps: u64) -> u8 {
        let due = self.dscps.partition_point(|(from_ps, _)| *from_ps <= now_ps);
        due.checked_sub(1).map_or(0, |last| self.dscps[last].1)
    }
}

impl Endpoint for BackgroundSender {
    fn arrive(&mut self, _context: &mut Context<'_>, _packet: &Packet) {}

    fn ready_ps(&self) -> Option<u64> {
        self.udp.ready_ps()
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let dscp = self.dscp(now_ps);
        self.udp.next_packet(now_ps).map(|packet| Packet { dscp, ..packet })
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.udp.queue(context, bytes);
    }

    fn stop(&mut self) {
        self.udp.stop();
    }
}
