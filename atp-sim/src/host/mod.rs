//! A host: the endpoints of its flows, and one line that they share.
//!
//! The line gets control packets first, then data in the order of departure times, as with fq. A
//! data packet is made when the line is free for it, so data waits only at its sender. Pulls are
//! control packets, paced by the pull queue. Credits wait at the line's port, whose discipline
//! limits their rate.

mod pull_queue;

use crate::{
    engine::{Calendar, Kind},
    net::{CREDIT_DSCP, Departure, Fate, Port},
    scheme::{Context, Endpoint, HostState, Packet, PacketBody, Packets},
};
use pull_queue::PullQueue;
use std::collections::{BTreeSet, VecDeque};

/// An endpoint's number on its host.
pub type EndpointId = u32;

/// A host.
pub struct Host {
    node: u32,
    /// The port of the host's line.
    pub port: Port,
    /// State that the endpoints share.
    pub state: HostState,
    endpoints: Vec<Slot>,
    control: VecDeque<Packet>,
    /// The output of an endpoint's call, empty between events. Reused to avoid allocations.
    out: Vec<Packet>,
    /// The endpoints to wake, empty between events. Reused to avoid allocations.
    due: Vec<EndpointId>,
    pull_queue: PullQueue,
    /// Endpoints that may have data, by the earliest time at which they may send.
    ready: BTreeSet<(u64, EndpointId)>,
    /// Endpoints to be woken, by time.
    wakes: BTreeSet<(u64, EndpointId)>,
    /// Whether an event is scheduled for when the line is free.
    expects_line: bool,
    /// The time of the scheduled wake event.
    expects_wake_ps: Option<u64>,
}

/// An endpoint, and its keys in the host's queues.
struct Slot {
    endpoint: Box<dyn Endpoint>,
    ready_ps: Option<u64>,
    wake_ps: Option<u64>,
    wants_pull: bool,
}

/// The parts of the simulation that a host uses.
pub struct World<'a> {
    /// Future events.
    pub calendar: &'a mut Calendar,
    /// Packets in flight.
    pub packets: &'a mut Packets,
}

impl Host {
    /// A host without flows.
    pub fn new(node: u32, port: Port) -> Self {
        Self {
            node,
            state: HostState::new(port.bits_per_s()),
            port,
            endpoints: Vec::new(),
            control: VecDeque::new(),
            out: Vec::new(),
            due: Vec::new(),
            pull_queue: PullQueue::default(),
            ready: BTreeSet::new(),
            wakes: BTreeSet::new(),
            expects_line: false,
            expects_wake_ps: None,
        }
    }

    /// Adds an endpoint.
    pub fn add(&mut self, endpoint: Box<dyn Endpoint>) -> EndpointId {
        self.endpoints.push(Slot { endpoint, ready_ps: None, wake_ps: None, wants_pull: false });
        self.endpoints.len() as EndpointId - 1
    }

    /// An endpoint of the host.
    pub fn endpoint(&self, id: EndpointId) -> &dyn Endpoint {
        &*self.endpoints[id as usize].endpoint
    }

