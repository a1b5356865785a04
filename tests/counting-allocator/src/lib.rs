//! A global allocator that counts the memory of each thread, for tests that bound memory without a
//! look at the state that holds it. A process that calls a function of this crate has it.

#![deny(missing_docs)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Bytes that this thread holds, and the most that it held.
    static BYTES: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// Bytes that this thread holds. Negative if it freed memory of other threads.
pub fn bytes() -> isize {
    BYTES.get().0
}

/// The result of `work`, and the bytes that this thread holds beyond those that it held before.
///
/// # Panics
/// It holds fewer.
pub fn kept_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = bytes();
    let done = work();
    (done, usize::try_from(bytes() - before).expect("the work freed memory that it didn't take"))
}

/// The result of `work`, and the most bytes that this thread held meanwhile beyond those before.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = bytes();
    BYTES.set((before, before));
    let done = work();
    (done, (BYTES.get().1 - before) as usize)
}

fn count(bytes: isize) {
    let add = |(now, most): (isize, isize)| {
        let now = now.wrapping_add(bytes);
        (now, most.max(now))
    };
    // The counter is gone while a thread ends; nothing reads it then.
    BYTES.try_with(|count| count.set(add(count.get()))).ok();
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
        // Both blocks exist where `System` has to move the bytes.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{hint::black_box, thread};

    #[test]
    fn kept_bytes__are_those_of_the_result() {
        let (block, bytes) = kept_bytes(|| {
            drop(black_box(vec![1u8; 1_000]));
            let mut block = vec![0u8; 100];
            block.reserve_exact(200);
            black_box(block)
        });
        assert_eq!(bytes, block.capacity());
    }

    #[test]
    fn peak_bytes__count_what_is_dropped_again() {
        let ((), bytes) = peak_bytes(|| drop(black_box(vec![1u8; 1_000])));
        assert_eq!(bytes, 1_000);
    }

    #[test]
    fn bytes__are_those_of_the_thread() {
        let before = bytes();
        let other = thread::spawn(|| kept_bytes(|| black_box(vec![1u8; 1_000])).1);
        assert_eq!(other.join().unwrap(), 1_000);
        assert!((bytes() - before).abs() < 1_000);
    }
}
