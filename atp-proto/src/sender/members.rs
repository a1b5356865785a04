//! The messages of packed transmissions, in one queue beside the transmissions, so that packing
//! allocates nothing per packet.

use std::{collections::VecDeque, ops::Range};

/// One message of a packed transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// The message's id in the transmission's group.
    pub(crate) message: u32,
    pub(crate) len_bytes: u16,
    /// The message's attempt.
    pub(crate) attempt: u8,
    /// It had been declared lost before.
    pub(crate) was_lost: bool,
}

/// The members of all remembered packed transmissions, in the order of their slots.
#[derive(Debug, Default)]
pub(crate) struct Members {
    members: VecDeque<Member>,
    /// The number of the first one. Numbers wrap.
    first: u32,
}

impl Members {
    /// The number of the next member.
    pub(crate) fn next(&self) -> u32 {
        self.first.wrapping_add(self.members.len() as u32)
    }

    pub(crate) fn push(&mut self, member: Member) {
        self.members.push_back(member);
    }

    /// A remembered member.
    pub(crate) fn get(&self, number: u32) -> Member {
        self.members[self.position(number)]
    }

    /// Several remembered members from the number `first` on.
    pub(crate) fn range(&self, first: u32, number: u16) -> impl Iterator<Item = Member> + '_ {
        let start = self.position(first);
        let range: Range<usize> = start..start + usize::from(number);
        self.members.range(range).copied()
    }

    /// Forgets the members from the number `from` on.
    pub(crate) fn truncate(&mut self, from: u32) {
        self.members.truncate(self.position(from));
    }

    /// Forgets the oldest members.
    pub(crate) fn forget(&mut self, number: u16) {
        self.members.drain(..usize::from(number));
        self.first = self.first.wrapping_add(number.into());
    }

    fn position(&self, number: u32) -> usize {
        number.wrapping_sub(self.first) as usize
    }
}
