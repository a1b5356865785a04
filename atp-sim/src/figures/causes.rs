//! Figures 15 to 18: figures 5, 6, 9 and 13 again, beside baselines that have one part of ATP each.
//! A baseline that comes near to ATP shows which part causes ATP's result. Figure 19 has
//! synchronized bursts to one host.

use super::{Extent, Figure, Metric, Run, Workload, incast_of};
use crate::{
    experiment::{
        Burst, LoadBalancing, NetworkSpec, Pattern, Point, Scheme, Traffic, msr_from_fraction,
    },
    net::topology::Star,
    workload::Sizes,
};
use LoadBalancing::{Ecmp, Own, Spray};

/// A scheme with a choice of paths.
type Baseline = (&'static str, LoadBalancing);

/// The choice of messages and the choice of paths, apart and together.
const OF_COMPLETION: [Baseline; 15] = [
    ("atp", Own),
    ("atp:paper", Own),
    ("atp:paper", Spray),
    ("atp:rc:paper", Own),
    ("dctcp-es", Own),
    ("dctcp-es", Spray),
    ("dctcp-es:shortest-first", Own),
    ("dctcp-es:shortest-first", Spray),
    ("ndp-es", Ecmp),
    ("ndp-es", Own),
    ("ndp-es:shortest-first", Ecmp),
    ("ndp-es:shortest-first", Own),
    ("pfabric-es", Spray),
    ("mlt-es", Spray),
    ("aeolus-es", Spray),
];

/// One line is the bottleneck of an incast, so paths don't matter.
const OF_INCAST: [Baseline; 7] = [
    ("atp", Own),
    ("atp:paper", Own),
    ("atp:rc:paper", Own),
    ("dctcp-es", Own),
    ("dctcp-es:shortest-first", Own),
    ("ndp-es", Own),
    ("ndp-es:shortest-first", Own),
];

/// Base has ATP's queues, and none of its control.
const OF_PRIORITY: [Baseline; 5] = [
    ("atp", Own),
    ("atp:paper", Own),
    ("atp:base", Own),
    ("dctcp-es", Own),
    ("dctcp-es:low-priority", Own),
];

const MSRS: [f64; 2] = [0.5, 0.9];
const EXACT_SHARES: [f64; 4] = [0.1, 0.25, 0.5, 0.75];

/// The figure that separates the causes of figure 5 or 6.
pub(super) fn completion(number: u32, workload: Workload, extent: Extent) -> Figure {
    let (name, of) = match workload {
        Workload::KeyValue => ("FBKV", 5),
        Workload::Hadoop => ("FBHD", 6),
    };
    Figure {
        number,
        title: format!("Causes of figure {of}: choice of messages and of paths, {name}"),
        claim: "it has no such baselines",
        axis: "MSR",
        metric: Metric::CompletionUs,
        runs: runs(&OF_COMPLETION, &MSRS, extent, |x, point| {
            workload.apply(at_msr(x, point), extent)
        }),
    }
}

/// The figure that separates the causes of figure 9.
pub(super) fn incast(number: u32, extent: Extent) -> Figure {
    Figure {
        number,
        title: "Causes of figure 9: choice of messages, FBKV, all to one".to_owned(),
        claim: "it has no such baselines",
        axis: "MSR",
        metric: Metric::CompletionUs,
        runs: runs(&OF_INCAST, &MSRS, extent, |x, point| incast_of(at_msr(x, point), extent)),
    }
}

/// The figure that separates the causes of figure 13.
pub(super) fn priority(number: u32, extent: Extent) -> Figure {
    Figure {
        number,
        title: "Causes of figure 13: exact messages beside lower queues, FBKV, MSR 0.8".to_owned(),
        claim: "it has no such baselines",
        axis: "share of hosts with exact jobs",
        metric: Metric::ExactUs,
        runs: runs(&OF_PRIORITY, &EXACT_SHARES, extent, |x, point| {
            let point = Point { exact_share: x, ..at_msr(0.8, point) };
            Workload::KeyValue.apply(point, extent)
        }),
    }
}

fn at_msr(msr: f64, point: Point) -> Point {
    Point { msr: msr_from_fraction(msr).expect("an MSR below 1"), ..point }
}

fn runs(
    baselines: &[Baseline],
    xs: &[f64],
    extent: Extent,
    of: impl Fn(f64, Point) -> Point,
) -> Vec<Run> {
    let mut runs = Vec::new();
    for &(name, load_balancing) in baselines {
        let scheme: Scheme = name.parse().expect("the name of a scheme");
        let series = match load_balancing {
            Own => name.to_owned(),
            other => format!("{name}, {other}"),
        };
        for &x in xs {
            let network_spec = extent.network_spec();
            let point = Point { scheme, load_balancing, network_spec, ..Point::default() };
            runs.push(Run { series: series.clone(), x, point: of(x, point) });
        }
    }
    runs
}

/// Senders, messages of each, and their length in bytes.
const BURSTS: [(u32, u32, u32); 3] = [(4, 20, 1_400), (16, 20, 1_400), (30, 10, 1_000)];

/// The timer granularity of the simulator's hosts, and the kernel's.
const GRANULARITIES_NS: [u64; 2] = [40_000, 1_000_000];

const BURST_MSR: f64 = 0.8;

/// Jobs that begin together on a star, by the number of their senders. Only ATP depends on the
/// timer granularity.
pub(super) fn bursts() -> Figure {
    let atp = ["atp", "atp:paper"].into_iter();
    let atp = atp.flat_map(|name| GRANULARITIES_NS.map(|granularity_ns| (name, granularity_ns)));
    let others = ["dctcp-es", "dctcp-es:shortest-first", "ndp-es", "pfabric-es", "mlt-es"]
        .into_iter()
        .chain(["aeolus-es", "udp"])
        .map(|name| (name, GRANULARITIES_NS[0]));
    let mut runs = Vec::new();
    for (name, timer_granularity_ns) in atp.chain(others) {
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
                msr: msr_from_fraction(BURST_MSR).expect("an MSR below 1"),
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
