//! Aeolus over ExpressPass against what the two papers promise. Where a section is named, it is cited from
//! memory.

use atp_common::units::Msr;
use atp_sim::{
    engine::{MS, US},
    experiment::{NetworkSpec, Pattern, Point, Rate, msr_from_fraction},
    net::{FlowId, duration_ps, topology::Star},
    scheme::aeolus::{AeolusReceiver, AeolusSender, AeolusSettings},
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};

/// What a full packet carries, and what it takes on the wire.
const SEGMENT_BYTES: u32 = 1_448;
const PACKET_BYTES: u32 = 1_538;
const BITS_PER_S: u64 = 40_000_000_000;

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

/// ExpressPass alone: nothing goes without a credit.
fn express_pass(network_spec: NetworkSpec) -> AeolusSettings {
    AeolusSettings { unscheduled_bytes: 0, ..settings(network_spec) }
}

fn network(network_spec: NetworkSpec) -> Simulation {
    let point = Point { scheme: "aeolus-es".parse().unwrap(), network_spec, ..Point::default() };
    Simulation::new(&network_spec.topology(Rate::default()), point.port_queues())
}

/// `number` messages of `bytes` each, all there at `at_ps`.
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
    let long = |source| flow(&mut simulation, settings, (source, 0), (1_000_000, SEGMENT_BYTES), 0);
    let added = sources.map(long).collect();
    (simulation, added)
}

/// How many messages each flow got from one time to the other.
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

/// The share of the line that so many packets in `ps` take.
fn share(packets: u32, ps: u64) -> f64 {
    f64::from(packets) * duration_ps(PACKET_BYTES, BITS_PER_S) as f64 / ps as f64
}

/// ExpressPass §3.1: 5 % of a line are for credits, so data has 94.82 % of it (84 bytes of a credit,
/// 1,538 of a packet); with credits of 88 bytes on the average, 1,538 of 1,626, which is 94.59 %. One flow
/// alone has it, several have it together, in equal shares (Jain's index), and nothing is ever lost.
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

/// The same across the fat tree, where credits of a flow pass several ports that drop, and round trips
/// are 23 credits long.
#[test]
fn expresspass__flows_fill_the_line_across_a_fabric() {
    let network_spec = NetworkSpec::default();
    for flows in [1, 4, 32] {
        let mut simulation = network(network_spec);
        let source = |number: u32| 31 + number * 160 / flows;
        let long = |number| {
            let ends = (source(number), 0);
            flow(&mut simulation, express_pass(network_spec), ends, (1_000_000, SEGMENT_BYTES), 0)
        };
        let added: Vec<_> = (0..flows).map(long).collect();
        let got = got(&mut simulation, &added, MS, 3 * MS);
        let share = share(got.iter().sum(), 2 * MS);
        assert!((0.94..0.9482).contains(&share), "{flows} flows have {share} of the line");
        assert!(nothing_unforeseen_was_dropped(&simulation));
    }
}

/// Switches dropped nothing but what their rules are to drop: credits, and what has none.
fn nothing_unforeseen_was_dropped(simulation: &Simulation) -> bool {
    simulation.ports().all(|port| port.dropped_packets == port.refused_packets)
}

