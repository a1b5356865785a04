//! Compares NDP with its paper (Handley et al., SIGCOMM 2017). The paper's packets have 9 KB, of
//! which headers are 0.7 %. The packets here have 1.5 KB, of which headers are 5.5 %.

use atp_sim::{
    engine::{MS, S, US},
    experiment::{NetworkSpec, Pattern, Point, Rate, msr_from_fraction},
    net::{
        FlowId, duration_ps,
        topology::{FatTree, Star},
    },
    scheme::{
        Route,
        ndp::{NdpReceiver, NdpSender, NdpSettings},
        wire_bytes,
    },
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};

/// The message bytes of a full packet.
const SEGMENT: u32 = 1_454;
/// The time of a full packet on a 40 Gbit/s line.
const PACKET_PS: u64 = duration_ps(wire_bytes(1_500), 40_000_000_000);
/// The messages of an endless flow: twice what a line carries in 3 ms, the longest of these runs.
const LONG: u32 = 20_000;

fn network(network_spec: NetworkSpec) -> (Point, Simulation) {
    let point = Point { scheme: "ndp-es".parse().unwrap(), network_spec, ..Point::default() };
    let simulation = Simulation::new(&network_spec.topology(Rate::default()), point.port_queues());
    (point, simulation)
}

fn star(hosts: u32) -> NetworkSpec {
    NetworkSpec::Star(Star { hosts })
}

/// Adds a flow of messages of one size, which all arrive at once.
fn flow(
    (point, simulation): &mut (Point, Simulation),
    (source, destination): (u32, u32),
    (messages, bytes): (u32, u32),
    at_ps: u64,
) -> FlowId {
    let sizes = Sizes::Fixed(bytes);
    let arrivals = Box::new(Arrivals::at_once(1, &sizes, messages, at_ps));
    let new = NewFlow {
        began_ps: at_ps,
        sprayed: true,
        ..NewFlow::new(source, destination, arrivals, messages)
    };
    simulation.add(new, |route| point.scheme.ends(route, &point.environment(), messages))
}

/// The packets delivered to each receiver from `from_ps` to `to_ps`, as a share of the line.
fn shares(simulation: &mut Simulation, flows: &[FlowId], from_ps: u64, to_ps: u64) -> Vec<f64> {
    let delivered = |simulation: &Simulation| -> Vec<u32> {
        flows.iter().map(|flow| simulation.progress(*flow).delivered).collect()
    };
    simulation.run_on(from_ps);
    let before = delivered(simulation);
    simulation.run_on(to_ps);
    let ideal = (to_ps - from_ps) as f64 / PACKET_PS as f64;
    let got = delivered(simulation).into_iter().zip(before).map(|(after, before)| after - before);
    got.map(|packets| f64::from(packets) / ideal).collect()
}

fn total(simulation: &Simulation, of: impl Fn(atp_sim::net::Counters) -> u64) -> u64 {
    simulation.ports().map(of).sum()
}

/// §6.1 and figure 16: an incast of 450 KB flows ends 1 % after the ideal time, and the slowest
/// flow takes at most 20 % longer than the fastest. §6.2 and figure 20: small incasts end within 2
/// %. The ideal is every packet once on a line that is never idle. In addition, each trimmed packet
/// of the first window takes the time of a header. That is eight times as large a part of a
/// packet's time as in the paper.
#[test]
fn ndp__incast_is_close_to_ideal() {
    const PACKETS: u32 = 310;
    for senders in [8, 50, 100, 191] {
        let mut network = network(star(senders + 1));
        let flows: Vec<_> = (1..=senders)
            .map(|source| flow(&mut network, (source, 0), (1, PACKETS * SEGMENT), 0))
            .collect();
        let (_, simulation) = &mut network;
        assert!(simulation.run(S));
        let done = |flow: &FlowId| simulation.progress(*flow).done_ps.unwrap();
        let last_ps = flows.iter().map(done).max().unwrap();
        let first_ps = flows.iter().map(done).min().unwrap();
        let ideal_ps = u64::from(senders * PACKETS) * PACKET_PS;
        let ratio = last_ps as f64 / ideal_ps as f64;
        assert!((1.0..1.03).contains(&ratio), "{senders} senders: {ratio} of the ideal time");
        assert!(
            last_ps as f64 <= 1.2 * first_ps as f64,
            "{senders} senders: {first_ps} to {last_ps}"
        );
    }
}

