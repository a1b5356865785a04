//! The bytes that wait for a program of the listening end, and how they end.
//!
//! The messages of all connections come through one receiver. It must not wait for one program, so
//! adding a frame never waits. The client [keeps to the room](super::room).

use super::room::{ROOM_BYTES, Taken};
use crate::shared::lock;
use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A part of the bytes for the program, or how they end.
pub enum Piece {
    /// Bytes, and all frames up to their end.
    Bytes(Vec<u8>, Taken),
    End,
    Reset,
}

/// The pieces of one connection.
#[derive(Default)]
pub struct Pieces {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The end comes after the bytes.
    end: Option<Piece>,
    /// Frames and bytes of them that have come in all.
    come: Taken,
    /// The part of them that the program has.
    taken: Taken,
    /// The program takes no more.
    is_over: bool,
}

/// A client has sent more than there was room for.
pub struct Overrun;

impl Pieces {
    /// Adds a frame; whether the program may still take it.
    pub fn add_frame(&self, frame: &[u8]) -> Result<bool, Overrun> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_over {
            return Ok(false);
        }
        let come = waiting.come.with(1, frame.len());
        if come.bytes - waiting.taken.bytes > ROOM_BYTES {
            return Err(Overrun);
        }
        waiting.come = come;
        waiting.bytes.extend_from_slice(frame);
        self.changed.notify_all();
        Ok(true)
    }

    /// Adds bytes after the last frame. Waits for room; whether the program may still take them.
    pub fn add(&self, bytes: &[u8]) -> bool {
        let is_full = |waiting: &mut Waiting| !waiting.is_over && !waiting.bytes.is_empty();
        let waited = self.changed.wait_while(lock(&self.waiting), is_full);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.bytes.extend_from_slice(bytes);
        self.changed.notify_all();
        !waiting.is_over
    }

    /// The end, after all that was added.
    pub fn end(&self, end: Piece) {
        lock(&self.waiting).end.get_or_insert(end);
        self.changed.notify_all();
    }

    /// The program takes no more, or none will come.
    pub fn close(&self) {
        lock(&self.waiting).is_over = true;
        self.changed.notify_all();
    }

    /// The next piece, which the program now has to take before [`Self::note_taken`]. `None` after
    /// `timeout`. After [`Self::close`] it is a reset.
    pub fn next(&self, timeout: Duration) -> Option<Piece> {
        let is_idle = |waiting: &mut Waiting| {
            !waiting.is_over && waiting.bytes.is_empty() && waiting.end.is_none()
        };
        let waited = self.changed.wait_timeout_while(lock(&self.waiting), timeout, is_idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        if waiting.is_over {
            return Some(Piece::Reset);
        }
        if waiting.bytes.is_empty() {
            return waiting.end.take();
        }
        self.changed.notify_all();
        Some(Piece::Bytes(std::mem::take(&mut waiting.bytes), waiting.come))
    }

    pub fn taken(&self) -> Taken {
        lock(&self.waiting).taken
    }

    /// The program has taken all frames up to there.
    pub fn note_taken(&self, taken: Taken) {
        lock(&self.waiting).taken = taken;
    }
}
