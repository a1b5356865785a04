//! Event counters, one set per processor.

use crate::maps::COUNTERS;
use atp_common::maps::Counter;

/// Counts one event.
#[inline(always)]
pub fn count(counter: Counter) {
    count_many(counter, 1);
}

/// Counts several events.
#[inline(always)]
pub fn count_many(counter: Counter, events: u32) {
    if let Some(cell) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: the element is this processor's own, and programs don't preempt each other
        // between this read and this write. At worst one event of an interrupting program is lost.
        unsafe { *cell += u64::from(events) }
    }
}
