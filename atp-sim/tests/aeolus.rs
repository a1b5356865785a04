//! Compares Aeolus over ExpressPass with the two papers. Sections are cited from memory.

use atp_common::units::Msr;
use atp_sim::{
    engine::{MS, US},
    experiment::{LoadBalancing, NetworkSpec, Pattern, Point, Rate, msr_from_fraction},
    net::{FlowId, duration_ps, topology::Star},
    scheme::aeolus::{AeolusReceiver, AeolusSender, AeolusSettings},
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};

/// The message bytes of a full packet, and its bytes on the wire.
const SEGMENT_BYTES: u32 = 1_448;
const PACKET_BYTES: u32 = 1_538;
const BITS_PER_S: u64 = 40_000_000_000;
/// The messages of an endless flow: more than a line carries in 5 ms, the longest of these runs.
const LONG: u32 = 20_000;

fn msr(share: f64) -> Msr {
    msr_from_fraction(share).unwrap()
}

fn star(hosts: u32) -> NetworkSpec {
    NetworkSpec::Star(Star { hosts })
}

fn settings(network_spec: NetworkSpec) -> AeolusSettings {
    let (there_bytes, back_bytes) = AeolusSettings::ROUND_TRIP_BYTES;
    let round_trip_ps = network_spec.round_trip_ps(Rate::default(), there_bytes, back_bytes);
    AeolusSettings::new(round_trip_ps, BITS_PER_S)
}

/// ExpressPass alone: every data packet needs a credit.
fn express_pass(network_spec: NetworkSpec) -> AeolusSettings {
    AeolusSettings { unscheduled_bytes: 0, ..settings(network_spec) }
}

fn network(network_spec: NetworkSpec) -> Simulation {
    let point = Point { scheme: "aeolus-es".parse().unwrap(), network_spec, ..Point::default() };
    Simulation::new(&network_spec.topology(Rate::default()), point.port_queues())
}

/// Adds a flow of `number` messages of `bytes` each, which arrive at `at_ps`.
fn flow(
    simulation: &mut Simulation,
    settings: AeolusSettings,
    (source, destination): (u32, u32),
    (number, bytes): (u32, u32),
    at_ps: u64,
) -> FlowId {
    let messages = Box::new(Arrivals::at_once(1, &Sizes::Fixed(bytes), number, at_ps));
    let new = NewFlow { began_ps: at_ps, ..NewFlow::new(source, destination, messages, number) };
    simulation.add(new, |route| {
        let sender = AeolusSender::new(route, settings);
        (Box::new(sender), Box::new(AeolusReceiver::new(route, settings)))
    })
}

fn took_ps(simulation: &Simulation, flow: FlowId) -> u64 {
    let progress = simulation.progress(flow);
    progress.done_ps.unwrap() - progress.began_ps
}

/// Long flows from hosts 1 to `flows` to host 0.
fn long_flows(flows: u32, settings: AeolusSettings) -> (Simulation, Vec<FlowId>) {
    let mut simulation = network(star(flows + 1));
    let sources = 1..=flows;
    let long = |source| flow(&mut simulation, settings, (source, 0), (LONG, SEGMENT_BYTES), 0);
    let added = sources.map(long).collect();
    (simulation, added)
}

/// The messages delivered to each flow between two times.
fn got(simulation: &mut Simulation, flows: &[FlowId], from_ps: u64, to_ps: u64) -> Vec<u32> {
    let delivered = |simulation: &Simulation| -> Vec<u32> {
        flows.iter().map(|flow| simulation.progress(*flow).delivered).collect()
    };
    simulation.run_on(from_ps);
    let before = delivered(simulation);
    simulation.run_on(to_ps);
    delivered(simulation).into_iter().zip(before).map(|(after, before)| after - before).collect()
}

fn jain(got: &[u32]) -> f64 {
    let sum: f64 = got.iter().map(|got| f64::from(*got)).sum();
    let squares: f64 = got.iter().map(|got| f64::from(*got).powi(2)).sum();
    sum * sum / (squares * got.len() as f64)
}

