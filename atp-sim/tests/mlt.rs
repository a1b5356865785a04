//! Compares the bounded-loss transport with the papers that it follows (MLT, NSDI 2024; DLCP, arXiv
//! 2008.08445).

use atp_common::units::Msr;
use atp_sim::{
    engine::{MS, S},
    experiment::{NetworkSpec, Pattern, Point, msr_from_fraction},
    net::{FlowId, PortQueues, topology::Star},
    scheme::wire_bytes,
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Gaps, Sizes},
};

/// A message that fills a packet.
const SEGMENT: u32 = 1_448;
/// The messages of an endless flow: more than a line carries in 15 ms.
const LONG: u32 = 60_000;

fn msr(share: f64) -> Msr {
    msr_from_fraction(share).unwrap()
}

fn point(scheme: &str, hosts: u32, share: f64) -> Point {
    let network_spec = NetworkSpec::Star(Star { hosts });
    Point { scheme: scheme.parse().unwrap(), network_spec, msr: msr(share), ..Point::default() }
}

/// All other hosts send to host 0, each with a job whose messages arrive at once.
fn incast(point: &Point, queues: PortQueues, messages: u32) -> (Simulation, Vec<FlowId>) {
    let topology = point.network_spec.topology(point.rate);
    let mut simulation = Simulation::new(&topology, queues);
    let flows = (1..topology.hosts).map(|source| {
        let arrivals = Box::new(Arrivals::at_once(1, &Sizes::Fixed(SEGMENT), messages, 0));
        let new = NewFlow::new(source, 0, arrivals, point.msr.needed(messages));
        simulation.add(new, |route| point.scheme.ends(route, &point.environment(), messages))
    });
    let flows = flows.collect();
    (simulation, flows)
}

/// MLT: a sender retransmits only if the loss exceeds the bound. Two Poisson senders at nine tenths
/// of their lines lose four ninths of all packets. Without marks, they do not slow down.
#[test]
fn mlt__retransmits_only_beyond_the_bound() {
    for (share, retransmits) in [(0.3, false), (0.4, false), (0.5, false), (0.9, true), (1.0, true)]
    {
        let point = point("mlt-es", 3, share);
        let topology = point.network_spec.topology(point.rate);
        let mut simulation = Simulation::new(&topology, PortQueues::single(u32::MAX, 60_000));
        let cost = |bytes| f64::from(wire_bytes(bytes + 52));
        for seed in [1, 2] {
            let sizes = Sizes::Fixed(SEGMENT);
            let gap_ps = Arrivals::gap_at_rate_ps(&sizes, 36e9, cost);
            let messages = Arrivals::every(seed, &sizes, Gaps::Poisson, gap_ps, MS);
            let total = messages.clone().count() as u32;
            let source = seed as u32;
            let new = NewFlow::new(source, 0, Box::new(messages), point.msr.needed(total));
            let flow =
                simulation.add(new, |route| point.scheme.ends(route, &point.environment(), total));
            assert_eq!(flow + 1, source);
        }
        assert!(simulation.run(S));
        simulation.run_on(2 * S);
        for flow in [0, 1] {
            let (queued, dropped) = (simulation.progress(flow).queued, simulation.dropped(flow));
            let sent = simulation.host(flow + 1).port.counters(simulation.now_ps()).sent_packets;
            assert!(dropped > 100, "MSR {share}: {dropped} packets lost");
            assert!(simulation.sender(flow).has_ended());
            // The limit includes probes.
            let most = if retransmits { 3 } else { 1 } * u64::from(queued);
            assert!(sent <= most, "MSR {share}: {sent} packets for {queued} messages");
            assert_eq!(sent > u64::from(queued), retransmits, "MSR {share}: {sent} packets");
        }
    }
}

/// MLT: loss stays within its bound. With a bound of 0, the transport is reliable.
#[test]
fn mlt__every_job_gets_its_share() {
    for (sizes, seed) in [(Sizes::Fixed(200), 1), (Sizes::Fixed(20_000), 2), (Sizes::Hadoop, 3)] {
        for share in [0.0, 0.5, 0.9, 1.0] {
            for buffer_bytes in [30_000, 1_500_000] {
                let point = Point {
                    pattern: Pattern::Incast(None),
                    sizes: sizes.clone(),
                    duration_ps: MS / 5,
                    buffer_bytes,
                    seed,
                    ..point("mlt-es", 9, share)
                };
                let outcome = point.run();
                assert!(outcome.senders_ended, "{sizes:?}, MSR {share}, {buffer_bytes} bytes");
                assert_eq!(outcome.complete(), 8, "{sizes:?}, MSR {share}, {buffer_bytes} bytes");
                for job in &outcome.jobs {
                    assert!(job.delivered >= job.needed, "{sizes:?}, MSR {share}: {job:?}");
                    assert!(job.delivered <= job.messages, "{sizes:?}, MSR {share}: {job:?}");
                }
            }
        }
    }
}

/// DLCP: flows that need not wait for their last tenth have a shorter tail. In its largest
/// simulation, the longest completion times are 92 % shorter than DCTCP's, which include timeouts.
/// MLT bounds its loss by 10 % there.
#[test]
fn mlt__shortens_the_tail() {
    let last_ps = |scheme| {
        let point = Point { buffer_bytes: 60_000, ..point(scheme, 65, 0.9) };
        let (mut simulation, flows) = incast(&point, point.port_queues(), 20);
        assert!(simulation.run(S), "{scheme}");
        flows.iter().map(|flow| simulation.progress(*flow).done_ps.unwrap()).max().unwrap()
    };
    let (mlt_ps, dctcp_ps) = (last_ps("mlt-es"), last_ps("dctcp-es"));
    assert!(2 * mlt_ps < dctcp_ps, "{mlt_ps} ps, with DCTCP {dctcp_ps} ps");
}

/// MLT has a minimal rate control against congestion collapse: the line is busy, almost nothing is
/// lost, and queues do not fill the buffer.
#[test]
fn mlt__avoids_congestion_collapse() {
    for hosts in [3, 9, 31] {
        let point = point("mlt-es", hosts, 0.999);
        let (mut simulation, _) = incast(&point, point.port_queues(), LONG);
        simulation.run_on(5 * MS);
        let before = simulation.port(0, 0);
        simulation.run_on(15 * MS);
        let after = simulation.port(0, 0);
        let bits = 8 * (after.sent_bytes - before.sent_bytes);
        let used = bits as f64 / (40e9 * 0.01);
        let waited = after.waiting_packet_ps - before.waiting_packet_ps;
        let mean = waited as f64 / (10 * MS) as f64;
        assert!(used > 0.9, "{hosts} hosts: {used} of the line");
        assert_eq!(after.dropped_packets, before.dropped_packets, "{hosts} hosts");
        assert!(mean < 500.0, "{hosts} hosts: {mean} packets wait");
    }
}
