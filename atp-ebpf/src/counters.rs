//! Event counters, one set per processor.

use crate::maps::COUNTERS;
use atp_common::maps::Counter;

/// Adds one.
#[inline(always)]
pub fn count(counter: Counter) {
    count_many(counter, 1);
}

/// Adds some.
#[inline(always)]
pub fn count_many(counter: Counter, events: u32) {
    if let Some(cell) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: the element is this processor's own, and programs aren't preempted by each other
        // between this read and this write; at worst one event of an interrupting program is lost.
        unsafe { *cell += u64::from(events) }
    }
}