/// The share of the line that `packets` use in a time of `ps`.
fn share(packets: u32, ps: u64) -> f64 {
    f64::from(packets) * duration_ps(PACKET_BYTES, BITS_PER_S) as f64 / ps as f64
}

/// ExpressPass §3.1: credits use 5 % of a line, so data has 94.82 % (a credit has 84 bytes, a
/// packet 1,538). With a mean credit of 88 bytes, data has 1,538 of 1,626 bytes, 94.59 %. A single
/// flow uses all of it, several flows share it equally (Jain's index), and no packet is lost.
#[test]
fn expresspass__flows_fill_the_line_and_share_it() {
    for flows in [1, 2, 8, 64] {
        let (mut simulation, added) = long_flows(flows, express_pass(star(2)));
        let got = got(&mut simulation, &added, MS, 5 * MS);
        let share = share(got.iter().sum(), 4 * MS);
        assert!((0.94..0.9482).contains(&share), "{flows} flows have {share} of the line");
        assert!(jain(&got) > 0.98, "{flows} flows: {} of {got:?}", jain(&got));
        assert_eq!(simulation.port(0, 0).dropped_packets, 0);
    }
}

/// Flows also fill the line across the fat tree, where several ports drop a flow's credits, and a
/// round trip has 23 credits.
#[test]
fn expresspass__flows_fill_the_line_across_a_fabric() {
    let network_spec = NetworkSpec::default();
    for flows in [1, 4, 32] {
        let mut simulation = network(network_spec);
        let source = |number: u32| 31 + number * 160 / flows;
        let long = |number| {
            let ends = (source(number), 0);
            flow(&mut simulation, express_pass(network_spec), ends, (LONG, SEGMENT_BYTES), 0)
        };
        let added: Vec<_> = (0..flows).map(long).collect();
        let got = got(&mut simulation, &added, MS, 3 * MS);
        let share = share(got.iter().sum(), 2 * MS);
        assert!((0.94..0.9482).contains(&share), "{flows} flows have {share} of the line");
        assert!(only_expected_packets_were_dropped(&simulation));
    }
}

/// Whether switches dropped only credits and packets without a credit.
fn only_expected_packets_were_dropped(simulation: &Simulation) -> bool {
    simulation.ports().all(|port| port.dropped_packets == port.refused_packets)
}

/// A new flow soon gets its share. ExpressPass §6.1 states some round trips, where DCTCP needs
/// hundreds. Here the rate is evaluated every second round trip, and a round trip has only six
/// credits, so the result varies. On average, the new flow has 40 % of the total after 79 round
/// trips, or 150 us.
#[test]
fn expresspass__new_flows_get_their_share() {
    const TRIES: u64 = 20;
    let network_spec = star(10);
    let round_trip_ps = settings(network_spec).round_trip_ps;
    let (joined_ps, step_ps) = (200 * US, 4 * round_trip_ps);
    let mut round_trips = 0;
    for number in 0..TRIES {
        let mut simulation = network(network_spec);
        let mut long = |source, at_ps| {
            let messages = (LONG, SEGMENT_BYTES);
            flow(&mut simulation, express_pass(network_spec), (source, 0), messages, at_ps)
        };
        let flows = [long(1, number * US), long(2, joined_ps)];
        let has_share = |step: &u64| {
            let from_ps = joined_ps + (step - 1) * step_ps;
            let got = got(&mut simulation, &flows, from_ps, from_ps + step_ps);
            5 * got[1] >= 2 * (got[0] + got[1])
        };
        round_trips += 4 * (1..).find(has_share).unwrap();
    }
    let mean = round_trips / TRIES;
    assert!((1..120).contains(&mean), "{mean} round trips");
}

