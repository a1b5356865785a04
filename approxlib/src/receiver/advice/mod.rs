//! Advice of this library to the lanes that arrive, while no daemon serves the receiver: counts
//! their DATA, divides each line by the daemon's laws, and gives the result to the transports.
//! Receipts carry it. The theory is in docs/src/control/advice.md.

mod counters;
mod line;
mod others;

use super::{
    advised_lanes::AdvisedLanes,
    counted_lane::{CountedLane, OpenLanes},
    own_addresses::ArrivalLines,
};
use atp_common::{
    laws::advice::{Span, WINDOW_NS},
    units::Rate,
    wire::{Advice, Flags, HEADER_LEN},
};
use atp_proto::endpoint::{Arrived, Endpoint, SourceLanes};
use counters::Counters;
use line::Line;
use others::Sample;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

/// The time between two computations, as in the daemon.
const TICK_NS: u64 = 2_000_000;

/// The properties of the receiver's line, as the application states them.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineOptions {
    /// The line's rate, bytes per second; 0 for no advice.
    pub rate_bytes_per_s: u64,
    /// The packets that an approximate queue at its other end holds; 0 for one queue, which
    /// exact traffic shares.
    pub queue_depth_packets: u32,
}

/// The adviser of a receiver.
#[derive(Debug)]
pub struct OwnAdvice {
    /// The rate of every line but the loopback; 0 for no advice.
    rate: Rate,
    depth_packets: u32,
    /// Without counters nothing is known of the others, and there is no advice.
    counters: Option<Counters>,
    arrival_lines: ArrivalLines,
    /// By interface.
    lines: BTreeMap<u32, Line>,
    /// DATA beyond the limits since the last tick, bytes on the wire by interface.
    unadvised: BTreeMap<u32, u64>,
    lanes: OpenLanes,
    /// Whether DATA has come since the last tick.
    has_arrivals: bool,
    due_ns: u64,
    /// When arrivals were counted last.
    ticked_ns: u64,
}

impl OwnAdvice {
    /// Call in a thread of the socket's network namespace.
    pub fn new(options: LineOptions) -> Self {
        let rate = Rate::from_bytes_per_s(options.rate_bytes_per_s);
        let counters = match rate == Rate::default() {
            true => None,
            false => Counters::open()
                .inspect_err(|error| tracing::warn!(%error, "no count of arrivals: no advice"))
                .ok(),
        };
        Self::with(rate, counters, options.queue_depth_packets)
    }

    fn with(rate: Rate, counters: Option<Counters>, depth_packets: u32) -> Self {
        Self {
            rate,
            depth_packets,
            counters,
            arrival_lines: ArrivalLines::new(),
            lines: BTreeMap::new(),
            unadvised: BTreeMap::new(),
            lanes: OpenLanes::new(),
            has_arrivals: false,
            due_ns: 0,
            ticked_ns: 0,
        }
    }

    /// Whether it gives advice, so that it needs the interfaces of packets.
    pub const fn gives_advice(&self) -> bool {
        self.counters.is_some()
    }

    /// Counts DATA of an admitted sender at `source`, which has these lanes.
    pub fn count(
        &mut self,
        source: SocketAddr,
        lanes: &mut SourceLanes<CountedLane>,
        interface: u32,
        &Arrived { header, packets, body_bytes }: &Arrived<'_>,
    ) {
        if !self.gives_advice() {
            return;
        }
        self.has_arrivals = true;
        let wire_bytes = wire_bytes(source, packets, body_bytes);
        let group = header.group();
        lanes.open(group, || self.lanes.open());
        match lanes.get_mut(group) {
            Some(lane) => {
                lane.wire_bytes += wire_bytes;
                lane.backlogged = header.flags().contains(Flags::BACKLOGGED);
                lane.interface = interface;
            }
            None => {
                let over = self.arrival_lines.over(interface, source);
                if let Some(over) = over.filter(|over| *over != self.arrival_lines.loopback()) {
                    *self.unadvised.entry(over).or_default() += wire_bytes;
                }
            }
        }
    }

    /// Looks at this host's addresses again, about once a second. Lines without lanes are
    /// forgotten: their interfaces may be gone.
    pub fn refresh(&mut self, endpoint: &mut Endpoint<AdvisedLanes>) {
        self.arrival_lines.forget();
        if !self.lines.is_empty() {
            let lanes = endpoint.lanes_mut().flat_map(|(_, lanes)| lanes.counted.iter_mut());
            let used: BTreeSet<u32> = lanes.filter_map(|(_, lane)| lane.line).collect();
            self.lines.retain(|interface, _| used.contains(interface));
        }
    }