    /// Calls an endpoint. Returns the number of messages that it delivered.
    pub fn call(
        &mut self,
        now_ps: u64,
        id: EndpointId,
        world: &mut World<'_>,
        work: impl FnOnce(&mut dyn Endpoint, &mut Context<'_>),
    ) -> u32 {
        let delivered = self.run(now_ps, id, world, work);
        self.pump(now_ps, world);
        delivered
    }

    /// Handles a wake event.
    pub fn wake(&mut self, now_ps: u64, world: &mut World<'_>) {
        if self.expects_wake_ps == Some(now_ps) {
            self.expects_wake_ps = None;
            self.pump(now_ps, world);
        }
    }

    /// Handles the event that the line is free.
    pub fn line_free(&mut self, now_ps: u64, world: &mut World<'_>) {
        self.expects_line = false;
        self.pump(now_ps, world);
    }

    fn run(
        &mut self,
        now_ps: u64,
        id: EndpointId,
        world: &mut World<'_>,
        work: impl FnOnce(&mut dyn Endpoint, &mut Context<'_>),
    ) -> u32 {
        let mut delivered = 0;
        let (out, host) = (&mut self.out, &mut self.state);
        let mut context = Context { now_ps, out, delivered: &mut delivered, host };
        let endpoint = &mut *self.endpoints[id as usize].endpoint;
        work(endpoint, &mut context);
        if self.pull_queue.is_free(now_ps) && endpoint.wants_pull() {
            let wire_bytes = endpoint.pull(&mut context);
            self.pull_queue.note(now_ps, id, wire_bytes, self.port.bits_per_s());
        }
        let mut out = std::mem::take(&mut self.out);
        for packet in out.drain(..) {
            if packet.label.dscp == CREDIT_DSCP {
                self.offer(now_ps, packet, world);
            } else {
                self.control.push_back(packet);
            }
        }
        self.out = out;
        self.update_keys(id);
        delivered
    }

    /// Updates an endpoint's keys in the host's queues.
    fn update_keys(&mut self, id: EndpointId) {
        let slot = &mut self.endpoints[id as usize];
        update_key(&mut self.ready, &mut slot.ready_ps, slot.endpoint.ready_ps(), id);
        update_key(&mut self.wakes, &mut slot.wake_ps, slot.endpoint.wake_ps(), id);
        let wants_pull = slot.endpoint.wants_pull();
        if slot.wants_pull != wants_pull {
            slot.wants_pull = wants_pull;
            self.pull_queue.set(id, wants_pull);
        }
    }

    /// Wakes endpoints, gives packets to the line, and schedules the next events.
    fn pump(&mut self, now_ps: u64, world: &mut World<'_>) {
        // An endpoint whose new wake time is in the past again is woken with the next event.
        if self.wakes.first().is_some_and(|(at_ps, _)| *at_ps <= now_ps) {
            let mut due = std::mem::take(&mut self.due);
            due.extend(self.wakes.range(..=(now_ps, EndpointId::MAX)).map(|(_, id)| *id));
            for id in due.drain(..) {
                let delivered =
                    self.run(now_ps, id, world, |endpoint, context| endpoint.wake(context));
                assert_eq!(delivered, 0, "only packets deliver messages");
            }
            self.due = due;
        }
        if let Some(id) = self.pull_queue.next(now_ps) {
            self.pull(now_ps, id);
        }
        if let Some(departure) = self.port.depart(now_ps) {
            depart(departure, world);
        }
        if now_ps >= self.port.free_ps()
            && let Some(packet) = self.next_packet(now_ps)
        {
            self.offer(now_ps, packet, world);
        }
        self.schedule(now_ps, world.calendar);
    }

    fn pull(&mut self, now_ps: u64, id: EndpointId) {
        let (mut out, mut delivered) = (Vec::new(), 0);
        let host = &mut self.state;
        let mut context = Context { now_ps, out: &mut out, delivered: &mut delivered, host };
        let wire_bytes = self.endpoints[id as usize].endpoint.pull(&mut context);
        self.pull_queue.note(now_ps, id, wire_bytes, self.port.bits_per_s());
        self.control.extend(out);
        self.update_keys(id);
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        if let Some(packet) = self.control.pop_front() {
            return Some(packet);
        }
        while let Some(&(at_ps, id)) = self.ready.first()
            && at_ps <= now_ps
        {
            let packet = self.endpoints[id as usize].endpoint.next_packet(now_ps);
            self.update_keys(id);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// Gives a packet to the line's port: a credit at any time, other packets when the line is
    /// free.
    fn offer(&mut self, now_ps: u64, mut packet: Packet, world: &mut World<'_>) {
        packet.label.content = packet.body.content(&packet.label);
        let id = world.packets.insert(packet);
        match self.port.offer(now_ps, id, world.packets.labels_mut(), u64::MAX, &mut Vec::new()) {
            Fate::Leaves(departure) => depart(departure, world),
            Fate::Queued(_) => {}
            Fate::Dropped => drop(world.packets.remove(id)),
        }
    }

    fn schedule(&mut self, now_ps: u64, calendar: &mut Calendar) {
        let free_ps = self.port.free_ps().max(now_ps);
        let ready_ps = self.ready.first().map(|(at_ps, _)| *at_ps);
        let ready_ps = ready_ps.into_iter().chain(self.port.ready_ps()).min();
        let has_more = !self.control.is_empty() || ready_ps.is_some_and(|at_ps| at_ps <= free_ps);
        if has_more && !self.expects_line {
            self.expects_line = true;
            calendar.add(free_ps, Kind::PortFree, self.node, 0);
        }
        let later_ps = ready_ps.filter(|at_ps| *at_ps > free_ps);
        let wake_ps = self.wakes.first().map(|(at_ps, _)| *at_ps);
        let wake_ps = wake_ps.into_iter().chain(self.pull_queue.due_ps()).min();
        let wake_ps = wake_ps.map(|at_ps| at_ps.max(now_ps + 1));
        let Some(next_ps) = later_ps.into_iter().chain(wake_ps).min() else { return };
        if self.expects_wake_ps.is_none_or(|at_ps| next_ps < at_ps) {
            self.expects_wake_ps = Some(next_ps);
            calendar.add(next_ps, Kind::Wake, self.node, 0);
        }
    }
}

fn depart(departure: Departure, world: &mut World<'_>) {
    let Departure { packet, to, arrives_ps } = departure;
    world.calendar.add(arrives_ps, Kind::Arrival, to, packet);
}

fn update_key(
    times: &mut BTreeSet<(u64, EndpointId)>,
    key: &mut Option<u64>,
    now: Option<u64>,
    id: EndpointId,
) {
    if *key == now {
        return;
    }
    if let Some(at_ps) = *key {
        times.remove(&(at_ps, id));
    }
    if let Some(at_ps) = now {
        times.insert((at_ps, id));
    }
    *key = now;
}
