//! The function in which a lane's law runs.
//!
//! In eBPF it is a global function: the verifier checks it once, for all arguments, and not again
//! on every path that leads to it. A law then adds its own paths, and multiplies no others.

use super::{LawSettings, LawState};
use crate::{laws::sample::EpochSample, units::Rate};

impl LawState {
    /// The rate after an epoch, at most Rmax. The lane applies the floor.
    pub(in crate::laws) fn on_epoch(
        &mut self,
        lane: &LawSettings,
        rate: Rate,
        sample: &EpochSample,
    ) -> Rate {
        // SAFETY: all three pointers are references.
        Rate::from_bytes_per_s(unsafe { atp_law_on_epoch(self, lane, sample, rate.bytes_per_s()) })
    }
}

/// [`LawState::on_epoch`] on types that the verifier accepts: numbers, and pointers that it takes
/// to be null until they are compared. Rust removes that comparison for a reference.
///
/// # Safety
/// Each pointer is null, or could be a reference. `state` is the only one to its memory.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle), inline(never))]
unsafe fn atp_law_on_epoch(
    state: *mut LawState,
    lane: *const LawSettings,
    sample: *const EpochSample,
    rate_bytes_per_s: u64,
) -> u64 {
    // SAFETY: the caller's promise.
    let (state, lane, sample) = unsafe { (state.as_mut(), lane.as_ref(), sample.as_ref()) };
    let (Some(state), Some(lane), Some(sample)) = (state, lane, sample) else {
        return rate_bytes_per_s;
    };
    let rate = Rate::from_bytes_per_s(rate_bytes_per_s);
    state.dispatch_epoch(lane, rate, sample).bytes_per_s()
}
