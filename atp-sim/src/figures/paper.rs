//! What is run for the figures of NetApprox §7.1.

use super::{Figure, Metric, Run, dynamic::dynamic, fairness::fairness};
use crate::{
    engine::US,
    experiment::{Pattern, Place, Point, Scheme, msr_of_share},
    net::topology::LeafSpine,
    workload::Sizes,
};
use serde::{Deserialize, Serialize};

/// The figures that can be drawn. [`figure`] has all of them but 10, which is a
/// [`Timeline`](super::Timeline).
pub const NUMBERS: [u32; 10] = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

/// How much is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The paper's network, three seeds.
    #[default]
    Full,
    /// A network of 12 hosts, one seed: that it runs, and which way things point.
    Quick,
}

/// Two workloads of the paper.
#[derive(Clone, Copy)]
enum Workload {
    KeyValue,
    Hadoop,
}

const MSRS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];

/// What is run for figure `number`; `None` if it isn't one of [`NUMBERS`], or is 10.
pub fn figure(number: u32, extent: Extent) -> Option<Figure> {
    use Workload::{Hadoop, KeyValue};
    let figure = match number {
        5 => Figure {
            title: "Completion by MSR, FBKV, all-to-all".to_owned(),
            claim: "ATP completes sooner than every other scheme, UDP included",
            ..overall(number, KeyValue, Metric::CompletionUs, extent)
        },
        6 => Figure {
            title: "Completion by MSR, FBHD, all-to-all".to_owned(),
            claim: "ATP completes sooner than every other scheme, UDP included",
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
        _ => return None,
    };
    Some(figure)
}

fn overall(number: u32, workload: Workload, metric: Metric, extent: Extent) -> Figure {
    let others = Scheme::others().map(Scheme::name);
    let schemes: Vec<_> = ["atp:full:paper"].into_iter().chain(others).collect();
    let runs = over_msrs(&schemes, extent, |point| workload.apply(point, extent));
    Figure { number, title: String::new(), claim: "", axis: "MSR", metric, runs }
}

fn incast(extent: Extent) -> Figure {
    let runs = over_msrs(&["atp:full:paper", "dctcp-es", "dctcp-ss"], extent, |mut point| {
        point.pattern = Pattern::Incast(None);
        // Of all senders together, half as much again as the receiver's line takes.
        point.load = 1.5 / f64::from(extent.hosts() - 1);
        point.duration_ps = extent.shortened_us(1_000) * US;
        point
    });
    Figure {
        number: 9,
        title: "Completion by MSR, FBKV, all to one".to_owned(),
        claim: "ATP completes sooner than DCTCP with either policy",
        axis: "MSR",
        metric: Metric::CompletionUs,
        runs,
    }
}

fn breakdown(extent: Extent) -> Figure {
    let variants = ["atp:base", "atp:rc:paper", "atp:mrdf:paper", "atp:full:paper"];
    Figure {
        number: 12,
        title: "Completion by MSR, FBKV: what each part of ATP brings".to_owned(),
        claim: "RC is up to 42 % quicker than Base, MRDF up to 39 % than RC, Full up to 47 % than MRDF",
        axis: "MSR",
        metric: Metric::CompletionUs,
        runs: over_msrs(&variants, extent, |point| Workload::KeyValue.apply(point, extent)),
    }
}

/// The paper varies the share of exact traffic and the MSR; here the horizontal axis is the share, and
/// the MSR 0.8.
fn exact_traffic(extent: Extent) -> Figure {
    let mut runs = Vec::new();
    for scheme in ["atp:full:paper", "dctcp-es"] {
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
        let scheme: Scheme = scheme.parse().expect("a scheme that there is");
        for x in MSRS {
            for seed in 1..=extent.seeds() {
                let msr = msr_of_share(x).expect("a rate below 1");
                let point = Point { scheme, msr, seed, place: extent.place(), ..Point::default() };
                runs.push(Run::new(x, of(point)));
            }
        }
    }
    runs
}

impl Workload {
    /// NetApprox §7.1: small messages, or a few large ones, which need longer to be as many.
    fn apply(self, point: Point, extent: Extent) -> Point {
        let (sizes, duration_us) = match self {
            Self::KeyValue => (Sizes::KeyValue, 500),
            Self::Hadoop => (Sizes::Hadoop, 5_000),
        };
        Point { sizes, duration_ps: extent.shortened_us(duration_us) * US, ..point }
    }
}

impl Extent {
    /// What a title says about it.
    pub const fn note(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Quick => " (quick: a small network, one seed, a fifth of the time)",
        }
    }

    pub(super) fn seeds(self) -> u64 {
        match self {
            Self::Full => 3,
            Self::Quick => 1,
        }
    }

    pub(super) fn place(self) -> Place {
        match self {
            Self::Full => Place::default(),
            Self::Quick => Place::LeafSpine(LeafSpine { leaves: 3, hosts_per_leaf: 4, spines: 2 }),
        }
    }

    fn hosts(self) -> u32 {
        match self {
            Self::Full => 192,
            Self::Quick => 12,
        }
    }

    pub(super) fn shortened_us(self, duration_us: u64) -> u64 {
        match self {
            Self::Full => duration_us,
            Self::Quick => duration_us / 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure__every_number_has_runs_of_its_own_kind() {
        for number in NUMBERS.into_iter().filter(|number| *number != 10) {
            let figure = figure(number, Extent::Quick).unwrap();
            assert_eq!(figure.number, number);
            assert!(!figure.runs.is_empty() && !figure.claim.is_empty());
            // Figure 11 is of one receiver's line, however much is run.
            let hosts = if number == 11 { 5 } else { Extent::Quick.hosts() };
            assert_eq!(figure.runs[0].point.place.hosts(), u64::from(hosts));
        }
        assert!(figure(4, Extent::Quick).is_none());
        let hosts = Extent::Full.place().topology(Default::default()).hosts;
        assert_eq!(hosts, Extent::Full.hosts());
    }
}
