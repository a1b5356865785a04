//! Figures 15 to 18: figures 5, 6, 9 and 13 again, beside baselines that have one part of ATP each.
//! A baseline that comes near to ATP shows which part causes ATP's result.

use super::{Extent, Figure, Metric, Run, Workload, incast_of};
use crate::experiment::{LoadBalancing, Point, Scheme, msr_from_fraction};
use LoadBalancing::{Ecmp, Own, Spray};

/// A scheme with a choice of paths.
type Baseline = (&'static str, LoadBalancing);

/// The choice of messages and the choice of paths, apart and together.
const OF_COMPLETION: [Baseline; 14] = [
    ("atp:full:paper", Own),
    ("atp:full:paper", Spray),
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
const OF_INCAST: [Baseline; 6] = [
    ("atp:full:paper", Own),
    ("atp:rc:paper", Own),
    ("dctcp-es", Own),
    ("dctcp-es:shortest-first", Own),
    ("ndp-es", Own),
    ("ndp-es:shortest-first", Own),
];

/// Base has ATP's queues, and none of its control.
const OF_PRIORITY: [Baseline; 4] =
    [("atp:full:paper", Own), ("atp:base", Own), ("dctcp-es", Own), ("dctcp-es:low-priority", Own)];

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
