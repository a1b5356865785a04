//! What hosts do: one file or folder per scheme, behind one small trait.

pub mod aeolus;
pub mod atp;
pub mod background;
mod cuts;
pub mod dctcp;
pub mod mlt;
pub mod ndp;
pub mod pfabric;
pub mod stream;
pub mod udp;

use atp_common::units::{Rate, Share};

use crate::net::{Body, ETHERNET_BYTES, FlowId, HostId, Label, Packet, topology::mixed};

/// One end of a flow.
pub trait Endpoint {
    /// A packet of the flow came.
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet);

    /// The time that [`Endpoint::wake_ps`] named has come.
    fn wake(&mut self, _context: &mut Context<'_>) {}

    /// When to be woken, if nothing happens before. It may lie in the past.
    fn wake_ps(&self) -> Option<u64> {
        None
    }

    /// From when on it may have a packet of data for the line; of all endpoints that may, the earliest
    /// sends first. `None`: not before something happens.
    fn ready_ps(&self) -> Option<u64> {
        None
    }

    /// The packet, if there is one after all. Asked for only when the line is free.
    fn next_packet(&mut self, _now_ps: u64) -> Option<Packet> {
        None
    }

    /// It has to ask its peer for data. The host's interface says when: its flows take turns, at the
    /// rate of its line (NDP's pull queue).
    fn wants_pull(&self) -> bool {
        false
    }

    /// Asks for data; what that will take on the wire. Only if it wants to.
    fn pull(&mut self, _context: &mut Context<'_>) -> u32 {
        0
    }

    /// The application has a message of so many bytes.
    fn queue(&mut self, _context: &mut Context<'_>, _bytes: u32) {}

    /// The application has no more.
    fn finish(&mut self, _context: &mut Context<'_>) {}

    /// Whether its sender knows that the job has what it needs. Only of schemes that find out for
    /// themselves.
    fn has_ended(&self) -> bool {
        false
    }

    /// What its control laws have come to, if it has such laws. It changes nothing.
    fn probe(&self) -> Option<Probe> {
        None
    }

    /// The job has what it needs: what isn't sent yet stays where it is. Not for schemes that find
    /// out for themselves.
    fn stop(&mut self) {}
}

/// What a sender's control laws have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The target loss rate (NetApprox §4.2, Eq. 1).
    pub tlr: Share,
    /// The loss of the epoch that was evaluated last.
    pub loss: Share,
    /// What its packets may take of the line, as the laws count them.
    pub rate: Rate,
    /// The switches' queue that its packets go to.
    pub queue: u8,
    /// Epochs that were evaluated so far.
    pub epochs_evaluated: u32,
    /// Bytes of data that left so far, counted as `rate` counts them.
    pub sent_bytes: u64,
}

/// What an endpoint is told, and whom it tells.
#[derive(Debug)]
pub struct Context<'a> {
    /// Now, picoseconds.
    pub now_ps: u64,
    /// Acknowledgements and the like, which leave before any data.
    pub out: &'a mut Vec<Packet>,
    /// Messages that the application has now and hadn't before.
    pub delivered: &'a mut u32,
}

impl Context<'_> {
    /// Now, nanoseconds.
    pub const fn now_ns(&self) -> u64 {
        self.now_ps / crate::engine::NS
    }
}

/// The two ends of a flow, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its name.
    pub flow: FlowId,
    /// Where its data comes from.
    pub source: HostId,
    /// Where it goes.
    pub destination: HostId,
    /// Every packet goes its own way; else all of a flow go the same (ECMP).
    pub sprayed: bool,
}

impl Route {
    /// Which way packet `number` of the flow takes.
    pub fn path(&self, number: u32) -> u32 {
        let of_flow = mixed(self.flow ^ 0x517c_c1b7);
        if self.sprayed { mixed(of_flow.wrapping_add(number)) } else { of_flow }
    }

    /// A packet from its source to its destination: of the first code point, for any switch, without a word of
    /// congestion.
    pub const fn packet(self, wire_bytes: u32, path: u32, body: Body) -> Packet {
        Packet { label: self.label(wire_bytes, path), body }
    }

    /// What the network looks at in such a packet.
    pub const fn label(self, wire_bytes: u32, path: u32) -> Label {
        Label::new(self.flow, self.source, self.destination, wire_bytes, path)
    }

    /// The same flow's other direction.
    pub const fn back(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }
}

/// Ethernet pads what is shorter than 64 bytes with header and check sequence.
const FRAME_BYTES_MIN: u32 = 64 + 20;

/// What an IP packet takes on the wire.
pub const fn wire_bytes(ip_bytes: u32) -> u32 {
    let bytes = ip_bytes + ETHERNET_BYTES;
    if bytes < FRAME_BYTES_MIN { FRAME_BYTES_MIN } else { bytes }
}
