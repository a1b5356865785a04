//! The end of a job or window, as its receiver states it: in every answer to a FIN from then on,
//! also after its [`super::Receiver`] is gone.
//!
//! A FIN-ACK with ENDED repeats nothing of the FIN that it answers but the attempt and the slot. A
//! FIN may be delayed or duplicated, and the answer to the FIN that ended the window may be lost:
//! an echo of the late FIN would describe another end.

use atp_common::wire::{Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind};

/// How a job or window ended at its receiver, and the counts at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedEnd {
    pub(super) job: u32,
    pub(super) cookie: u32,
    /// The window, counted from 0.
    pub(super) window: u32,
    /// A FIN ended it that was forced.
    pub(super) forced: bool,
    /// Another window follows.
    pub(super) more: bool,
    /// The clock when the receiver began, as on the wire. It tells this process from another one.
    pub(super) begun: u32,
    /// The attempt that ended it, and its slot.
    pub(super) attempt: u32,
    pub(super) slot: u32,
    /// The final counts, by page.
    pub(super) pages: Vec<Vec<FinGroup>>,
}

impl StatedEnd {
    /// Writes the answer to `fin`, header and body, into `out` and returns its length. The length
    /// is 0 if the FIN is not of this window and its groups, or if `out` is too short. The answer
    /// is as long as the FIN.
    pub fn answer(&self, fin: &Header, body: &FinBody, out: &mut [u8]) -> usize {
        let page = usize::from(fin.epoch());
        let ids = |group: FinGroup| group.group;
        let same_groups = self
            .pages
            .get(page)
            .is_some_and(|groups| body.groups().map(ids).eq(groups.iter().copied().map(ids)));
        let is_ours = (fin.job(), fin.cookie()) == (self.job, self.cookie)
            && body.window() == self.window
            && fin.count() as usize == self.pages.len();
        match is_ours && same_groups {
            true => self.write(page, fin.index(), fin.slot(), out),
            false => 0,
        }
    }

    /// Writes the answer to a page of the FIN that ended the window, into `out`, and returns its
    /// length; 0 if there is no such page, or if `out` is too short.
    pub fn answer_unasked(&self, page: usize, out: &mut [u8]) -> usize {
        self.write(page, self.attempt, self.slot, out)
    }

    /// The number of pages.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The bytes of the answers to all pages.
    pub fn bytes(&self) -> usize {
        self.pages.iter().map(|groups| HEADER_LEN + FinBody::len(groups.len())).sum()
    }

    fn write(&self, page: usize, attempt: u32, slot: u32, out: &mut [u8]) -> usize {
        let Some(groups) = self.pages.get(page) else { return 0 };
        let Some((head, body)) = out.split_at_mut_checked(HEADER_LEN) else { return 0 };
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            kind: Kind::FinAck,
            flags: Flags::ENDED
                .with(flag(self.forced, Flags::FORCED))
                .with(flag(self.more, Flags::MORE)),
            group: groups.first().map_or(0, |group| group.group),
            job: self.job,
            cookie: self.cookie,
            message: self.pages.iter().flatten().map(|group| group.messages).sum(),
            index: attempt,
            count: self.pages.len() as u32,
            epoch: page as u16,
            slot,
            time: self.begun,
        });
        head.copy_from_slice(header.as_bytes());
        FinBody::write(body, self.window, groups).map_or(0, |len| HEADER_LEN + len)
    }
}