/// A flow that joins another one has its share soon. ExpressPass §6.1 says some round trips, where DCTCP
/// needs hundreds; here a rate is evaluated in every second one, and where only six credits fit into one,
/// chance decides much: 79 on the average until it has 40 % of what both have, which is 150 us.
#[test]
fn expresspass__newcomers_get_their_share() {
    const TRIES: u64 = 20;
    let network_spec = star(10);
    let round_trip_ps = settings(network_spec).round_trip_ps;
    let (joined_ps, step_ps) = (200 * US, 4 * round_trip_ps);
    let mut round_trips = 0;
    for number in 0..TRIES {
        let mut simulation = network(network_spec);
        let mut long = |source, at_ps| {
            let messages = (1_000_000, SEGMENT_BYTES);
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

/// So many hosts that begin at once, until all have what they need.
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

/// ExpressPass §3.1 and figure 1: what waits is bounded by how much later one sender answers a credit
/// than another, here a packet or two whatever their number, and no data is lost. DCTCP's queue grows
/// with them (236, 683 and 1,461 kB at 8, 64 and 400 senders, where the buffer ends it).
#[test]
fn expresspass__queues_dont_grow_with_an_incast() {
    for senders in [8, 64, 400] {
        let port = incast(senders, express_pass(star(2))).port(0, 0);
        assert_eq!(port.dropped_packets, 0, "{senders} senders");
        // Their requests come all at once.
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

/// Aeolus §3.2: unscheduled packets take a queue of 6 KB at most and are dropped beyond, what has credits
/// never is, and everything arrives.
#[test]
fn aeolus__scheduled_packets_are_never_dropped() {
    for senders in [8, 64, 400] {
        let simulation = incast(senders, settings(NetworkSpec::default()));
        let port = simulation.port(0, 0);
        // Beside requests and probes, the threshold, and what comes with credits.
        let data_bytes = port.waiting_bytes_max.saturating_sub(2 * 84 * u64::from(senders));
        assert!(data_bytes <= 6_000 + 5 * u64::from(PACKET_BYTES), "{data_bytes} bytes");
        assert!(port.refused_packets > u64::from(senders), "there was no burst");
        assert!(nothing_unforeseen_was_dropped(&simulation));
    }
}

/// Aeolus §1 and §5: what fits into the first round trip doesn't wait for credits. Alone, a short message
/// arrives after its one way, as under any scheme that begins at line rate; with credits alone, a request
/// has to go and a credit to come before.
#[test]
fn aeolus__short_messages_dont_wait_for_credits() {
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
        // One way of a packet, those after it, and the request before them.
        let way_ps = network_spec.round_trip_ps(Rate::default(), PACKET_BYTES, PACKET_BYTES) / 2;
        let line_ps = (packets - 1) * duration_ps(PACKET_BYTES, BITS_PER_S);
        let ideal_ps = way_ps + line_ps + duration_ps(84, BITS_PER_S);
        assert!(with <= ideal_ps, "{bytes} bytes: {with} ps, not {ideal_ps}");
        assert!(without - with > round_trip_ps * 7 / 10, "{bytes} bytes: {without} ps, {with} ps");
    }
}

/// Aeolus §3.3: what is lost of a first burst is known a round trip later and sent again with the first
/// credits: nobody waits for a timeout.
#[test]
fn aeolus__lost_bursts_are_mended_without_timeouts() {
    let network_spec = star(9);
    let mut simulation = network(network_spec);
    let begin = |source| flow(&mut simulation, settings(network_spec), (source, 0), (1, 5_000), 0);
    let flows: Vec<_> = (1..9).map(begin).collect();
    assert!(simulation.run(MS));
    assert!(simulation.port(0, 0).refused_packets > 0, "nothing was lost");
    for flow in flows {
        assert!(took_ps(&simulation, flow) < 50 * US, "{} ps", took_ps(&simulation, flow));
    }
}

/// Credits stop with the data: of a job whose messages are far from each other each is a flow of its own,
/// and afterwards nothing happens any more.
#[test]
fn credits__stop_when_nothing_is_to_be_sent() {
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
    // Request, segment, probe and stop of each with their acknowledgements, and credits of some round
    // trips.
    assert!((80..400).contains(&sent), "{sent} packets");
    let events = simulation.events();
    simulation.run_on(400 * MS);
    assert_eq!(simulation.events(), events);
}

/// Whatever the network, the messages, their number and the share of jobs that know nothing of credits:
/// every job gets what it needs, and in the end nobody sends anything any more.
#[test]
fn aeolus__every_job_is_done() {
    let specs = ["star:9", "leaf-spine:3,4,2", "fat-tree:2,2,2,2,2"];
    let sizes = [Sizes::Fixed(200), Sizes::Fixed(20_000), Sizes::KeyValue, Sizes::Hadoop];
    let patterns = [Pattern::Incast(None), Pattern::Random, Pattern::Permutation];
    for seed in 0..36 {
        let choose = |number: u64, of: usize| (seed / number) as usize % of;
        let network_spec: NetworkSpec = specs[choose(1, 3)].parse().unwrap();
        let scheme = if seed % 5 == 0 { "aeolus-ss" } else { "aeolus-es" };
        // With others' bursts in so small a buffer, packets with credits are lost as well.
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
            sprayed: seed % 7 == 0,
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
