//! The flows' ACK rings, for a thread that can wait.

use super::{DatapathError, bpf};
use atp_common::maps::{ACK_RING_WORDS, ANSWER_WORDS};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The map that holds every flow's ring. To put one in takes the kernel some milliseconds: it waits
/// until no program can still be looking at the one before.
#[derive(Debug)]
pub struct AckRings(pub(super) OwnedFd);

impl AckRings {
    /// A new ring of delivery bits for a flow, all zero. The descriptor is for the flow's library: it
    /// is frozen, so whoever holds it can map it read-only and nothing else.
    pub fn renew(&self, flow: u32) -> Result<OwnedFd, DatapathError> {
        let words = ACK_RING_WORDS + ANSWER_WORDS;
        let made = bpf::create_array("atp_ack_ring", size_of::<u64>(), words);
        let ring = made.map_err(|error| DatapathError::map("make an ACK ring", error))?;
        bpf::update(self.0.as_fd(), &flow, &(ring.as_raw_fd() as u32))
            .map_err(|error| DatapathError::map("give a flow its ACK ring", error))?;
        bpf::freeze(ring.as_fd())
            .map_err(|error| DatapathError::map("freeze an ACK ring", error))?;
        Ok(ring)
    }
}
