//! Exact jobs over DCTCP beside jobs of other schemes, at the ports of those schemes.

use atp_sim::{
    engine::MS,
    experiment::{NetworkSpec, Point},
    net::{Counters, FlowId, topology::Star},
    scheme::dctcp::{DctcpReceiver, DctcpSender, DctcpSettings},
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};

/// A message that fills a DCTCP segment.
const BYTES: u32 = 1_448;
/// More messages than a line carries in the measured time.
const MESSAGES: u32 = 100_000;

/// The shares of one line that four long flows of a scheme and four of DCTCP get.
struct Shares {
    own: f64,
    exact: f64,
    /// The counters of the line's port.
    port: Counters,
}

/// Measures the shares for 10 ms after a warm-up.
fn shares(scheme: &str) -> Shares {
    let network_spec = NetworkSpec::Star(Star { hosts: 9 });
    let point = Point { network_spec, scheme: scheme.parse().unwrap(), ..Point::default() };
    let mut simulation = Simulation::new(&network_spec.topology(point.rate), point.port_queues());
    let mut add = |source, is_exact| {
        let messages = Arrivals::at_once(1, &Sizes::Fixed(BYTES), MESSAGES, 0);
        let new = NewFlow::new(source, 0, Box::new(messages), MESSAGES);
        simulation.add(new, |route| match is_exact {
            false => point.scheme.ends(route, &point.environment(), MESSAGES),
            true => {
                let sender = DctcpSender::new(route, DctcpSettings::default());
                (Box::new(sender), Box::new(DctcpReceiver::new(route)))
            }
        })
    };
    let flows: Vec<[FlowId; 2]> =
        (0..4).map(|pair| [add(1 + 2 * pair, false), add(2 + 2 * pair, true)]).collect();
    let delivered = |simulation: &Simulation, which: usize| -> u32 {
        flows.iter().map(|pair| simulation.progress(pair[which]).delivered).sum()
    };
    simulation.run_on(10 * MS);
    let before = [0, 1].map(|which| delivered(&simulation, which));
    simulation.run_on(20 * MS);
    // The line's capacity: 10 ms at 40 Gbit/s.
    let line_packets = 50e6 / 1_538.0;
    let share =
        |which: usize| f64::from(delivered(&simulation, which) - before[which]) / line_packets;
    Shares { own: share(0), exact: share(1), port: simulation.port(0, 0) }
}

/// Each side receives half of the line. DCTCP's queue stays near its threshold, and nothing is
/// dropped.
#[test]
fn exact__shares_the_line_with_ndp() {
    let Shares { own, exact, port } = shares("ndp-es");
    assert!((0.45..=0.55).contains(&exact), "{exact} of the line");
    // NDP's headers take the rest.
    assert!((0.42..=0.55).contains(&own), "{own} of the line");
    assert!(port.marked_packets > 0 && port.dropped_packets == 0, "{port:?}");
    assert!(port.waiting_packets_max < 4 * 65, "{port:?}");
}

/// Credits ignore other flows and allocate the complete line to their own. DCTCP yields and
/// receives the rest, a twentieth.
#[test]
fn exact__gets_the_rest_beside_aeolus() {
    let Shares { own, exact, port } = shares("aeolus-es");
    assert!((0.90..=0.96).contains(&own), "{own} of the line");
    assert!((0.03..=0.10).contains(&exact), "{exact} of the line");
    assert!(port.marked_packets > 0, "{port:?}");
}
