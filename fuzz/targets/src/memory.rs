//! Counts the memory that this thread holds, in the allocator. The count bounds the memory of a
//! host without a look at its state.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread holds. Negative if it freed memory of other threads.
pub fn bytes() -> isize {
    BYTES.get()
}

fn count(bytes: isize) {
    // The counter is gone while a thread ends; nothing reads it then.
    BYTES.try_with(|count| count.set(count.get().wrapping_add(bytes))).ok();
}

// SAFETY: every call is passed on to `System`; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.dealloc(pointer, layout) }
    }
}
