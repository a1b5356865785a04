//! No law: lanes send at Rmax, as in ATP Base (NetApprox §7.1.3).

use super::{Law, LawSettings};
use crate::{laws::sample::EpochSample, units::Rate};
use bytemuck::{Pod, Zeroable};

/// The law has no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct NoLaw {}

impl Law for NoLaw {
    fn on_epoch(&mut self, lane: &LawSettings, _rate: Rate, _sample: &EpochSample) -> Rate {
        lane.rate_max
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        LawState, RateLaw,
        testing::{sample, settings},
    };

    #[test]
    fn on_epoch__rmax_stays() {
        let base = settings(RateLaw::None);
        let (mut law, rate) = (LawState::default(), LawState::first_rate(&base));
        assert_eq!(rate, base.rate_max);
        assert_eq!(law.on_epoch(&base, rate, &sample(0, rate, 10, 0)), base.rate_max);
    }
}
