//! Messages in memory of Java, which a job has until it needs them no more.
//!
//! A thread of the library that drops such a message only puts its number into a queue: to attach
//! to the JVM takes 70 us, and a callback of Java may take any time. A thread of Java empties the
//! queue (`Releases.java`). The buffer itself is held by a global reference until then.

use jni::{objects::JByteBuffer, refs::Global};
use std::{
    cell::Cell,
    collections::HashMap,
    sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

type Held = HashMap<i64, Global<JByteBuffer<'static>>>;

/// The buffers that jobs have, by their numbers.
static HELD: LazyLock<Mutex<Held>> = LazyLock::new(Mutex::default);
/// The numbers of messages that jobs need no more.
static RELEASED: Mutex<Vec<i64>> = Mutex::new(Vec::new());
static HAS_RELEASED: Condvar = Condvar::new();

thread_local! {
    /// The message that a call gives to a job, and whether it was dropped in the call.
    static GIVEN: Cell<Option<(i64, bool)>> = const { Cell::new(None) };
}

/// Bytes of a buffer in [`HELD`].
pub struct Lent {
    number: i64,
    start: *const u8,
    len: usize,
}

// SAFETY: the buffer is held, and Java has promised to leave its bytes as they are.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as above. The part lies in the buffer.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let number = self.number;
        let in_call = GIVEN.try_with(|given| {
            let is_given = given.get().is_some_and(|(given, _)| given == number);
            if is_given {
                given.set(Some((number, true)));
            }
            is_given
        });
        if !in_call.unwrap_or(false) {
            release(number);
        }
    }
}

fn release(number: i64) {
    lock(&RELEASED).push(number);
    HAS_RELEASED.notify_one();
}

/// Gives a message in memory of Java to `take`, which returns whether the job has taken it. If not,
/// nothing is held or released.
///
/// # Safety
/// The bytes lie in the buffer. Java doesn't change them until the number is released.
pub unsafe fn give<T, E>(
    number: i64,
    buffer: Global<JByteBuffer<'static>>,
    (start, len): (*mut u8, usize),
    take: impl FnOnce(Lent) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    lock(&HELD).insert(number, buffer);
    GIVEN.set(Some((number, false)));
    let taken = take(Lent { number, start, len });
    let was_dropped = GIVEN.take().is_some_and(|(_, was_dropped)| was_dropped);
    match taken {
        Ok(Some(_)) if was_dropped => release(number),
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => forget(&[number]),
    }
    taken
}

/// The numbers that were released since the last call. Waits for one.
pub fn take_released(timeout: Duration) -> Vec<i64> {
    let waited = HAS_RELEASED.wait_timeout_while(lock(&RELEASED), timeout, |all| all.is_empty());
    let mut released = waited.unwrap_or_else(PoisonError::into_inner).0;
    std::mem::take(&mut *released)
}

/// Java couldn't take the numbers: a later call returns them.
pub fn put_back(released: &[i64]) {
    lock(&RELEASED).extend(released);
}

/// Lets the JVM free the buffers. That may wait for the garbage collector, so no lock is held.
pub fn forget(released: &[i64]) {
    let buffers: Vec<_> = {
        let mut held = lock(&HELD);
        released.iter().filter_map(|number| held.remove(number)).collect()
    };
    drop(buffers);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
