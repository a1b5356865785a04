//! Memory of the application that a job keeps until it no longer needs the message.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Owned bytes with a callback that gets them back.
struct Owned<B, F: FnOnce(B)>(Option<(B, F)>);

impl<B, F: FnOnce(B)> Drop for Owned<B, F> {
    fn drop(&mut self) {
        // Messages are dropped in many places, also while a thread unwinds. A second panic there
        // would abort the process.
        if let Some((bytes, release)) = self.0.take()
            && catch_unwind(AssertUnwindSafe(|| release(bytes))).is_err()
        {
            tracing::error!("the callback that takes a message's memory back panicked");
        }
    }
}

/// The bytes behind an [`Owned`] of any type.
trait Bytes: Send {
    fn bytes(&self) -> &[u8];
}

impl<B: AsRef<[u8]> + Send, F: FnOnce(B) + Send> Bytes for Owned<B, F> {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |(bytes, _)| bytes.as_ref())
    }
}

/// A message in memory of the application. Dropping it gives the memory back.
pub struct OwnedMessage {
    owner: Box<dyn Bytes>,
    /// The length at the beginning. The transport counts on it.
    len: usize,
}

impl OwnedMessage {
    /// Takes `bytes` until the message is dropped, which calls `release` with them.
    pub fn new<B, F>(bytes: B, release: F) -> Self
    where
        B: AsRef<[u8]> + Send + 'static,
        F: FnOnce(B) + Send + 'static,
    {
        let len = bytes.as_ref().len();
        Self { owner: Box::new(Owned(Some((bytes, release)))), len }
    }

    /// The message's length.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The message. An owner whose length has changed violates `send_owned`'s contract.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.owner.bytes();
        assert!(bytes.len() == self.len, "the memory given to send_owned changed its length");
        bytes
    }
}

impl fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedMessage").field("len", &self.len).finish_non_exhaustive()
    }
}
