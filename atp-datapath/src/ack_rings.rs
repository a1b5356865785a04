//! Creates ACK rings, on a thread that may block.

use super::{DatapathError, bpf};
use atp_common::maps::{ACK_RING_WORDS, RING_TAIL_WORDS};
use aya::util::KernelVersion;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// The map of all flows' rings. Writing it takes some milliseconds: the kernel waits until no
/// program can still use the previous ring.
#[derive(Debug)]
pub struct AckRings(pub(super) OwnedFd);

/// The most rings that are set together.
const BATCH_MAX: usize = 64;

impl AckRings {
    /// The most rings to set together. Older kernels than 6.8 wait once for each ring of a batch,
    /// and several threads wait for theirs at the same time.
    pub fn batch_max(&self) -> usize {
        let waits_once =
            KernelVersion::current().is_ok_and(|current| current >= KernelVersion::new(6, 8, 0));
        if waits_once { BATCH_MAX } else { 1 }
    }

    /// Replaces the ring of each flow by a new one, all zero. The returned descriptors are for the
    /// flows' libraries. They are frozen: their holders can only map them read-only.
    pub fn renew(&self, flows: &[u32]) -> Vec<Result<OwnedFd, DatapathError>> {
        let created: Vec<_> = flows.iter().map(|_| create()).collect();
        let with_ring = flows.iter().zip(&created).filter_map(|(flow, ring)| {
            let ring = ring.as_ref().ok()?;
            Some((*flow, ring.as_raw_fd() as u32))
        });
        let (keys, values): (Vec<u32>, Vec<u32>) = with_ring.unzip();
        let (set, errno) = match bpf::update_batch(self.0.as_fd(), &keys, &values) {
            Ok(()) => (keys.len(), 0),
            Err((set, error)) => (set, error.raw_os_error().unwrap_or(libc::EIO)),
        };
        let mut left = set;
        let mut finish = |ring: OwnedFd| {
            let Some(less) = left.checked_sub(1) else {
                let error = io::Error::from_raw_os_error(errno);
                return Err(DatapathError::map("set the ACK ring of a flow", error));
            };
            left = less;
            let frozen = bpf::freeze(ring.as_fd()).map(|()| ring);
            frozen.map_err(|error| DatapathError::map("freeze an ACK ring", error))
        };
        created.into_iter().map(|ring| ring.and_then(&mut finish)).collect()
    }
}

fn create() -> Result<OwnedFd, DatapathError> {
    let words = ACK_RING_WORDS + RING_TAIL_WORDS;
    bpf::create_array("atp_ack_ring", size_of::<u64>(), words)
        .map_err(|error| DatapathError::map("create an ACK ring", error))
}
