//! The memory of hosts, flows, events and packets.

use atp_sim::{
    engine::{Calendar, Kind, MS, US},
    experiment::{Point, Scheme},
    net::{Label, topology::Star},
    scheme::{Packet, Packets, udp::UdpBody},
    simulation::{NewFlow, Simulation},
};
use counting_allocator::kept_bytes;

fn point(scheme: &str) -> Point {
    Point { scheme: scheme.parse().unwrap(), ..Point::default() }
}

fn star(hosts: u32, point: &Point) -> Simulation {
    let network_spec = atp_sim::experiment::NetworkSpec::Star(Star { hosts });
    Simulation::new(&network_spec.topology(point.rate), point.port_queues())
}

/// The memory of an idle host and its switch port. The difference of two networks excludes the
/// calendar.
#[test]
fn host__bytes_of_an_idle_host() {
    for (scheme, bytes_max) in
        [("atp:paper", 1_500), ("pfabric-es", 1_500), ("ndp-es", 1_500), ("aeolus-es", 1_500)]
    {
        let point = point(scheme);
        let (_small, few) = kept_bytes(|| star(1_000, &point));
        let (_large, many) = kept_bytes(|| star(9_000, &point));
        let bytes = (many - few) / 8_000;
        println!("{scheme}: {bytes} bytes per host");
        assert!(bytes < bytes_max, "{scheme}: {bytes} bytes per host");
    }
}

/// Both endpoints of a flow, before the first message and after the completion.
#[test]
fn flow__bytes_before_and_after() {
    const FLOWS: u32 = 512;
    for (name, idle_max, used_max) in [
        // Each flow has a port: the table, events and replies of its endpoint take 2 kB.
        ("atp:paper", 6_800, 17_500),
        ("dctcp-es", 1_500, 5_000),
        ("pfabric-es", 1_500, 6_500),
        ("ndp-es", 2_000, 6_000),
        ("mlt-es", 1_500, 5_000),
        ("aeolus-es", 1_700, 8_500),
        ("udp", 1_100, 4_000),
    ] {
        let point = point(name);
        let mut simulation = star(2 * FLOWS, &point);
        let scheme: Scheme = point.scheme;
        let ((), idle) = kept_bytes(|| {
            for source in 0..FLOWS {
                let messages = Box::new((0..10).map(|number| (MS + number * US, 1_000)));
                let new = NewFlow::new(source, source + FLOWS, messages, 5);
                simulation.add(new, |route| scheme.ends(route, &point.environment(), 10));
            }
        });
        let ((), used) = kept_bytes(|| assert!(simulation.run(1_000 * MS), "{name}"));
        let (idle, used) = (idle / FLOWS as usize, (idle + used) / FLOWS as usize);
        println!("{name}: {idle} bytes per idle flow, {used} after ten messages");
        assert!(idle < idle_max && used < used_max, "{name}: {idle}, {used} bytes per flow");
    }
}

/// Vectors grow by doubling, so the count is up to twice the bytes in use.
#[test]
fn event_and_packet__bytes_in_flight() {
    const NUMBER: u32 = 1 << 16;
    let (mut calendar, empty) = kept_bytes(Calendar::default);
    let ((), near) = kept_bytes(|| {
        for number in 0..NUMBER {
            calendar.add(u64::from(number) * 500, Kind::Arrival, 1, number);
        }
    });
    let ((), far) = kept_bytes(|| {
        for number in 0..NUMBER {
            calendar.add(MS + u64::from(number), Kind::Wake, 1, number);
        }
    });
    let packet = Packet {
        label: Label::new(0, 0, 1, 1_538, 0),
        body: UdpBody { message: 0, number: 0, count: 1 }.into(),
    };
    let mut packets = Packets::default();
    let ((), of_packets) = kept_bytes(|| {
        for _ in 0..NUMBER {
            packets.insert(packet.clone());
        }
    });
    let [near, far, of_packet] = [near, far, of_packets].map(|bytes| bytes / NUMBER as usize);
    println!(
        "{empty} bytes for an empty calendar; {near} to {far} per event, {of_packet} per packet"
    );
    assert!(empty < 300_000 && near.max(far) < 100 && of_packet < 150);
}
