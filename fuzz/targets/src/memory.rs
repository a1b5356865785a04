//! How much memory this thread has been given and not given back: counted where it is given out, so
//! that a bound on what a stranger can make a host keep needs no view into its state.

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

/// Bytes that this thread holds; less than zero if it gave back what another had got.
pub fn bytes() -> isize {
    BYTES.get()
}

fn count(bytes: isize) {
    // While a thread ends nobody asks any more.
    BYTES.try_with(|count| count.set(count.get().wrapping_add(bytes))).ok();
}

// SAFETY: does what `System` does, and counts without allocating.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}
