//! The law `yield`: TFRC's rate, for lanes with a small window in a queue that all traffic shares.
//!
//! TFRC keeps a lane's share beside TCP. The [window](crate::laws::yielding) keeps its packets out
//! of the way of exact traffic.

use super::{Law, LawSettings, tfrc::Tfrc};
use crate::{laws::sample::EpochSample, units::Rate};
use bytemuck::{Pod, Zeroable};

/// TFRC's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Yield(Tfrc);

impl Law for Yield {
    fn first_rate(lane: &LawSettings) -> Rate {
        Tfrc::first_rate(lane)
    }

    fn on_first_rtt(&self, lane: &LawSettings, rate: Rate, rtt_ns: u64) -> Rate {
        self.0.on_first_rtt(lane, rate, rtt_ns)
    }

    fn skip_start(&mut self) {
        self.0.skip_start();
    }

    fn on_epoch(&mut self, lane: &LawSettings, rate: Rate, sample: &EpochSample) -> Rate {
        self.0.on_epoch(lane, rate, sample)
    }
}
