//! Background traffic: UDP packets with a DSCP that changes over time.

use super::{Context, Endpoint, Packet, Route, udp::UdpSender};
use crate::net::Label;
use std::{cell::RefCell, rc::Rc};

/// DSCPs over time, for one or several senders.
#[derive(Clone, Debug)]
pub struct Schedule(Rc<RefCell<Vec<(u64, u8)>>>);

impl Schedule {
    /// `dscps` are start times in picoseconds, ascending, with the DSCP from then on. The DSCP
    /// before the first start is 0.
    pub fn new(dscps: Vec<(u64, u8)>) -> Self {
        Self(Rc::new(RefCell::new(dscps)))
    }

    /// The DSCP at `now_ps`.
    pub fn dscp(&self, now_ps: u64) -> u8 {
        let dscps = self.0.borrow();
        let due = dscps.partition_point(|(from_ps, _)| *from_ps <= now_ps);
        due.checked_sub(1).map_or(0, |last| dscps[last].1)
    }

    /// Replaces the schedule from `now_ps` on by one DSCP.
    pub fn change(&self, now_ps: u64, dscp: u8) {
        let mut dscps = self.0.borrow_mut();
        dscps.retain(|(from_ps, _)| *from_ps <= now_ps);
        dscps.push((now_ps, dscp));
    }
}

/// The sender. It sends each packet as soon as its application, which paces them, queues it.
#[derive(Debug)]
pub struct BackgroundSender {
    udp: UdpSender,
    schedule: Schedule,
}

impl BackgroundSender {
    /// Makes a sender without messages.
    pub fn new(route: Route, schedule: Schedule) -> Self {
        Self { udp: UdpSender::new(route), schedule }
    }
}

impl Endpoint for BackgroundSender {
    fn arrive(&mut self, _context: &mut Context<'_>, _packet: &Packet) {}

    fn ready_ps(&self) -> Option<u64> {
        self.udp.ready_ps()
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let dscp = self.schedule.dscp(now_ps);
        let Packet { label, body } = self.udp.next_packet(now_ps)?;
        Some(Packet { label: Label { dscp, ..label }, body })
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.udp.queue(context, bytes);
    }

    fn stop(&mut self) {
        self.udp.stop();
    }
}
