//! Gives advice to the lanes that arrive: reads the programs' counts, divides each line, and writes
//! the result where the receiving library reads it. The theory is in docs/src/control/advice.md.

mod wake;

use super::{
    quota::{Budget, Held},
    tenant::Tenant,
};
use atp_common::{
    laws::advice::{Span, WINDOW_NS},
    maps::{ADVISED_LANES, LINES, RECEIVER_LANES, arrivals::ArrivalKey},
    units::Rate,
    wire::Advice,
};
use atp_datapath::{ArrivalCounts, ArrivingMap, DatapathError};
use atp_proto::{Adviser, AdviserConfig, Rest, WireBytes};
use slab::Slab;
use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    time::Duration,
};
use tokio::sync::Notify;
use wake::{Wake, Waker};

/// Without arrivals for this long, the daemon no longer looks at the counts.
const AWAKE_NS: u64 = 100_000_000;
/// The most lanes that open or close in a tick: each takes a system call.
const CHANGES_MAX: usize = 64;

/// The advice of this host to the senders of all its receivers.
pub struct AdviceGiver {
    /// By interface.
    lines: BTreeMap<u32, Line>,
    /// By port.
    receivers: BTreeMap<u16, ReceiverLanes>,
    /// By index in the datapath.
    lanes: Slab<CountedLane>,
    budget: Budget,
    /// The port whose changes were taken in last.
    last_port: u16,
    arrived_ns: u64,
    /// When the counts were read last.
    counted_ns: u64,
    asleep: bool,
    wake: Wake,
    /// The packets that an approximate queue of the switches' ports to this host holds.
    depth_packets: u32,
}

/// The line of an interface whose rate is known.
struct Line {
    rate: Rate,
    adviser: Adviser<u16>,
    /// The count at the last tick.
    bytes: WireBytes,
    /// Bytes of lanes in this tick.
    of_lanes: WireBytes,
    rest: Rest,
}

struct ReceiverLanes {
    map: ArrivingMap,
    owner: Tenant,
    /// The number of changes that were taken in.
    changes: u64,
    /// By element: the number and the index of its lane. A lane without an index found no room.
    elements: Vec<(u32, Option<u16>)>,
    _waker: Waker,
}

/// A lane that the programs count.
struct CountedLane {
    port: u16,
    element: usize,
    number: u32,
    key: ArrivalKey,
    /// The count at the last tick.
    bytes: WireBytes,
    /// The interface over which it arrives.
    line: Option<u32>,
    advised: Advice,
    /// The lane's place in the budget, once it is open.
    _place: Option<Held>,
}

impl AdviceGiver {
    /// An adviser without lines. `notify` ends the control loop's long tick. `depth_packets`: what
    /// an approximate queue of the switches' ports to this host holds; 0 for one
    /// queue.
    pub fn new(notify: Rc<Notify>, depth_packets: u32) -> Self {
        Self {
            lines: BTreeMap::new(),
            receivers: BTreeMap::new(),
            lanes: Slab::new(),
            budget: Budget::new("lanes with advice", ADVISED_LANES as usize),
            last_port: 0,
            arrived_ns: 0,
            counted_ns: 0,
            asleep: true,
            wake: Wake::new(notify),
            depth_packets,
        }
    }

    /// Whether lanes arrive, so that the control loop should run at every tick.
    pub const fn is_awake(&self) -> bool {
        !self.asleep
    }

    /// Sets the interfaces and the rates of their lines.
    pub fn set_lines(&mut self, rates: &BTreeMap<u32, Rate>) {
        let place = |interface: u32| interface as usize % LINES;
        let shares_counter = |interface: &u32| {
            rates.keys().filter(|other| place(**other) == place(*interface)).count() > 1
        };
        self.lines.retain(|interface, line| {
            rates.get(interface) == Some(&line.rate) && !shares_counter(interface)
        });
        for (&interface, &rate) in rates {
            if shares_counter(&interface) {
                tracing::warn!(interface, "two interfaces share a counter: no advice for them");
                continue;
            }
            self.lines.entry(interface).or_insert_with(|| Line {
                rate,
                adviser: Adviser::new(AdviserConfig {
                    line_bytes_per_s: rate.bytes_per_s(),
                    // One computation a tick.
                    interval_ns: 1,
                    window_ns: WINDOW_NS,
                    depth_packets: self.depth_packets,
                }),
                bytes: WireBytes::default(),
                of_lanes: WireBytes::default(),
                rest: Rest::default(),
            });
        }
        // The next tick begins with the present counts.
        self.asleep = true;
        self.wake.set();
    }

