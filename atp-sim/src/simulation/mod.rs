//! The simulation: hosts, switches and flows, and the event loop.

mod ecmp;
mod flow;

pub use flow::{Messages, NewFlow, Progress};

use crate::{
    engine::{Calendar, Kind, NS},
    host::{Host, World},
    net::{
        Counters, Departure, Fate, FlowId, HostId, Link, PacketId, Port, PortQueues, Queued,
        Switch, Topology,
    },
    scheme::{Endpoint, Ends, Packet, PacketBody, Packets, Route},
    waste::{Account, Spent},
};
use ecmp::Connections;
use flow::{Flow, Times};
use std::collections::{BTreeMap, VecDeque};

/// The arrivals of useful data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsefulArrivals {
    /// Number of data packets with data that their job needed and didn't have.
    pub packets: u64,
    /// The time of the last such arrival, picoseconds.
    pub at_ps: u64,
}

/// A network of hosts with flows.
pub struct Simulation {
    now_ps: u64,
    events: u64,
    calendar: Calendar,
    packets: Packets,
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    flows: Vec<Flow>,
    connections: Connections,
    /// Number of flows whose needed messages aren't delivered.
    open: usize,
    /// Flows whose needed messages are delivered, until [`Self::next_done`] returns them.
    done: VecDeque<FlowId>,
    /// Buffer for displaced packets, empty between events.
    displaced: Vec<Queued>,
    dropped: BTreeMap<FlowId, u64>,
    useful_arrivals: UsefulArrivals,
}

impl Simulation {
    /// Makes a network without flows.
    pub fn new(topology: &Topology, queues: PortQueues) -> Self {
        let PortQueues { to_hosts, between_switches, buffer_bytes } = queues;
        let of_hosts = PortQueues::of_hosts(&to_hosts);
        let host = |(node, link)| Host::new(node, Port::new(link, &of_hosts));
        let hosts = (0..).zip(topology.host_links.iter().copied()).map(host).collect();
        let switch = |wiring: &crate::net::topology::Wiring| {
            let leads_to_host = |link: &Link| link.to < topology.hosts;
            let queueing = |link| if leads_to_host(link) { &to_hosts } else { &between_switches };
            let ports = wiring.links.iter().map(|link| Port::new(*link, queueing(link))).collect();
            Switch::new(wiring.routes.clone(), ports, buffer_bytes)
        };
        Self {
            now_ps: 0,
            events: 0,
            calendar: Calendar::default(),
            packets: Packets::default(),
            hosts,
            switches: topology.switches.iter().map(switch).collect(),
            flows: Vec::new(),
            connections: Connections::default(),
            open: 0,
            done: VecDeque::new(),
            displaced: Vec::new(),
            dropped: BTreeMap::new(),
            useful_arrivals: UsefulArrivals::default(),
        }
    }

    /// Adds a flow. `ends` makes its sender and its receiver.
    ///
    /// # Panics
    /// If source and destination are the same host.
    pub fn add(&mut self, new: NewFlow, ends: impl FnOnce(Route) -> Ends) -> FlowId {
        assert_ne!(new.source, new.destination, "a flow from a host to itself");
        let flow = self.flows.len() as FlowId;
        let earlier =
            new.continues.map(|flow| (self.flows[flow as usize].route, self.sender(flow)));
        let learned = earlier.and_then(|(_, sender)| sender.path_state());
        let path = earlier.map(|(route, _)| route.path);
        let path = path.unwrap_or_else(|| self.connections.path(&new));
        let NewFlow { source, destination, sprayed, began_ps, messages, needed, stops, .. } = new;
        let route = Route { flow, source, destination, sprayed, path };
        let (mut sender, receiver) = ends(route);
        if let Some(state) = learned {
            sender.resume(state);
        }
        let sender = self.hosts[source as usize].add(sender);
        let receiver = self.hosts[destination as usize].add(receiver);
        let mut messages = messages.peekable();
        if let Some((at_ps, _)) = messages.peek() {
            self.calendar.add(*at_ps, Kind::Application, source, flow);
        }
        let progress = Progress { began_ps, ..Progress::default() };
        let times = new.timed.then(Times::default);
        let account = Account::default();
        self.flows.push(Flow {
            route,
            sender,
            receiver,
            messages,
            needed,
            stops,
            progress,
            times,
            account,
        });
        self.open += usize::from(needed > 0);
        flow
    }

    /// Runs until every flow is complete (has its needed messages), no event is left, or the time
    /// is `end_ps`. Returns whether every flow is complete.
    pub fn run(&mut self, end_ps: u64) -> bool {
        while self.open > 0 {
            if !self.step(end_ps) {
                break;
            }
        }
        self.open == 0
    }

    /// Runs until one more flow is complete, and returns it. Flows are returned in the order of
    /// completion. `None` if no event is left, or the time is `end_ps`.
    pub fn next_done(&mut self, end_ps: u64) -> Option<FlowId> {
        loop {
            let done = self.done.pop_front();
            if done.is_some() || !self.step(end_ps) {
                return done;
            }
        }
    }

