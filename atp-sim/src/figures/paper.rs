//! The runs of the figures of NetApprox §7.1.

use super::{
    Extent, Figure, Metric, Run, Workload, causes, dynamic::dynamic, fairness::fairness, incast_of,
};
use crate::experiment::{Point, Scheme, msr_from_fraction};

/// The numbers of all figures. Those above 14 are not the paper's. [`figure`] describes all but
/// figure 10, which is a [`Timeline`](super::Timeline).
pub const NUMBERS: [u32; 15] = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

const MSRS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];

/// The description of figure `number`; `None` for 10 and for numbers that are not in [`NUMBERS`].
pub fn figure(number: u32, extent: Extent) -> Option<Figure> {
    use Workload::{Hadoop, KeyValue};
    let figure = match number {
        5 => Figure {
            title: "Completion by MSR, FBKV, all-to-all".to_owned(),
            claim: "ATP completes faster than every other scheme, UDP included",
            ..overall(number, KeyValue, Metric::CompletionUs, extent)
        },
        6 => Figure {
            title: "Completion by MSR, FBHD, all-to-all".to_owned(),
            claim: "ATP completes faster than every other scheme, UDP included",
            ..overall(number, Hadoop, Metric::CompletionUs, extent)
        },
        7 => Figure {
            title: "Queues by MSR, FBKV, all-to-all".to_owned(),
            claim: "ATP has the shortest queues, below 1 MTU",
            ..overall(number, KeyValue, Metric::QueueBytes, extent)
        },
        8 => Figure {
            title: "Queues by MSR, FBHD, all-to-all".to_owned(),
            claim: "ATP has the shortest queues, below 1 MTU; UDP's are long",
            ..overall(number, Hadoop, Metric::QueueBytes, extent)
        },
        9 => incast(extent),
        11 => dynamic(extent),
        12 => breakdown(extent),
        13 => exact_traffic(extent),
        14 => fairness(extent),
        15 => causes::completion(number, KeyValue, extent),
        16 => causes::completion(number, Hadoop, extent),
        17 => causes::incast(number, extent),
        18 => causes::priority(number, extent),
        19 => causes::bursts(),
        _ => return None,
    };
    Some(figure)
}

fn overall(number: u32, workload: Workload, metric: Metric, extent: Extent) -> Figure {
    let others = Scheme::others().map(Scheme::name);
    let schemes: Vec<_> = ["atp", "atp:paper"].into_iter().chain(others).collect();
    let runs = over_msrs(&schemes, extent, |point| workload.apply(point, extent));
    Figure { number, title: String::new(), claim: "", axis: "MSR", metric, runs }
}

fn incast(extent: Extent) -> Figure {
    let runs = over_msrs(&["atp", "atp:paper", "dctcp-es", "dctcp-ss"], extent, |point| {
        incast_of(point, extent)
    });
    Figure {
        number: 9,
        title: "Completion by MSR, FBKV, all to one".to_owned(),
        claim: "ATP completes faster than DCTCP with either policy",
        axis: "MSR",
        metric: Metric::CompletionUs,
        runs,
    }
}

fn breakdown(extent: Extent) -> Figure {
    let variants = ["atp:base", "atp:rc:paper", "atp:mrdf:paper", "atp:paper", "atp"];
    Figure {
        number: 12,
        title: "Completion by MSR, FBKV: what each part of ATP brings".to_owned(),
        claim: "RC is up to 42 % quicker than Base, MRDF up to 39 % than RC, Full up to 47 % than MRDF",
        axis: "MSR",
        metric: Metric::CompletionUs,
        runs: over_msrs(&variants, extent, |point| Workload::KeyValue.apply(point, extent)),
    }
}

/// The paper varies the share of exact traffic and the MSR. Here the horizontal axis is the share,
/// at MSR 0.8.
fn exact_traffic(extent: Extent) -> Figure {
    let mut runs = Vec::new();
    for scheme in ["atp", "atp:paper", "dctcp-es"] {
        for x in [0.1, 0.25, 0.5, 0.75] {
            for run in over_msrs(&[scheme], extent, |point| Workload::KeyValue.apply(point, extent))
            {
                if run.x == 0.8 {
                    runs.push(Run::new(x, Point { exact_share: x, ..run.point }));
                }
            }
        }
    }
    Figure {
        number: 13,
        title: "Exact messages beside approximate jobs, FBKV, MSR 0.8".to_owned(),
        claim: "exact traffic is up to 79 % quicker beside ATP than beside DCTCP",
        axis: "share of hosts with exact jobs",
        metric: Metric::ExactUs,
        runs,
    }
}

fn over_msrs(schemes: &[&str], extent: Extent, of: impl Fn(Point) -> Point) -> Vec<Run> {
    let mut runs = Vec::new();
    for scheme in schemes {
        let scheme: Scheme = scheme.parse().expect("the name of a scheme");
        for x in MSRS {
            let msr = msr_from_fraction(x).expect("an MSR below 1");
            let network_spec = extent.network_spec();
            runs.push(Run::new(x, of(Point { scheme, msr, network_spec, ..Point::default() })));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure__has_runs_for_every_number() {
        for number in NUMBERS.into_iter().filter(|number| *number != 10) {
            let figure = figure(number, Extent::Quick).unwrap();
            assert_eq!(figure.number, number);
            assert!(!figure.runs.is_empty() && !figure.claim.is_empty());
            // Figures 11 and 19 have as many hosts at every extent.
            let hosts = if matches!(number, 11 | 19) { 5 } else { Extent::Quick.hosts() };
            assert_eq!(figure.runs[0].point.network_spec.hosts(), u64::from(hosts));
        }
        assert!(figure(4, Extent::Quick).is_none());
        let hosts = Extent::Full.network_spec().topology(Default::default()).hosts;
        assert_eq!(hosts, Extent::Full.hosts());
    }
}