    /// Adds a receiver with its map. Returns the descriptors for its library: the map, and an
    /// eventfd to wake the daemon.
    pub fn add_receiver(
        &mut self,
        port: u16,
        owner: Tenant,
        map: ArrivingMap,
    ) -> io::Result<[OwnedFd; 2]> {
        let (theirs, waker) = self.wake.listen(Duration::from_nanos(AWAKE_NS / 2))?;
        let fds = [map.as_fd().try_clone_to_owned()?, theirs];
        map.set_asleep(self.asleep);
        let elements = vec![(0, None); RECEIVER_LANES];
        self.receivers
            .insert(port, ReceiverLanes { map, owner, changes: 0, elements, _waker: waker });
        Ok(fds)
    }

    /// Removes a receiver with its lanes.
    pub fn remove_receiver(&mut self, counts: &ArrivalCounts, port: u16) {
        let Some(receiver) = self.receivers.remove(&port) else { return };
        for (_, lane) in receiver.elements {
            lane.into_iter().for_each(|lane| self.close(counts, lane));
        }
    }

    /// Computes and publishes the advice of this moment.
    pub fn tick(&mut self, now_ns: u64, counts: &ArrivalCounts) {
        let has_woken = self.wake.take() && self.asleep;
        if has_woken {
            self.set_asleep(false);
            self.arrived_ns = now_ns;
        }
        if self.asleep {
            return;
        }
        self.take_changes(counts);
        let span = Span { since_ns: self.counted_ns.min(now_ns), until_ns: now_ns };
        self.count(span, counts, has_woken);
        self.counted_ns = now_ns;
        for (index, lane) in &mut self.lanes {
            let line = lane.line.and_then(|line| self.lines.get_mut(&line));
            // Without a line, receipts say that there is no advice.
            let advice =
                line.map_or(Advice::NONE, |line| line.adviser.advice(now_ns, index as u16));
            if advice != lane.advised
                && let Some(receiver) = self.receivers.get(&lane.port)
            {
                receiver.map.advise(lane.element, lane.number, advice);
                lane.advised = advice;
            }
        }
        if now_ns.saturating_sub(self.arrived_ns) > AWAKE_NS {
            self.set_asleep(true);
        }
    }

    fn set_asleep(&mut self, asleep: bool) {
        self.asleep = asleep;
        self.receivers.values().for_each(|receiver| receiver.map.set_asleep(asleep));
    }

    /// Gives what arrived since the last tick to the lines' advisers. With `skip`, the last tick is
    /// too long ago, and only later arrivals count.
    fn count(&mut self, span: Span, counts: &ArrivalCounts, skip: bool) {
        for (index, lane) in &mut self.lanes {
            let arrived = counts.lane(index as u16);
            let bytes = WireBytes::from(arrived).since(lane.bytes);
            lane.bytes = arrived.into();
            if bytes.all == 0 || skip {
                continue;
            }
            self.arrived_ns = span.until_ns;
            let line = Some(arrived.interface).filter(|line| self.lines.contains_key(line));
            if lane.line != line
                && let Some(old) = lane.line.and_then(|old| self.lines.get_mut(&old))
            {
                old.adviser.remove(index as u16);
            }
            lane.line = line;
            if let Some(line) = line.and_then(|line| self.lines.get_mut(&line)) {
                line.of_lanes.all += bytes.all;
                line.of_lanes.approximate += bytes.approximate;
                line.adviser.on_data(span, index as u16, bytes.all, arrived.backlogged != 0);
            }
        }
        for (interface, line) in &mut self.lines {
            let arrived = counts.line_bytes(*interface as usize % LINES);
            let bytes = arrived.since(line.bytes);
            line.bytes = arrived;
            let of_lanes = std::mem::take(&mut line.of_lanes);
            if skip {
                line.rest = Rest::default();
                continue;
            }
            let WireBytes { all, approximate } = line.rest.of(bytes, of_lanes);
            line.adviser.on_unadvised(span, approximate);
            line.adviser.on_other(span, all - approximate);
        }
    }