    /// Drops a flow's later messages and unsent data. Not for schemes that stop by themselves.
    pub fn end_messages(&mut self, flow: FlowId) {
        let Flow { messages, route, sender, .. } = &mut self.flows[flow as usize];
        let none: Messages = Box::new(std::iter::empty());
        *messages = none.peekable();
        let mut world = World { calendar: &mut self.calendar, packets: &mut self.packets };
        let host = &mut self.hosts[route.source as usize];
        host.call(self.now_ps, *sender, &mut world, |endpoint, _| endpoint.stop());
    }

    /// Runs until `end_ps`, or until no event is left.
    pub fn run_on(&mut self, end_ps: u64) {
        while self.step(end_ps) {}
    }

    /// Current time, picoseconds.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether no event is left.
    pub fn is_over(&self) -> bool {
        self.calendar.is_empty()
    }

    /// Arrivals of useful data so far.
    pub fn useful_arrivals(&self) -> UsefulArrivals {
        self.useful_arrivals
    }

    /// Number of flows, which are numbered from 0.
    pub fn flows(&self) -> FlowId {
        self.flows.len() as FlowId
    }

    /// A flow's progress.
    pub fn progress(&self, flow: FlowId) -> Progress {
        self.flows[flow as usize].progress
    }

    /// Completion times of a flow's messages, picoseconds. Empty unless the flow is timed.
    pub fn times_ps(&self, flow: FlowId) -> &[u64] {
        self.flows[flow as usize].times.as_ref().map_or(&[], |times| &times.took_ps)
    }

    /// Packets of a flow that switches dropped, in either direction. Credits that a host's own port
    /// dropped are only in that port's counters.
    pub fn dropped(&self, flow: FlowId) -> u64 {
        self.dropped.get(&flow).copied().unwrap_or(0)
    }

    /// The use of the data that a flow's sender sent.
    pub fn spent(&self, flow: FlowId) -> Spent {
        self.flows[flow as usize].account.spent()
    }

    /// Number of packets stored, at hosts, in switches and on lines. Tests compare it with the
    /// counters of ports, which don't show a packet that is never removed.
    pub fn packets_in_flight(&self) -> usize {
        self.packets.count()
    }

    /// A host.
    pub fn host(&self, host: HostId) -> &Host {
        &self.hosts[host as usize]
    }

    /// The sender of a flow.
    pub fn sender(&self, flow: FlowId) -> &dyn Endpoint {
        let flow = &self.flows[flow as usize];
        self.hosts[flow.route.source as usize].endpoint(flow.sender)
    }

    /// Counters of a switch's port.
    pub fn port(&self, switch: usize, port: usize) -> Counters {
        self.switches[switch].ports[port].counters(self.now_ps)
    }

