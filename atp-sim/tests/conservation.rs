//! Packets are conserved at each port and on each line.

use atp_sim::{
    engine::{MS, S},
    experiment::{NetworkSpec, Point, Scheme},
    net::{Counters, Topology, topology::LeafSpine},
    scheme::{
        aeolus,
        background::{BackgroundSender, Schedule},
        udp::UdpReceiver,
    },
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Gaps, Sizes},
};
use std::fmt::Display;

/// At each port of a switch or host, every packet that arrived was sent, was dropped or waits. A
/// trimmed packet counts as the same packet. In the end no packet is in flight, and the packets
/// sent to a switch have all arrived at its ports. Jobs of every scheme, exact jobs and background
/// traffic together overflow the small buffers.
#[test]
fn conservation__no_packet_appears_or_vanishes_at_any_port() {
    let atp = ["atp", "atp:paper", "atp:base"].map(|name| name.parse().unwrap());
    for scheme in atp.into_iter().chain(Scheme::others()) {
        let network_spec =
            NetworkSpec::LeafSpine(LeafSpine { leaves: 3, hosts_per_leaf: 12, spines: 3 });
        let point = Point { scheme, network_spec, buffer_bytes: 30_000, ..Point::default() };
        let topology = point.network_spec.topology(point.rate);
        let mut simulation = crowded(&point, &topology);
        let mut ever_waited = 0;
        for end_ps in [MS / 100, MS / 50, MS / 30, MS / 10, MS] {
            simulation.run_on(end_ps);
            let waiting = check_ports(&simulation, &topology, scheme);
            assert!(simulation.packets_in_flight() as u64 >= waiting, "{scheme}");
            ever_waited += waiting;
        }
        assert!(ever_waited > 0, "{scheme}: no packet ever waited");
        simulation.run_on(10 * S);
        assert!(simulation.is_over(), "{scheme}: the simulation does not end");
        assert_eq!(check_ports(&simulation, &topology, scheme), 0, "{scheme}");
        assert_eq!(simulation.packets_in_flight(), 0, "{scheme}");
        check_lines(&simulation, &topology, scheme);
        let had_no_room = |port: Counters| port.dropped_packets + port.trimmed_packets;
        let without_room: u64 = simulation.ports().map(had_no_room).sum();
        assert!(without_room > 100, "{scheme}: the buffers hardly ever overflowed");
    }
}

/// Each host sends to one of four hosts. Every third job is exact, and every sixth host also has
/// background traffic.
fn crowded(point: &Point, topology: &Topology) -> Simulation {
    let mut simulation = Simulation::new(topology, point.port_queues());
    for host in 0..topology.hosts {
        let destination = (host * 7 + 1) % 4;
        if destination == host {
            continue;
        }
        // In bits per second.
        let rate = 30e9;
        let gap_ps = Arrivals::gap_at_rate_ps(&Sizes::Hadoop, rate, f64::from);
        let messages = Arrivals::every(host.into(), &Sizes::Hadoop, Gaps::Poisson, gap_ps, MS / 20);
        let total = messages.clone().count() as u32;
        let scheme = if host % 3 == 0 { "dctcp-es".parse().unwrap() } else { point.scheme };
        let new = NewFlow {
            sprayed: host % 2 == 0,
            stops: !scheme.spec().stops_by_itself,
            ..NewFlow::new(host, destination, Box::new(messages), point.msr.needed(total))
        };
        simulation.add(new, |route| scheme.ends(route, &point.environment(), total));
        if host % 6 == 5 {
            let packets = (0..200u64).map(|number| (number * MS / 4_000, 1_472));
            let new = NewFlow::new(host, destination, Box::new(packets), 0);
            let dscp = point.profile().dscp_of_queue(4);
            simulation.add(new, |route| {
                let sender = BackgroundSender::new(route, Schedule::new(vec![(0, dscp)]));
                (Box::new(sender), Box::<UdpReceiver>::default())
            });
        }
    }
    simulation
}

/// Checks every port. Returns the number of packets that wait at switch ports.
fn check_ports(simulation: &Simulation, topology: &Topology, scheme: Scheme) -> u64 {
    let balanced = |port: &Counters, what: &dyn Display| {
        let left = port.sent_packets + port.dropped_packets + u64::from(port.waiting_packets);
        assert_eq!(port.arrived_packets, left, "{scheme}, {what}: {port:?}");
        assert!(port.trimmed_packets <= port.arrived_packets, "{scheme}, {what}: {port:?}");
    };
    for host in 0..topology.hosts {
        let port = simulation.host(host).port.counters(simulation.now_ps());
        balanced(&port, &format_args!("host {host}"));
        // Hosts have unlimited queues, except for credits.
        let may_drop = *scheme.spec() == aeolus::SPEC;
        assert!(port.dropped_packets == 0 || may_drop, "{scheme}, host {host}: {port:?}");
    }
    let (mut waiting, mut dropped) = (0, 0);
    for (number, port) in simulation.ports().enumerate() {
        balanced(&port, &format_args!("port {number} of the switches"));
        waiting += u64::from(port.waiting_packets);
        dropped += port.dropped_packets;
    }
    assert_eq!(simulation.waiting(), waiting, "{scheme}");
    // Each dropped packet belongs to a flow.
    let of_flows: u64 = (0..simulation.flows()).map(|flow| simulation.dropped(flow)).sum();
    assert_eq!(of_flows, dropped, "{scheme}");
    waiting
}

/// After the end, all packets that ports sent to a switch have arrived at its ports.
fn check_lines(simulation: &Simulation, topology: &Topology, scheme: Scheme) {
    let mut sent_to = vec![0; topology.host_links.len() + topology.switches.len()];
    for (host, link) in (0..).zip(&topology.host_links) {
        let port = simulation.host(host).port.counters(simulation.now_ps());
        sent_to[link.to as usize] += port.sent_packets;
    }
    let links = topology.switches.iter().flat_map(|switch| &switch.links);
    for (link, port) in links.zip(simulation.ports()) {
        sent_to[link.to as usize] += port.sent_packets;
    }
    for (number, switch) in topology.switches.iter().enumerate() {
        let arrived = |port| simulation.port(number, port).arrived_packets;
        let arrived: u64 = (0..switch.links.len()).map(arrived).sum();
        let sent = sent_to[topology.host_links.len() + number];
        assert_eq!(arrived, sent, "{scheme}, switch {number}");
        assert!(arrived > 0, "{scheme}: no packet arrived at switch {number}");
    }
}
