//! The sources of messages: drawn, a trace, an all-reduce, and tenants beside them.

use super::{Pattern, Point};
use crate::engine::US;
use crate::workload::{Gaps, Shape, Sizes, Trace};
use atp_common::units::Msr;
use std::sync::Arc;

/// The source of the messages of a point's own jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Drawn from pattern, sizes, gaps and load.
    Drawn,
    /// A trace. Pattern, sizes, gaps and load have no effect.
    Trace(Arc<Trace>),
    /// All messages of every sender at once: a synchronized burst. Load and gaps have no effect.
    Burst(Burst),
    /// An all-reduce of all hosts, which starts at `begins_ps`. Pattern, gaps and load have no
    /// effect. Each transfer is a job with the point's MSR, and is split into messages of the
    /// point's sizes.
    AllReduce(AllReduce),
}

/// A synchronized burst. Each sender begins at a time of its own within [`Burst::SPREAD_PS`], since
/// hosts are not synchronized to the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The number of messages of each sender.
    pub messages: u32,
}

impl Burst {
    /// The time in which all senders begin, which is less than a round trip.
    pub const SPREAD_PS: u64 = US;
}

/// An all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllReduce {
    /// The order of the transfers.
    pub shape: Shape,
    /// The length of each host's vector.
    pub bytes: u64,
}

/// Jobs of another kind that share the point's network. [`Point`] has fields of the same names and
/// meanings.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The pairs of senders and receivers.
    pub pattern: Pattern,
    /// The distribution of message sizes.
    pub sizes: Sizes,
    /// The distribution of times between messages.
    pub gaps: Gaps,
    /// The share of a host's line that its messages would use if sent over UDP.
    pub load: f64,
    /// The time of the first messages.
    pub begins_ps: u64,
    /// The time in which messages arrive.
    pub duration_ps: u64,
    /// The minimal sampling rate of every job.
    pub msr: Msr,
}

impl Tenant {
    /// A point with only this tenant's jobs. Its seed differs for each `number`.
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
