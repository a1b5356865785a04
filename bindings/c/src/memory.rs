//! Messages in memory of the caller.

use crate::{status, text};
use std::{
    cell::RefCell,
    ffi::c_void,
    ptr::{null, null_mut},
};

/// Bytes of the caller.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_bytes {
    /// May be null if there are no bytes.
    pub data: *const c_void,
    /// The number of bytes.
    pub len: usize,
}

impl AsRef<[u8]> for atp_bytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: every `atp_bytes` that is used as bytes has passed `check`.
        unsafe { text::list(self.data.cast::<u8>(), self.len, "data") }.unwrap_or(&[])
    }
}

impl atp_bytes {
    pub const EMPTY: Self = Self { data: null(), len: 0 };

    /// Refuses a null pointer to bytes.
    pub fn check(&self) -> status::Outcome {
        // SAFETY: the slice isn't used.
        unsafe { text::list(self.data.cast::<u8>(), self.len, "data") }.map(|_| ())
    }
}

/// Gives the memory of a message back to the caller: the context and the bytes of the call that
/// sent it.
///
/// The library calls it once, in the call or in a thread of the library. It must return soon, must
/// not throw, and can't call libatp, which returns ATP_ERROR_CALLBACK there. It must not wait for a
/// lock that another thread holds during a call of the same job: that call may wait for this one.
pub type atp_release =
    Option<unsafe extern "C" fn(context: *mut c_void, data: *const c_void, len: usize)>;

/// Memory that goes back to the caller when it is dropped.
pub struct Lent {
    bytes: atp_bytes,
    release: atp_release,
    context: *mut c_void,
}

// SAFETY: the caller has promised to leave the bytes as they are until `release`, and that
// `release` may be called in another thread.
unsafe impl Send for Lent {}

impl Lent {
    pub fn new(bytes: atp_bytes, release: atp_release, context: *mut c_void) -> Self {
        Self { bytes, release, context }
    }

    /// Refuses bytes that can't be sent. The caller gets them back all the same.
    pub fn check(&self) -> status::Outcome {
        self.bytes.check()
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::replace(&mut self.bytes, atp_bytes::EMPTY);
        let context = std::mem::replace(&mut self.context, null_mut());
        let Some(release) = self.release.take() else { return };
        let is_kept = LATER.try_with(|later| {
            let mut later = later.borrow_mut();
            later.as_mut().map(|kept| kept.push(Self::new(bytes, Some(release), context))).is_some()
        });
        if !is_kept.unwrap_or(false) {
            // SAFETY: the callback came with these arguments, and is called once.
            status::releasing(|| unsafe { release(context, bytes.data, bytes.len) });
        }
    }
}

thread_local! {
    /// Memory that this thread gives back when its [`ReleaseLater`] ends.
    static LATER: RefCell<Option<Vec<Lent>>> = const { RefCell::new(None) };
}

/// While it lives, memory that its thread drops is kept. Made before a lock is taken, it gives the
/// memory back after the lock: a callback may take locks of the program, under which other threads
/// call the library.
pub struct ReleaseLater(());

impl ReleaseLater {
    pub fn begin() -> Self {
        let _ = LATER.try_with(|later| later.replace(Some(Vec::new())));
        Self(())
    }
}

impl Drop for ReleaseLater {
    fn drop(&mut self) {
        // Outside of the closure: dropping the memory looks at LATER again.
        let kept = LATER.try_with(RefCell::take);
        drop(kept);
    }
}