    /// Opens and closes lanes as the libraries ask for. The receivers take turns.
    fn take_changes(&mut self, counts: &ArrivalCounts) {
        let is_changed =
            |(_, receiver): &(&u16, &ReceiverLanes)| receiver.map.changes() != receiver.changes;
        let changed = self.receivers.iter().filter(is_changed).map(|(port, _)| *port);
        let mut ports: Vec<u16> = changed.collect();
        let later = ports.partition_point(|port| *port <= self.last_port);
        ports.rotate_left(later);
        let mut left = CHANGES_MAX;
        for port in ports {
            let Some(mut receiver) = self.receivers.remove(&port) else { continue };
            let changes = receiver.map.changes();
            let is_complete = self.take_changes_of(counts, port, &mut receiver, &mut left);
            if is_complete {
                receiver.changes = changes;
            }
            self.receivers.insert(port, receiver);
            self.last_port = port;
            if !is_complete {
                return;
            }
        }
    }

    /// Returns whether there was time for all changes.
    fn take_changes_of(
        &mut self,
        counts: &ArrivalCounts,
        port: u16,
        receiver: &mut ReceiverLanes,
        left: &mut usize,
    ) -> bool {
        let ReceiverLanes { map, elements, owner, .. } = receiver;
        // All closed lanes go first: an element may have a key that another one had.
        for (element, known) in elements.iter_mut().enumerate().skip(1) {
            if map.number(element) == known.0 || known.1.is_none() {
                continue;
            }
            let Some(rest) = left.checked_sub(1) else { return false };
            *left = rest;
            known.1.take().into_iter().for_each(|lane| self.close(counts, lane));
        }
        for (element, known) in elements.iter_mut().enumerate().skip(1) {
            let number = map.number(element);
            if number == known.0 {
                continue;
            }
            let Some(rest) = left.checked_sub(1) else { return false };
            *left = rest;
            // The library may have changed it since.
            known.1.take().into_iter().for_each(|lane| self.close(counts, lane));
            let lane = (number != 0).then(|| {
                let key = map.key(element, port);
                self.open(counts, *owner, CountedLane::new(port, element, number, key))
            });
            *known = (number, lane.flatten());
        }
        true
    }

    /// `None` without room for it: its sender then gets no advice.
    fn open(
        &mut self,
        counts: &ArrivalCounts,
        owner: Tenant,
        mut lane: CountedLane,
    ) -> Option<u16> {
        lane._place = Some(self.budget.take(owner, 1).ok()?);
        let entry = self.lanes.vacant_entry();
        let index = entry.key() as u16;
        lane.bytes = counts.lane(index).into();
        log_failure(counts.add(index, &lane.key))?;
        entry.insert(lane);
        Some(index)
    }

    fn close(&mut self, counts: &ArrivalCounts, index: u16) {
        let Some(lane) = self.lanes.try_remove(usize::from(index)) else { return };
        log_failure(counts.remove(&lane.key));
        if let Some(line) = lane.line.and_then(|line| self.lines.get_mut(&line)) {
            line.adviser.remove(index);
        }
    }
}

impl CountedLane {
    fn new(port: u16, element: usize, number: u32, key: ArrivalKey) -> Self {
        let (bytes, line, advised) = (WireBytes::default(), None, Advice::NONE);
        Self { port, element, number, key, bytes, line, advised, _place: None }
    }
}

fn log_failure(outcome: Result<(), DatapathError>) -> Option<()> {
    outcome.map_err(|error| tracing::warn!(%error, "counting an arriving lane failed")).ok()
}
