//! Event counters, one set per processor.

use crate::{
    atomic,
    log::{self, Hook},
    maps::COUNTERS,
};
use atp_common::maps::{Counter, Event};

/// Counts one event.
#[inline(always)]
pub fn count(counter: Counter) {
    count_many(counter, 1);
}

/// Counts an event of the packet at hand, and logs it.
#[inline(always)]
pub fn note(hook: &impl Hook, event: Event) {
    count_at(event.counter_index(), 1);
    log::write(hook, event);
}

/// Counts several events.
#[inline(always)]
pub fn count_many(counter: Counter, events: u32) {
    count_at(counter as u32, events);
}

#[inline(always)]
fn count_at(index: u32, events: u32) {
    if let Some(cell) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: an aligned u64 in a map.
        unsafe { atomic::add(cell, u64::from(events)) };
    }
}
