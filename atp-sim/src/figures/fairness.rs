//! Figure 14: a light job beside two heavy ones that can lose more (NetApprox §7.1.5).

use super::{Extent, Figure, Metric, Run};
use crate::{
    engine::US,
    experiment::{Pattern, Point, Scheme, Tenant, msr_from_fraction},
    workload::{Gaps, Sizes},
};
use atp_common::units::Msr;

const LOADS: [f64; 3] = [0.25, 0.5, 0.75];
/// The load of each of the two FBHD jobs of a host.
const HADOOP_LOAD: f64 = 0.4;

/// The completion time of FBKV jobs by their load: with both FBHD jobs under three variants, and
/// without them.
pub(super) fn fairness(extent: Extent) -> Figure {
    let mut runs = Vec::new();
    for (series, variant, is_alone) in [
        ("alone", "full", true),
        ("atp:paper", "full", false),
        ("atp:fix-tlr:paper", "fix-tlr", false),
        ("atp:fix-prio:paper", "fix-prio", false),
    ] {
        let scheme: Scheme = format!("atp:{variant}").parse().expect("the name of a scheme");
        for x in LOADS {
            let mut point = point(scheme, x, extent);
            if is_alone {
                point.tenants.clear();
            }
            runs.push(Run { series: series.to_owned(), x, point });
        }
    }
    Figure {
        number: 14,
        title: "Completion of FBKV jobs (MSR 0.875) beside FBHD jobs (0.75 and 0.5)".to_owned(),
        claim: "Full is nearest to being alone; FixPrio is worse than FixTLR at low load",
        axis: "load of FBKV",
        metric: Metric::CompletionUs,
        runs,
    }
}

/// Every host has one job of each kind. The FBKV jobs begin after a fifth of the other jobs'
/// duration.
fn point(scheme: Scheme, load: f64, extent: Extent) -> Point {
    let hadoop_us = extent.shortened_us(1_000);
    let hadoop = |msr| Tenant {
        pattern: Pattern::Random,
        sizes: Sizes::Hadoop,
        gaps: Gaps::Poisson,
        load: HADOOP_LOAD,
        begins_ps: 0,
        duration_ps: hadoop_us * US,
        msr: share(msr),
    };
    Point {
        network_spec: extent.network_spec(),
        load,
        begins_ps: hadoop_us / 5 * US,
        duration_ps: hadoop_us / 5 * US,
        msr: share(0.875),
        scheme,
        tenants: vec![hadoop(0.75), hadoop(0.5)],
        ..Point::default()
    }
}

fn share(share: f64) -> Msr {
    msr_from_fraction(share).expect("an MSR below 1")
}
