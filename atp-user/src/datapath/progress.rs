//! The map in which a sending library reports its progress. The client can write anything into it;
//! the methods of `GroupProgress` say how far its values are trusted.

use super::{DatapathError, bpf, mapped::MappedArray};
use atp_common::maps::{GROUPS, GroupProgress};
use std::{
    mem::offset_of,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::Ordering::Relaxed,
};

/// A client's progress by group. The client gets the descriptor and maps it read-write.
#[derive(Debug)]
pub struct ProgressMap {
    fd: OwnedFd,
    memory: MappedArray,
}

impl ProgressMap {
    pub(super) fn new() -> Result<Self, DatapathError> {
        const ACTION: &str = "create a progress map";
        let size = size_of::<GroupProgress>();
        let fd = bpf::create_array("atp_progress", size, GROUPS as u32)
            .map_err(|error| DatapathError::map(ACTION, error))?;
        let memory = MappedArray::new(fd.as_fd(), size, GROUPS as u32)
            .map_err(|error| DatapathError::map(ACTION, error))?;
        Ok(Self { fd, memory })
    }

    /// The progress of a group that the client reports now.
    pub fn read(&self, group: u8) -> GroupProgress {
        let word = |offset| self.memory.u32(usize::from(group), offset).load(Relaxed);
        GroupProgress {
            messages: word(offset_of!(GroupProgress, messages)),
            delivered: word(offset_of!(GroupProgress, delivered)),
            lost: word(offset_of!(GroupProgress, lost)),
            msr_parts_per_billion: word(offset_of!(GroupProgress, msr_parts_per_billion)),
        }
    }

    /// Writes the progress of a group before its client reports any.
    pub fn write(&self, group: u8, progress: GroupProgress) {
        let word = |offset| self.memory.u32(usize::from(group), offset);
        word(offset_of!(GroupProgress, messages)).store(progress.messages, Relaxed);
        word(offset_of!(GroupProgress, delivered)).store(progress.delivered, Relaxed);
        word(offset_of!(GroupProgress, lost)).store(progress.lost, Relaxed);
        word(offset_of!(GroupProgress, msr_parts_per_billion))
            .store(progress.msr_parts_per_billion, Relaxed);
    }
}

impl AsFd for ProgressMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