/// Runs a permutation on a fat tree; `paths` returns the paths of each flow. Returns each flow's
/// share of its line, and the share of packets that were trimmed on the path up.
fn permutation(paths: impl Fn(&Point, Route) -> Vec<u32>) -> (Vec<f64>, f64) {
    let tree = FatTree::default();
    let (point, mut simulation) = network(NetworkSpec::FatTree(tree));
    let (there_bytes, back_bytes) = NdpSettings::ROUND_TRIP_BYTES;
    let round_trip_ps = point.network_spec.round_trip_ps(point.rate, there_bytes, back_bytes);
    let settings = NdpSettings::new(round_trip_ps, point.rate.bits_per_s());
    let flows: Vec<_> = (0..192)
        .map(|source| {
            let messages = Box::new(Arrivals::at_once(1, &Sizes::Fixed(SEGMENT), LONG, 0));
            let destination = (source * 5 + 97) % 192;
            let new =
                NewFlow { sprayed: true, ..NewFlow::new(source, destination, messages, LONG) };
            simulation.add(new, |route| {
                let seed = route.flow.into();
                let sender = NdpSender::new(route, settings, paths(&point, route), seed);
                (Box::new(sender), Box::new(NdpReceiver::new(route)))
            })
        })
        .collect();
    let edges = (tree.pods * tree.edges_per_pod) as usize;
    let aggregations = (tree.pods * tree.aggregations_per_pod) as usize;
    let (hosts, down) = (tree.hosts_per_edge as usize, tree.edges_per_pod as usize);
    let edges_up = (0..edges).flat_map(|switch| (hosts..hosts + 6).map(move |port| (switch, port)));
    let aggregations_up = (edges..edges + aggregations)
        .flat_map(|switch| (down..down + 4).map(move |port| (switch, port)));
    let up: Vec<_> = edges_up.chain(aggregations_up).collect();
    let trimmed = |simulation: &Simulation| -> u64 {
        up.iter().map(|&(switch, port)| simulation.port(switch, port).trimmed_packets).sum()
    };
    // Measure after the first windows.
    let (from_ps, to_ps) = (MS / 10, MS / 5);
    simulation.run_on(from_ps);
    let before = trimmed(&simulation);
    let got = shares(&mut simulation, &flows, from_ps, to_ps);
    let packets = got.iter().sum::<f64>() * (to_ps - from_ps) as f64 / PACKET_PS as f64;
    let trimmed = (trimmed(&simulation) - before) as f64;
    (got, trimmed / packets)
}

/// §6.1 and figure 14: a permutation on a fat tree uses 92 % of the lines' capacity, and the
/// slowest flow has 90 % of its line. §6.2: the use exceeds 95 % with packets of 1.5 KB and a
/// window of thirty. Here a response takes 5.5 % of a packet's time on the reverse path, so the
/// maximum is 94.8 %.
#[test]
fn ndp__permutation_fills_the_network() {
    let (got, trimmed) =
        permutation(|point, route| point.network_spec.paths(route.source, route.destination));
    let mean = got.iter().sum::<f64>() / got.len() as f64;
    let worst = got.iter().copied().fold(1.0, f64::min);
    assert!(mean > 0.92, "{mean} of all lines");
    assert!(worst > 0.88, "{worst} of its line");
    // §3.1.1: using paths in round-robin order gains up to 10 % of the capacity. §3, "Congestion
    // Control": the path up then trims 0.01 % of the packets, and 2.4 % with a random path for each
    // packet. Here packets are a sixth as long, and the shares are 0.8 and 4 %. Unrelated path
    // numbers act as random paths.
    let draws = |route: Route| (0..4_096).map(|way| way << 12 | route.flow).collect();
    let (got, drawn) = permutation(|_, route| draws(route));
    let mean_drawn = got.iter().sum::<f64>() / got.len() as f64;
    assert!(mean > 1.05 * mean_drawn, "{mean} round-robin, {mean_drawn} random");
    assert!(trimmed < 0.01 && drawn > 4.0 * trimmed, "{trimmed} round-robin, {drawn} random");
}

