//! Figure 11: dynamic variants beside background traffic (NetApprox §7.1.2).

use super::{Extent, Figure, Metric, Run, setups::job_beside_background};
use crate::{
    engine::US,
    experiment::{Point, Scheme, msr_from_fraction},
    workload::Interval,
};
use atp_common::laws::queue;

const PLOTTED: [&str; 4] = ["atp:paper", "atp:fix-prio:paper", "atp:fix-tlr:paper", "dctcp-es"];
/// The first queues of these MSRs are 6, 4, 3, 2 and 1.
const MSRS: [f64; 5] = [0.3, 0.5, 0.625, 0.75, 0.875];

/// A job with background traffic, as in figure 10, by MSR. The background traffic starts in the
/// job's first queue, and moves to the next higher queue after half of the time.
pub(super) fn dynamic(extent: Extent) -> Figure {
    let mut runs = Vec::new();
    for scheme in PLOTTED {
        let scheme: Scheme = scheme.parse().expect("the name of a scheme");
        for x in MSRS {
            runs.push(Run::new(x, point(scheme, x, extent)));
        }
    }
    Figure {
        number: 11,
        title: "Completion by MSR, FBKV, beside background traffic in the job's first queue"
            .to_owned(),
        claim: "Full is the quickest, then FixPrio, then FixTLR; all are quicker than DCTCP",
        axis: "MSR",
        metric: Metric::CompletionUs,
        runs,
    }
}

/// Messages arrive for 1.5 ms, as in figure 10, and background traffic for 4 ms.
fn point(scheme: Scheme, msr: f64, extent: Extent) -> Point {
    let ps = |us| extent.shortened_us(us) * US;
    let msr = msr_from_fraction(msr).expect("an MSR below 1");
    let first = queue::of_target_loss_rate(msr.slack_share());
    // Queue 1 is the highest approximate queue.
    let second = (first - 1).max(1);
    let interval = |from_ps, until_ps, queue| Interval { from_ps, until_ps, queue };
    let intervals = vec![interval(0, ps(2_000), first), interval(ps(2_000), ps(4_000), second)];
    Point { msr, scheme, ..job_beside_background(ps(1_500), intervals) }
}
