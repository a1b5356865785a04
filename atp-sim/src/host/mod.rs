//! A host: the ends of its flows, and one line that they share.
//!
//! The line takes what the host's stack would give it: control packets first, then data in the order
//! of departure times, as fq does; a packet of data is made when the line is free for it, so nothing
//! waits in the host but at its sender. Pulls are control packets that the interface paces; credits wait
//! at the line's port, whose discipline limits their rate.

mod pulls;

use crate::{
    engine::{Calendar, Kind},
    net::{CREDIT_DSCP, Departure, Fate, Packet, Packets, Port},
    scheme::{Context, Endpoint},
};
use pulls::Pulls;
use std::collections::{BTreeSet, VecDeque};

/// One end of a flow on a host.
pub type Place = u32;

/// A host.
pub struct Host {
    node: u32,
    /// Its line.
    pub port: Port,
    endpoints: Vec<Standing>,
    control: VecDeque<Packet>,
    /// Empty between events.
    out: Vec<Packet>,
    /// Empty between events.
    due: Vec<Place>,
    pulls: Pulls,
    /// Ends that may have data, by the time from which on they may send it.
    ready: BTreeSet<(u64, Place)>,
    /// Ends that want to be woken.
    wakes: BTreeSet<(u64, Place)>,
    /// An event will come when the line is free.
    expects_line: bool,
    /// An event will come at this time.
    expects_wake_ps: Option<u64>,
}

/// An end, and under which times it is filed.
struct Standing {
    endpoint: Box<dyn Endpoint>,
    ready_ps: Option<u64>,
    wake_ps: Option<u64>,
    wants_pull: bool,
}

/// What the world around a host is to it.
pub struct World<'a> {
    /// Events to come.
    pub calendar: &'a mut Calendar,
    /// Packets under way.
    pub packets: &'a mut Packets,
}

impl Host {
    /// A host without flows.
    pub fn new(node: u32, port: Port) -> Self {
        Self {
            node,
            port,
            endpoints: Vec::new(),
            control: VecDeque::new(),
            out: Vec::new(),
            due: Vec::new(),
            pulls: Pulls::default(),
            ready: BTreeSet::new(),
            wakes: BTreeSet::new(),
            expects_line: false,
            expects_wake_ps: None,
        }
    }

    /// One more end.
    pub fn add(&mut self, endpoint: Box<dyn Endpoint>) -> Place {
        self.endpoints.push(Standing {
            endpoint,
            ready_ps: None,
            wake_ps: None,
            wants_pull: false,
        });
        self.endpoints.len() as Place - 1
    }

    /// One of its ends.
    pub fn endpoint(&self, place: Place) -> &dyn Endpoint {
        &*self.endpoints[place as usize].endpoint
    }