    /// Forgets all lanes and lines: a daemon gives advice from now on.
    pub fn end(&mut self) {
        self.lanes.take_ended().for_each(drop);
        (self.lines, self.unadvised) = (BTreeMap::new(), BTreeMap::new());
        self.has_arrivals = false;
    }

    /// Computes the advice of this moment, if that is due, for the endpoint to take.
    /// `is_drained`: whether no packet waits in the socket. `socket_drops`: the packets that the
    /// socket has dropped.
    pub fn tick(
        &mut self,
        now_ns: u64,
        endpoint: &mut Endpoint<AdvisedLanes>,
        is_drained: bool,
        socket_drops: impl Fn() -> u32,
    ) {
        // A busy thread empties its socket now and then, and samples are best then.
        let due_ns = if is_drained { self.due_ns } else { self.due_ns + TICK_NS };
        if !self.has_arrivals || now_ns < due_ns {
            return;
        }
        (self.has_arrivals, self.due_ns) = (false, now_ns + TICK_NS);
        // After silence, it came in the last window.
        let since_ns = self.ticked_ns.max(now_ns.saturating_sub(WINDOW_NS));
        let span = Span { since_ns: since_ns.min(now_ns), until_ns: now_ns };
        self.ticked_ns = now_ns;
        for lane in self.lanes.take_ended() {
            self.lines.values_mut().for_each(|line| line.remove(lane));
        }
        self.count_lanes(span, endpoint);
        for (interface, wire_bytes) in std::mem::take(&mut self.unadvised) {
            if let Some(line) = self.lines.get_mut(&interface) {
                line.on_unadvised(span, wire_bytes);
            }
        }
        for (&interface, line) in &mut self.lines {
            let sample = || {
                let line_bytes = self.counters.as_mut()?.wire_bytes(interface)?;
                let socket_drops = socket_drops();
                Some(Sample { at_ns: now_ns, line_bytes, socket_drops, is_drained })
            };
            if line.count_others(span, is_drained, sample) {
                tracing::info!(interface, "the interface counts packets too late: no advice");
            }
        }
        self.publish(now_ns, endpoint);
    }

    /// Gives what arrived since the last tick to the lines' advisers.
    fn count_lanes(&mut self, span: Span, endpoint: &mut Endpoint<AdvisedLanes>) {
        let Self { arrival_lines, rate, lines, depth_packets, .. } = self;
        for (address, lanes) in endpoint.lanes_mut() {
            for (_, lane) in lanes.counted.iter_mut() {
                let wire_bytes = std::mem::take(&mut lane.wire_bytes);
                if wire_bytes == 0 {
                    continue;
                }
                let over = arrival_lines.over(lane.interface, address);
                let interface = over.filter(|over| *over != arrival_lines.loopback());
                if lane.line != interface
                    && let Some(old) = lane.line.and_then(|old| lines.get_mut(&old))
                {
                    old.remove(lane.number);
                }
                lane.line = interface;
                if let Some(over) = interface {
                    let new = || Line::new(*rate, *depth_packets);
                    let line = lines.entry(over).or_insert_with(new);
                    line.on_data(span, lane.number, wire_bytes, lane.backlogged);
                }
            }
        }
    }

    fn publish(&mut self, now_ns: u64, endpoint: &mut Endpoint<AdvisedLanes>) {
        for (_, lane) in endpoint.lanes_mut().flat_map(|(_, lanes)| lanes.counted.iter_mut()) {
            let line = lane.line.and_then(|line| self.lines.get_mut(&line));
            lane.advised = line.map_or(Advice::NONE, |line| line.advice(now_ns, lane.number));
        }
    }
}

/// Bytes on the wire of `packets` of DATA from `source`, whose bodies have `body_bytes`. No frame
/// of DATA is so short that it is padded.
fn wire_bytes(source: SocketAddr, packets: u32, body_bytes: usize) -> u64 {
    let headers = if source.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 };
    let frame_bytes = Advice::wire_bytes(headers + HEADER_LEN as u32);
    body_bytes as u64 + u64::from(packets) * u64::from(frame_bytes)
}

#[cfg(test)]
mod tests;