    /// Counters of all ports of all switches, in order.
    pub fn ports(&self) -> impl Iterator<Item = Counters> + '_ {
        self.ports_at(self.now_ps)
    }

    /// Counters of all ports of all switches at `at_ps`, if no event comes before.
    pub fn ports_at(&self, at_ps: u64) -> impl Iterator<Item = Counters> + '_ {
        let ports = self.switches.iter().flat_map(|switch| &switch.ports);
        ports.map(move |port| port.counters(at_ps))
    }

    /// Packets that hosts have sent.
    pub fn packets_sent(&self) -> u64 {
        self.hosts.iter().map(|host| host.port.counters(self.now_ps).sent_packets).sum()
    }

    /// Packets in the queues of all switches.
    pub fn waiting(&self) -> u64 {
        let ports = self.switches.iter().flat_map(|switch| &switch.ports);
        ports.map(|port| u64::from(port.waiting_packets())).sum()
    }

    /// Handles one event, unless it is later than `end_ps`.
    fn step(&mut self, end_ps: u64) -> bool {
        let Some(event) = self.calendar.next_until(end_ps) else { return false };
        self.now_ps = event.at_ps;
        self.events += 1;
        let (node, item) = (event.node(), event.item);
        match (event.kind(), self.switch_of(node)) {
            (Kind::Arrival, Some(switch)) => self.forward(switch, item),
            (Kind::Arrival, None) => self.arrive(node, item),
            (Kind::PortFree, Some(switch)) => self.port_free(switch, item as usize),
            (Kind::PortFree, None) => {
                self.at_host(node, |host, now, world| host.line_free(now, world))
            }
            (Kind::Wake, _) => self.at_host(node, |host, now, world| host.wake(now, world)),
            (Kind::Application, _) => self.application(item),
        }
        true
    }

    fn switch_of(&self, node: u32) -> Option<usize> {
        (node as usize).checked_sub(self.hosts.len())
    }

    fn forward(&mut self, switch: usize, packet: PacketId) {
        let label = self.packets.labels_mut().note_switch(packet);
        if label.switches == 1 && label.content.is_data() {
            self.flows[label.flow as usize].account.send(label.wire_bytes);
        }
        let (labels, displaced) = (self.packets.labels_mut(), &mut self.displaced);
        let (port, fate) = self.switches[switch].take(self.now_ps, packet, labels, displaced);
        while let Some(gone) = self.displaced.pop() {
            self.drop_packet(gone.packet);
        }
        while let Some(trimmed) = self.packets.labels_mut().next_trimmed() {
            let account = &mut self.flows[trimmed.flow as usize].account;
            account.drop_at(trimmed.wire_bytes, trimmed.switches);
        }
        match fate {
            Fate::Leaves(departure) => self.depart(departure),
            Fate::Queued(Some(at_ps)) => {
                let node = (self.hosts.len() + switch) as u32;
                self.calendar.add(at_ps, Kind::PortFree, node, port as u32);
            }
            Fate::Queued(None) => {}
            Fate::Dropped => self.drop_packet(packet),
        }
    }

    fn drop_packet(&mut self, packet: PacketId) {
        let Packet { label, .. } = self.packets.remove(packet);
        if label.content.is_data() {
            let account = &mut self.flows[label.flow as usize].account;
            account.drop_at(label.wire_bytes, label.switches);
        }
        *self.dropped.entry(label.flow).or_default() += 1;
    }

    fn port_free(&mut self, switch: usize, port: usize) {
        let (departure, again_ps) = self.switches[switch].next(self.now_ps, port);
        if let Some(departure) = departure {
            self.depart(departure);
        }
        if let Some(at_ps) = again_ps {
            let node = (self.hosts.len() + switch) as u32;
            self.calendar.add(at_ps, Kind::PortFree, node, port as u32);
        }
    }

    fn depart(&mut self, departure: Departure) {
        let Departure { packet, to, arrives_ps } = departure;
        self.calendar.add(arrives_ps, Kind::Arrival, to, packet);
    }

    fn arrive(&mut self, host: HostId, packet: PacketId) {
        let packet = self.packets.remove(packet);
        let flow = &mut self.flows[packet.label.flow as usize];
        if let Some(piece) = packet.body.piece(&packet.label)
            && flow.account.arrive(piece, packet.label.wire_bytes)
            && flow.needed > 0
        {
            self.useful_arrivals =
                UsefulArrivals { packets: self.useful_arrivals.packets + 1, at_ps: self.now_ps };
        }
        if !packet.body.is_approximate() {
            let state = &mut self.hosts[host as usize].state;
            state.note_other(self.now_ps / NS, packet.label.wire_bytes);
        }
        let endpoint = if host == flow.route.source { flow.sender } else { flow.receiver };
        let mut world = World { calendar: &mut self.calendar, packets: &mut self.packets };
        let delivered = self.hosts[host as usize].call(
            self.now_ps,
            endpoint,
            &mut world,
            |endpoint, context| {
                endpoint.arrive(context, &packet);
            },
        );
        self.note_delivered(packet.label.flow, delivered);
    }

    fn note_delivered(&mut self, flow: FlowId, delivered: u32) {
        if delivered == 0 {
            return;
        }
        let Flow { progress, needed, stops, route, sender, times, account, .. } =
            &mut self.flows[flow as usize];
        progress.delivered += delivered;
        if let Some(times) = times {
            let now_ps = self.now_ps;
            let queued = times.queued_ps.drain(..delivered as usize);
            times.took_ps.extend(queued.map(|queued_ps| now_ps - queued_ps));
        }
        if *needed == 0 || progress.delivered < *needed || progress.done_ps.is_some() {
            return;
        }
        progress.done_ps = Some(self.now_ps);
        account.finish();
        self.open -= 1;
        self.done.push_back(flow);
        if *stops {
            let mut world = World { calendar: &mut self.calendar, packets: &mut self.packets };
            self.hosts[route.source as usize].call(
                self.now_ps,
                *sender,
                &mut world,
                |endpoint, _| endpoint.stop(),
            );
        }
    }

    /// Queues the messages that are due, and finishes the sender after the last one.
    fn application(&mut self, flow: FlowId) {
        let now_ps = self.now_ps;
        let Flow { progress, messages, stops, route, sender, times, .. } =
            &mut self.flows[flow as usize];
        if *stops && progress.done_ps.is_some() {
            return;
        }
        let mut world = World { calendar: &mut self.calendar, packets: &mut self.packets };
        let host = &mut self.hosts[route.source as usize];
        host.call(now_ps, *sender, &mut world, |endpoint, context| {
            while let Some((_, bytes)) = messages.next_if(|(at_ps, _)| *at_ps <= now_ps) {
                progress.queued += 1;
                if let Some(times) = times {
                    times.queued_ps.push_back(now_ps);
                }
                endpoint.queue(context, bytes);
            }
            if messages.peek().is_none() {
                endpoint.finish(context);
            }
        });
        if let Some((at_ps, _)) = messages.peek() {
            self.calendar.add(*at_ps, Kind::Application, route.source, flow);
        }
    }

    fn at_host(&mut self, host: HostId, work: impl FnOnce(&mut Host, u64, &mut World<'_>)) {
        let mut world = World { calendar: &mut self.calendar, packets: &mut self.packets };
        work(&mut self.hosts[host as usize], self.now_ps, &mut world);
    }
}