/// Runs an incast of senders that begin at once, until all flows are complete.
fn incast(senders: u32, settings: AeolusSettings) -> Simulation {
    let mut simulation = network(star(senders + 1));
    let begin = |source| flow(&mut simulation, settings, (source, 0), (20, 5_000), 0);
    let flows: Vec<_> = (1..=senders).map(begin).collect();
    assert!(simulation.run(100 * MS), "{senders} senders");
    for flow in flows {
        assert_eq!(simulation.progress(flow).delivered, 20);
    }
    simulation
}

/// ExpressPass §3.1 and figure 1: the queue is bounded by the differences between senders' response
/// times. Here that is one or two packets for any number of senders, and no data is lost. DCTCP's
/// queue grows with the senders: 236 kB at 8 senders, 683 kB at 64, and 1,461 kB at 400, where it
/// reaches the buffer.
#[test]
fn expresspass__queues_do_not_grow_with_an_incast() {
    for senders in [8, 64, 400] {
        let port = incast(senders, express_pass(star(2))).port(0, 0);
        assert_eq!(port.dropped_packets, 0, "{senders} senders");
        // All requests arrive at once.
        let data_bytes = port.waiting_bytes_max.saturating_sub(84 * u64::from(senders));
        assert!(data_bytes <= 2 * u64::from(PACKET_BYTES), "{senders} senders: {data_bytes} bytes");
        let point = Point {
            scheme: "dctcp-es".parse().unwrap(),
            network_spec: star(senders + 1),
            pattern: Pattern::Incast(None),
            sizes: Sizes::Fixed(5_000),
            load: 4.0 / f64::from(senders),
            duration_ps: MS / 10,
            msr: Msr::EXACT,
            ..Point::default()
        };
        let dctcp_bytes = point.run().queue_max_bytes;
        assert!(dctcp_bytes > 10 * port.waiting_bytes_max, "{dctcp_bytes} bytes under DCTCP");
    }
}

/// Aeolus §3.2: unscheduled packets are dropped beyond a queue of 6 KB. Packets with credits are
/// never dropped, and all data arrives.
#[test]
fn aeolus__scheduled_packets_are_never_dropped() {
    for senders in [8, 64, 400] {
        let simulation = incast(senders, settings(NetworkSpec::default()));
        let port = simulation.port(0, 0);
        // Besides requests and probes, the queue has the threshold and packets with credits.
        let data_bytes = port.waiting_bytes_max.saturating_sub(2 * 84 * u64::from(senders));
        assert!(data_bytes <= 6_000 + 5 * u64::from(PACKET_BYTES), "{data_bytes} bytes");
        assert!(port.refused_packets > u64::from(senders), "the first burst was too small");
        assert!(only_expected_packets_were_dropped(&simulation));
    }
}

/// Aeolus §1 and §5: the data of the first round trip does not wait for credits. In an idle
/// network, a short message arrives after the one-way delay, as under any scheme that starts at
/// line rate. ExpressPass first needs a request and a credit.
#[test]
fn aeolus__short_messages_do_not_wait_for_credits() {
    let network_spec = NetworkSpec::default();
    let took = |settings, bytes| {
        let mut simulation = network(network_spec);
        let flow = flow(&mut simulation, settings, (0, 191), (1, bytes), 0);
        assert!(simulation.run(MS));
        took_ps(&simulation, flow)
    };
    let round_trip_ps = settings(network_spec).round_trip_ps;
    for bytes in [100, SEGMENT_BYTES, 10_000, 30_000] {
        let packets = u64::from(bytes.div_ceil(SEGMENT_BYTES));
        let (with, without) =
            (took(settings(network_spec), bytes), took(express_pass(network_spec), bytes));
        // The one-way delay of the first packet, the time of the others, and the request before
        // them.
        let way_ps = network_spec.round_trip_ps(Rate::default(), PACKET_BYTES, PACKET_BYTES) / 2;
        let line_ps = (packets - 1) * duration_ps(PACKET_BYTES, BITS_PER_S);
        let ideal_ps = way_ps + line_ps + duration_ps(84, BITS_PER_S);
        assert!(with <= ideal_ps, "{bytes} bytes: {with} ps, not {ideal_ps}");
        assert!(without - with > round_trip_ps * 7 / 10, "{bytes} bytes: {without} ps, {with} ps");
    }
}

