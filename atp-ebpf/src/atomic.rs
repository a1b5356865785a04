//! Atomic operations on map memory: one instruction each in eBPF's v3 instruction set.

use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd, atomic_xchg};

/// `*cell += amount`; returns the old value.
///
/// # Safety
/// `cell` points to an aligned u64 in a map.
#[inline(always)]
pub unsafe fn add(cell: *mut u64, amount: u64) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { atomic_xadd::<_, _, { AtomicOrdering::SeqCst }>(cell, amount) }
}

/// Replaces `old` by `new`; `false` if the cell had another value.
///
/// # Safety
/// `cell` points to an aligned u64 in a map.
#[inline(always)]
pub unsafe fn replace(cell: *mut u64, old: u64, new: u64) -> bool {
    const ORDER: AtomicOrdering = AtomicOrdering::SeqCst;
    // SAFETY: as the caller promises.
    unsafe { atomic_cxchg::<_, ORDER, ORDER>(cell, old, new).1 }
}

/// `*cell = value`, after all earlier writes, as any processor sees it.
///
/// # Safety
/// `cell` points to an aligned u32 in a map.
#[inline(always)]
pub unsafe fn publish(cell: *mut u32, value: u32) {
    // SAFETY: as the caller promises.
    unsafe { atomic_xchg::<_, { AtomicOrdering::SeqCst }>(cell, value) };
}