/// §6.2 and figure 21: A sends to B, C, D and E, and F sends to E. E's pull queue is fair, so A
/// shares its line equally, and F gets the rest of E's line. Of 10 Gbit/s, A's flows get
/// 2.51, 2.50, 2.51 and 2.38, and F's flow gets 7.55.
#[test]
fn ndp__pulls_of_a_busy_sender_are_not_wasted() {
    let (a, f, e) = (0, 5, 4);
    let mut network = network(star(6));
    let routes = [(a, 1), (a, 2), (a, 3), (a, e), (f, e)];
    let flows = routes.map(|route| flow(&mut network, route, (LONG, SEGMENT), 0));
    let got = shares(&mut network.1, &flows, MS, 3 * MS);
    for (share, expected) in got.iter().zip([0.251, 0.250, 0.251, 0.238, 0.755]) {
        assert!((share - expected).abs() < 0.03, "{got:?}");
    }
    assert!(got[..4].iter().sum::<f64>() > 0.97, "{got:?} of A's line");
    assert!(got[3] + got[4] > 0.97, "{got:?} of E's line");
}

/// §3.2: the pull queue is served fairly, and fills the line.
#[test]
fn ndp__flows_to_one_host_share_its_line() {
    for senders in [2, 7, 30] {
        let mut network = network(star(senders + 1));
        let flows: Vec<_> = (1..=senders)
            .map(|source| flow(&mut network, (source, 0), (LONG, SEGMENT), u64::from(source) * US))
            .collect();
        let got = shares(&mut network.1, &flows, MS, 3 * MS);
        let all: f64 = got.iter().sum();
        assert!(all > 0.99, "{all} of the line");
        let fair = all / f64::from(senders);
        assert!(got.iter().all(|share| (share / fair - 1.0).abs() < 0.02), "{got:?}");
    }
}

/// §3.2 and §3.2.4: trimming tells receivers of every packet, so no packet needs a timeout. After
/// the first round trip, almost no packet is trimmed.
#[test]
fn ndp__nothing_needs_a_timeout() {
    let mut network = network(star(11));
    for source in 1..=10 {
        flow(&mut network, (source, 0), (1, 1_000 * SEGMENT), 0);
    }
    let (_, simulation) = &mut network;
    simulation.run_on(100 * US);
    let early = total(simulation, |port| port.trimmed_packets);
    assert!(simulation.run(S));
    let late = total(simulation, |port| port.trimmed_packets) - early;
    assert!(early > 50, "{early} were trimmed");
    assert!(late < early / 20, "{early} were trimmed at first, {late} later");
    assert_eq!(total(simulation, |port| port.dropped_packets), 0);
    // Senders send each packet once, and again if it was trimmed. A timeout would add packets.
    let sent = 10 * 1_000 + early + late;
    let by_senders = (1..=10).map(|host| simulation.host(host).port.counters(0).sent_packets);
    assert_eq!(by_senders.sum::<u64>(), sent);
}

/// §3.1: a port holds eight data packets, and headers of the same number of bytes.
#[test]
fn ndp__queues_are_short() {
    let point = Point {
        scheme: "ndp-es".parse().unwrap(),
        network_spec: star(101),
        pattern: Pattern::Incast(None),
        sizes: Sizes::Hadoop,
        duration_ps: MS / 2,
        ..Point::default()
    };
    let outcome = point.run();
    assert!(outcome.packets_trimmed > 1_000, "{} were trimmed", outcome.packets_trimmed);
    assert!(outcome.queue_max_bytes <= 2 * 8 * 1_538, "{} bytes", outcome.queue_max_bytes);
}

/// Every job completes in spite of trimmed and lost packets (NetApprox §7.1: reliable transports).
#[test]
fn ndp__every_job_completes() {
    for scheme in ["ndp-es", "ndp-ss"] {
        for (sizes, seed) in [(Sizes::Fixed(200), 1), (Sizes::Fixed(20_000), 2), (Sizes::Hadoop, 3)]
        {
            for share in [0.5, 0.9, 1.0] {
                let point = Point {
                    scheme: scheme.parse().unwrap(),
                    network_spec: star(101),
                    pattern: Pattern::Incast(None),
                    sizes: sizes.clone(),
                    load: 0.1,
                    duration_ps: MS / 5,
                    msr: msr_from_fraction(share).unwrap(),
                    seed,
                    ..Point::default()
                };
                let outcome = point.run();
                // A host that drew no message has no job.
                let jobs = outcome.approximate().count();
                assert!(jobs >= 50, "{jobs} jobs");
                assert_eq!(outcome.complete(), jobs, "{scheme}, {sizes:?}, MSR {share}");
                assert!(outcome.packets_trimmed > 0, "{scheme}, {sizes:?}, MSR {share}");
            }
        }
    }
}