/// Aeolus §3.3: losses of the first burst are detected a round trip later and retransmitted with
/// the first credits, without a timeout.
#[test]
fn aeolus__lost_bursts_are_retransmitted_without_timeouts() {
    let network_spec = star(9);
    let mut simulation = network(network_spec);
    let begin = |source| flow(&mut simulation, settings(network_spec), (source, 0), (1, 5_000), 0);
    let flows: Vec<_> = (1..9).map(begin).collect();
    assert!(simulation.run(MS));
    assert!(simulation.port(0, 0).refused_packets > 0, "no packet was lost");
    for flow in flows {
        assert!(took_ps(&simulation, flow) < 50 * US, "{} ps", took_ps(&simulation, flow));
    }
}

/// Credits stop when the data ends. Messages that are far apart each have their own request and
/// credits. After the last one, no event occurs.
#[test]
fn credits__stop_when_the_data_ends() {
    let network_spec = star(3);
    let mut simulation = network(network_spec);
    let messages = Box::new((0..10).map(|number| (number * MS, 1_000)));
    let new = NewFlow::new(1, 0, messages, 10);
    let flow = simulation.add(new, |route| {
        let sender = AeolusSender::new(route, settings(network_spec));
        (Box::new(sender), Box::new(AeolusReceiver::new(route, settings(network_spec))))
    });
    assert!(simulation.run(100 * MS));
    simulation.run_on(200 * MS);
    assert_eq!(simulation.progress(flow).delivered, 10);
    assert_eq!(simulation.packets_in_flight(), 0);
    let sent = simulation.packets_sent();
    // Each message has a request, a segment, a probe and a stop, their acknowledgments, and the
    // credits of some round trips.
    assert!((80..400).contains(&sent), "{sent} packets");
    let events = simulation.events();
    simulation.run_on(400 * MS);
    assert_eq!(simulation.events(), events);
}

/// Every job completes soon, on any network, with any messages, and beside exact jobs, which use no
/// credits.
#[test]
fn aeolus__every_job_completes() {
    let specs = ["star:9", "leaf-spine:3,4,2", "fat-tree:2,2,2,2,2"];
    let sizes = [Sizes::Fixed(200), Sizes::Fixed(20_000), Sizes::KeyValue, Sizes::Hadoop];
    let patterns = [Pattern::Incast(None), Pattern::Random, Pattern::Permutation];
    for seed in 0..36 {
        let choose = |number: u64, of: usize| (seed / number) as usize % of;
        let network_spec: NetworkSpec = specs[choose(1, 3)].parse().unwrap();
        let scheme = if seed % 5 == 0 { "aeolus-ss" } else { "aeolus-es" };
        // With bursts of exact jobs in a small buffer, packets with credits are lost too.
        let (exact_share, buffer_bytes) =
            if seed % 2 == 0 { (0.0, 1_500_000) } else { (0.5, 40_000) };
        let point = Point {
            scheme: scheme.parse().unwrap(),
            network_spec,
            pattern: patterns[choose(3, 3)],
            sizes: sizes[choose(4, 4)].clone(),
            load: [0.3, 0.9][choose(2, 2)],
            duration_ps: MS / 5,
            msr: msr([0.5, 0.9, 1.0][choose(5, 3)]),
            load_balancing: match seed % 7 {
                0 => LoadBalancing::Spray,
                _ => LoadBalancing::Own,
            },
            exact_share,
            buffer_bytes,
            seed,
            ..Point::default()
        };
        let outcome = point.run();
        let jobs = outcome.jobs.len();
        let done = outcome.jobs.iter().filter(|job| job.completion_ps.is_some()).count();
        assert_eq!(done, jobs, "seed {seed}: {point:?}");
        assert!(outcome.simulated_ps < 100 * MS, "seed {seed} took {} ps", outcome.simulated_ps);
    }
}