    /// Has an end do something; returns how many messages were delivered by it.
    pub fn call(
        &mut self,
        now_ps: u64,
        place: Place,
        world: &mut World<'_>,
        work: impl FnOnce(&mut dyn Endpoint, &mut Context<'_>),
    ) -> u32 {
        let delivered = self.run(now_ps, place, world, work);
        self.pump(now_ps, world);
        delivered
    }

    /// The time that it wanted to be woken at.
    pub fn wake(&mut self, now_ps: u64, world: &mut World<'_>) {
        if self.expects_wake_ps == Some(now_ps) {
            self.expects_wake_ps = None;
            self.pump(now_ps, world);
        }
    }

    /// The line is free.
    pub fn line_free(&mut self, now_ps: u64, world: &mut World<'_>) {
        self.expects_line = false;
        self.pump(now_ps, world);
    }

    fn run(
        &mut self,
        now_ps: u64,
        place: Place,
        world: &mut World<'_>,
        work: impl FnOnce(&mut dyn Endpoint, &mut Context<'_>),
    ) -> u32 {
        let mut delivered = 0;
        let mut context = Context { now_ps, out: &mut self.out, delivered: &mut delivered };
        let endpoint = &mut *self.endpoints[place as usize].endpoint;
        work(endpoint, &mut context);
        if self.pulls.is_free(now_ps) && endpoint.wants_pull() {
            let wire_bytes = endpoint.pull(&mut context);
            self.pulls.note(now_ps, place, wire_bytes, self.port.bits_per_s());
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
        self.file(place);
        delivered
    }

    /// Files an end under the times that it names now.
    fn file(&mut self, place: Place) {
        let standing = &mut self.endpoints[place as usize];
        refile(&mut self.ready, &mut standing.ready_ps, standing.endpoint.ready_ps(), place);
        refile(&mut self.wakes, &mut standing.wake_ps, standing.endpoint.wake_ps(), place);
        let wants_pull = standing.endpoint.wants_pull();
        if standing.wants_pull != wants_pull {
            standing.wants_pull = wants_pull;
            self.pulls.file(place, wants_pull);
        }
    }

    /// Wakes who wants to be woken, gives the line what it takes, and sees to it that events come.
    fn pump(&mut self, now_ps: u64, world: &mut World<'_>) {
        // Whoever names a time in the past again is woken with the next event.
        if self.wakes.first().is_some_and(|(at_ps, _)| *at_ps <= now_ps) {
            let mut due = std::mem::take(&mut self.due);
            due.extend(self.wakes.range(..=(now_ps, Place::MAX)).map(|(_, place)| *place));
            for place in due.drain(..) {
                let delivered =
                    self.run(now_ps, place, world, |endpoint, context| endpoint.wake(context));
                assert_eq!(delivered, 0, "messages come with packets");
            }
            self.due = due;
        }
        if let Some(place) = self.pulls.next(now_ps) {
            self.pull(now_ps, place);
        }
        if let Some(departure) = self.port.depart(now_ps) {
            depart(departure, world);
        }
        if now_ps >= self.port.free_ps()
            && let Some(packet) = self.next_packet(now_ps)
        {
            self.offer(now_ps, packet, world);
        }
        self.expect(now_ps, world.calendar);
    }

    fn pull(&mut self, now_ps: u64, place: Place) {
        let (mut out, mut delivered) = (Vec::new(), 0);
        let mut context = Context { now_ps, out: &mut out, delivered: &mut delivered };
        let wire_bytes = self.endpoints[place as usize].endpoint.pull(&mut context);
        self.pulls.note(now_ps, place, wire_bytes, self.port.bits_per_s());
        self.control.extend(out);
        self.file(place);
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        if let Some(packet) = self.control.pop_front() {
            return Some(packet);
        }
        while let Some(&(at_ps, place)) = self.ready.first()
            && at_ps <= now_ps
        {
            let packet = self.endpoints[place as usize].endpoint.next_packet(now_ps);
            self.file(place);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// Gives a packet to the line's port: a credit at any time, everything else when it is free.
    fn offer(&mut self, now_ps: u64, packet: Packet, world: &mut World<'_>) {
        let id = world.packets.insert(packet);
        match self.port.offer(now_ps, id, world.packets, u64::MAX, &mut Vec::new()) {
            Fate::Leaves(departure) => depart(departure, world),
            Fate::Waits(_) => {}
            Fate::Dropped => drop(world.packets.remove(id)),
        }
    }

    fn expect(&mut self, now_ps: u64, calendar: &mut Calendar) {
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
        let wake_ps = wake_ps.into_iter().chain(self.pulls.due_ps()).min();
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

fn refile(
    times: &mut BTreeSet<(u64, Place)>,
    filed: &mut Option<u64>,
    now: Option<u64>,
    place: Place,
) {
    if *filed == now {
        return;
    }
    if let Some(at_ps) = *filed {
        times.remove(&(at_ps, place));
    }
    if let Some(at_ps) = now {
        times.insert((at_ps, place));
    }
    *filed = now;
}
