//! The map in which a sending library tells how far it is. It is the client's to write, so nothing
//! in it is believed further than `GroupProgress` says.

use super::{DatapathError, bpf, mapped::Mapped};
use atp_common::maps::{GROUPS, GroupProgress};
use std::{
    mem::offset_of,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::Ordering::Relaxed,
};

/// One client's progress, by group; its descriptor goes to the client, who maps it read-write.
#[derive(Debug)]
pub struct ProgressMap {
    fd: OwnedFd,
    memory: Mapped,
}

impl ProgressMap {
    pub(super) fn new() -> Result<Self, DatapathError> {
        const ACTION: &str = "make a progress map";
        let size = size_of::<GroupProgress>();
        let fd = bpf::create_array("atp_progress", size, GROUPS as u32)
            .map_err(|error| DatapathError::map(ACTION, error))?;
        let memory = Mapped::new(fd.as_fd(), size, GROUPS as u32)
            .map_err(|error| DatapathError::map(ACTION, error))?;
        Ok(Self { fd, memory })
    }

    /// What the client says of a group now.
    pub fn read(&self, group: u8) -> GroupProgress {
        let word = |offset| self.memory.u32(usize::from(group), offset).load(Relaxed);
        GroupProgress {
            messages: word(offset_of!(GroupProgress, messages)),
            delivered: word(offset_of!(GroupProgress, delivered)),
            lost: word(offset_of!(GroupProgress, lost)),
            msr_parts_per_billion: word(offset_of!(GroupProgress, msr_parts_per_billion)),
        }
    }

    /// What is known of a group before its client says anything.
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
