//! Creates ACK rings, on a thread that may block.

use super::{DatapathError, bpf};
use atp_common::maps::{ACK_RING_WORDS, RING_TAIL_WORDS};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The map of all flows' rings. Writing it takes some milliseconds: the kernel waits until no
/// program can still use the previous ring.
#[derive(Debug)]
pub struct AckRings(pub(super) OwnedFd);

impl AckRings {
    /// Replaces the ring of a flow by a new one, all zero. The returned descriptor is for the
    /// flow's library. It is frozen: its holder can only map it read-only.
    pub fn renew(&self, flow: u32) -> Result<OwnedFd, DatapathError> {
        let words = ACK_RING_WORDS + RING_TAIL_WORDS;
        let created = bpf::create_array("atp_ack_ring", size_of::<u64>(), words);
        let ring = created.map_err(|error| DatapathError::map("create an ACK ring", error))?;
        bpf::update(self.0.as_fd(), &flow, &(ring.as_raw_fd() as u32))
            .map_err(|error| DatapathError::map("set the ACK ring of a flow", error))?;
        bpf::freeze(ring.as_fd())
            .map_err(|error| DatapathError::map("freeze an ACK ring", error))?;
        Ok(ring)
    }
}
