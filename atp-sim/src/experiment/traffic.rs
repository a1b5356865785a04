//! Where messages come from, and who else sends some.

use super::{Pattern, Point};
use crate::workload::{Gaps, Shape, Sizes, Trace};
use atp_common::units::Msr;
use std::sync::Arc;

/// Where the messages of a point's own jobs come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Drawn by pattern, sizes, gaps and load.
    Drawn,
    /// A trace: pattern, sizes, gaps and load don't matter.
    Trace(Arc<Trace>),
    /// Of all hosts, at `begins_ps`: pattern, gaps and load don't matter. Each transfer is cut into
    /// messages of the point's sizes and is a job of its own, with the point's MSR.
    AllReduce(AllReduce),
}

/// An all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllReduce {
    /// In which way the sum is made.
    pub shape: Shape,
    /// How long each host's vector is.
    pub bytes: u64,
}

/// Jobs of another kind beside a point's own. What each field means stands at [`Point`]'s of the same
/// name.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// How long the messages are.
    pub sizes: Sizes,
    /// What lies between them.
    pub gaps: Gaps,
    /// The share of its line that a host's messages would take as UDP.
    pub load: f64,
    /// When messages begin to come.
    pub begins_ps: u64,
    /// For how long messages come.
    pub duration_ps: u64,
    /// Every job's minimal sampling rate.
    pub msr: Msr,
}

impl Tenant {
    /// The point that it would be alone, as the `number`-th tenant of `point`, with chances of its own.
    pub(super) fn as_point(&self, point: &Point, number: u32) -> Point {
        let Self { pattern, ref sizes, gaps, load, begins_ps, duration_ps, msr } = *self;
        Point {
            traffic: Traffic::Drawn,
            pattern,
            sizes: sizes.clone(),
            gaps,
            load,
            begins_ps,
            duration_ps,
            msr,
            exact_share: 0.0,
            tenants: Vec::new(),
            background: Vec::new(),
            seed: point.seed.wrapping_add(u64::from(number) << 32),
            ..point.clone()
        }
    }
}
