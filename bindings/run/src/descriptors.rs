//! The library's own descriptors, which lie among those of the program.
//!
//! They have high numbers, out of the program's way. The program can't close them, and a forked
//! child closes them: it has none of the threads that serve them.

use crate::{
    limit, next,
    shared::{Inside, enter, lock},
};
use libc::c_int;
use std::{
    cell::Cell,
    os::fd::RawFd,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    thread,
};

/// Descriptors above this are never noted.
pub const FDS_MAX: usize = 65_536;
const WORD_BITS: usize = u64::BITS as usize;
/// The lowest number, if the process may have twice as many descriptors.
const FIRST_MAX: usize = 4_096;

/// A bit for each descriptor: a fork may interrupt a thread that holds a lock.
static OWN: [AtomicU64; FDS_MAX / WORD_BITS] = [const { AtomicU64::new(0) }; FDS_MAX / WORD_BITS];

/// The threads that make or close descriptors of the library, or [`CLOSING`] as well.
static MAKING: AtomicU32 = AtomicU32::new(0);
/// A thread of the program closes a range of descriptors, or forks.
const CLOSING: u32 = 1 << 31;
thread_local! {
    /// This thread has set [`CLOSING`]: another library's handler of the fork may close or make
    /// descriptors in it.
    static IS_CLOSING: Cell<bool> = const { Cell::new(false) };
}
/// No handler runs in the thread that forks. Only the thread that has set [`CLOSING`] takes it.
static FORKING: Mutex<Option<Inside>> = Mutex::new(None);

/// Makes and keeps a descriptor, without waiting for the kernel. No range is closed and no process
/// is forked until it is noted as the library's.
pub fn make(make: impl FnOnce() -> RawFd) -> RawFd {
    without_closing(|| keep(make()))
}

/// Closes a descriptor of the library. No process is forked while it is open and not noted.
pub fn close(fd: RawFd) -> c_int {
    without_closing(|| {
        if let Some((word, bit)) = word(fd) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        // SAFETY: the caller owns the descriptor.
        unsafe { next::close(fd) }
    })
}

fn without_closing<T>(run: impl FnOnce() -> T) -> T {
    if IS_CLOSING.get() {
        return run();
    }
    let enter = |making: u32| (making & CLOSING == 0).then_some(making + 1);
    while MAKING.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
        thread::yield_now();
    }
    let done = run();
    MAKING.fetch_sub(1, Ordering::Release);
    done
}

/// Closes a range, while no thread of the library makes a descriptor.
pub fn close_range<T>(close: impl FnOnce() -> T) -> T {
    // A handler may close a range too, or fork.
    let _inside = enter();
    begin_closing();
    let closed = close();
    end_closing();
    closed
}

/// Waits until no thread of the library makes or closes a descriptor, and lets none begin.
fn begin_closing() {
    let enter = |making: u32| (making & CLOSING == 0).then_some(making | CLOSING);
    while MAKING.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
        thread::yield_now();
    }
    while MAKING.load(Ordering::Acquire) != CLOSING {
        thread::yield_now();
    }
    IS_CLOSING.set(true);
}

fn end_closing() {
    IS_CLOSING.set(false);
    MAKING.fetch_and(!CLOSING, Ordering::Release);
}

/// Runs before a fork: a descriptor that isn't noted yet would stay open in the child, and with it
/// the connection, whatever becomes of the parent.
pub fn before_fork() {
    let inside = enter();
    begin_closing();
    *lock(&FORKING) = Some(inside);
}

/// Runs after a fork, in the parent.
pub fn after_fork_in_parent() {
    let inside = lock(&FORKING).take();
    end_closing();
    drop(inside);
}

/// Runs after a fork, in the child, which has none of the parent's threads: closes all. No handler
/// runs until the guard is dropped.
pub fn after_fork_in_child() -> Option<Inside> {
    close_all();
    let inside = lock(&FORKING).take();
    end_closing();
    inside
}

fn word(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((OWN.get(fd / WORD_BITS)?, 1 << (fd % WORD_BITS)))
}

/// Notes a new descriptor of the library, and returns it with a high number if there is one.
pub fn keep(fd: RawFd) -> RawFd {
    if fd < 0 {
        return fd;
    }
    let moved = moved(fd).unwrap_or(fd);
    if let Some((word, bit)) = word(moved) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
    moved
}

fn moved(fd: RawFd) -> Option<RawFd> {
    let first = (limit::descriptors() / 2).min(FIRST_MAX);
    // SAFETY: the library's own descriptor has no other user yet.
    unsafe {
        let moved = next::fcntl(fd, libc::F_DUPFD_CLOEXEC, first);
        if moved < 0 {
            return None;
        }
        next::close(fd);
        Some(moved)
    }
}

pub fn is_own(fd: RawFd) -> bool {
    word(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The parts of a range of numbers, both ends included, without the library's descriptors.
pub fn parts_without_own(first: u32, last: u32) -> Vec<(u32, u32)> {
    let (mut parts, mut start) = (Vec::new(), first);
    for fd in first..=last.min(FDS_MAX as u32 - 1) {
        if is_own(fd as RawFd) {
            if start < fd {
                parts.push((start, fd - 1));
            }
            start = fd + 1;
        }
    }
    if start <= last {
        parts.push((start, last));
    }
    parts
}

fn close_all() {
    for (index, word) in OWN.iter().enumerate() {
        let bits = word.swap(0, Ordering::Relaxed);
        for bit in (0..WORD_BITS).filter(|bit| bits & 1 << bit != 0) {
            // SAFETY: no code of the child uses the descriptor.
            unsafe { next::close((index * WORD_BITS + bit) as RawFd) };
        }
    }
}
