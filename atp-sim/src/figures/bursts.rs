//! Figure 19: synchronized bursts to one host.

use super::{Figure, Metric, Run};
use crate::{
    experiment::{Burst, NetworkSpec, Pattern, Point, Scheme, Traffic, msr_from_fraction},
    net::topology::Star,
    workload::Sizes,
};

/// Senders, messages of each, and their length in bytes.
const BURSTS: [(u32, u32, u32); 3] = [(4, 20, 1_400), (16, 20, 1_400), (30, 10, 1_000)];

/// The timer granularity of the simulator's hosts, and the kernel's.
const GRANULARITIES_NS: [u64; 2] = [40_000, 1_000_000];

const MSR: f64 = 0.8;

/// Jobs that begin together on a star, by the number of their senders. Only ATP depends on the
/// timer granularity.
pub(super) fn bursts() -> Figure {
    let atp = GRANULARITIES_NS.map(|granularity_ns| ("atp:full:paper", granularity_ns));
    let others = ["dctcp-es", "dctcp-es:shortest-first", "ndp-es", "pfabric-es", "mlt-es"]
        .into_iter()
        .chain(["aeolus-es", "udp"])
        .map(|name| (name, GRANULARITIES_NS[0]));
    let mut runs = Vec::new();
    for (name, timer_granularity_ns) in atp.into_iter().chain(others) {
        let scheme: Scheme = name.parse().expect("the name of a scheme");
        let series = match timer_granularity_ns {
            ns if ns == GRANULARITIES_NS[0] => name.to_owned(),
            ns => format!("{name}, timers of {} ms", ns / 1_000_000),
        };
        for (senders, messages, bytes) in BURSTS {
            let point = Point {
                network_spec: NetworkSpec::Star(Star { hosts: senders + 1 }),
                pattern: Pattern::Incast(None),
                traffic: Traffic::Burst(Burst { messages }),
                sizes: Sizes::Fixed(bytes),
                msr: msr_from_fraction(MSR).expect("an MSR below 1"),
                scheme,
                timer_granularity_ns,
                ..Point::default()
            };
            runs.push(Run { series: series.clone(), x: f64::from(senders), point });
        }
    }
    Figure {
        number: 19,
        title:
            "Synchronized bursts to one host, MSR 0.8: 20 messages of 1,400 B from 4 and from 16 \
                senders, 10 of 1,000 B from 30"
                .to_owned(),
        claim: "it has no such bursts",
        axis: "senders",
        metric: Metric::CompletionUs,
        runs,
    }
}
