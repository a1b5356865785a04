//! The map in which a sending library reports its progress. The client can write anything into it;
//! the methods of `GroupProgress` say how far its values are trusted.

use super::{DatapathError, bpf, mapped::MappedArray};
use atp_common::maps::{GROUPS, GroupProgress, ReceivedAdvice};
use std::{
    mem::offset_of,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::Ordering::Relaxed,
};

/// The progress of all groups, then the advice that their lanes have received.
const ELEMENTS: u32 = 2 * GROUPS as u32;

const _: () = assert!(size_of::<ReceivedAdvice>() == size_of::<GroupProgress>());

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
        let fd = bpf::create_array("atp_progress", size, ELEMENTS)
            .map_err(|error| DatapathError::map(ACTION, error))?;
        let memory = MappedArray::new(fd.as_fd(), size, ELEMENTS)
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

    /// The advice to a group's lane that the client has received. The time may be of another write
    /// than the advice; the next tick corrects that.
    pub fn read_advice(&self, group: u8) -> ReceivedAdvice {
        let element = GROUPS + usize::from(group);
        let advice = self.memory.u32(element, offset_of!(ReceivedAdvice, advice));
        let received_ns = self.memory.u64(element, offset_of!(ReceivedAdvice, received_ns));
        let acks_lost = self.memory.u32(element, offset_of!(ReceivedAdvice, acks_lost_q16));
        ReceivedAdvice {
            received_ns: received_ns.load(Relaxed),
            advice: advice.load(Relaxed),
            acks_lost_q16: acks_lost.load(Relaxed),
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
