//! The end of a job or of a window: what the sender asks, what is answered, and what is final.

use super::{
    Receiver,
    delivered::Delivered,
    outcome::{GroupSummary, Summary},
};
use atp_common::wire::{
    FIN_GROUPS_MAX, FIN_PAGES_MAX, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind,
};

/// A FIN may come in several pages: those of the youngest round that are here.
#[derive(Debug)]
pub(crate) struct Asked {
    round: u32,
    slot: u32,
    pages: Vec<Option<Vec<FinGroup>>>,
}

impl Asked {
    /// All groups, if all pages are here.
    fn groups(&self) -> Option<Vec<FinGroup>> {
        let mut groups = Vec::new();
        for page in &self.pages {
            groups.extend(page.as_ref()?);
        }
        Some(groups)
    }
}

/// What is known of a job or window that has ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) more: bool,
    pub(crate) asked_ns: u64,
    /// The youngest slot of a FIN: what was sent before belongs to what has ended.
    pub(crate) slot: u32,
}

impl Receiver {
    /// Takes in one page of a FIN, writes the FIN-ACK (header and body) into `out` and returns its
    /// length; 0 if the FIN is foreign, late or makes no sense, or `out` is too short (484 bytes are
    /// always enough). A receipt may be due afterwards, and messages of [`Receiver::next_message`].
    /// Once every group has what it needs the job (or its window) has ended: see
    /// [`Receiver::take_summary`].
    pub fn on_fin(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
        out: &mut [u8],
    ) -> usize {
        if !self.is_ours(header) {
            self.stats.packets_foreign += 1;
            return 0;
        }
        if !self.is_of_this_window(header, body) {
            self.stats.packets_late += 1;
            return 0;
        }
        let (page, pages) = (usize::from(header.epoch()), header.count() as usize);
        let total: u64 = body.groups().map(|group| u64::from(group.messages)).sum();
        let possible = page < pages && pages <= FIN_PAGES_MAX && total <= header.message().into();
        if !possible || header.message() > self.config.messages_max {
            self.stats.packets_refused += 1;
            return 0;
        }
        self.heard(now_ns, header, body.bytes());
        match &mut self.end {
            Some(end) => {
                end.asked_ns = now_ns;
                end.slot = younger(end.slot, header.slot());
            }
            None => {
                self.note_page(header, body, page, pages);
                self.end_if_enough(now_ns, header);
            }
        }
        let groups: Vec<_> = body.groups().map(|group| self.counted(group)).collect();
        if body.groups().zip(&groups).any(|(theirs, ours)| theirs.delivered < ours.delivered) {
            self.receipts.hurry();
        }
        // As long as the FIN.
        let len = fin_ack(header, self.end.is_some(), body.window(), &groups, out);
        self.credit_bytes = self.credit_bytes.saturating_sub(len as u64);
        len
    }

    /// Whether the FIN ends the present window; the next one may end without a message.
    fn is_of_this_window(&mut self, header: &Header, body: &FinBody) -> bool {
        let is_next = body.window() == self.window.wrapping_add(1);
        match &self.end {
            Some(end) if end.more && is_next && is_later(header.slot(), end.slot) => {
                self.begin_window();
            }
            // A receiver that came in the middle learns the number now; not from a FIN that the network
            // kept back, of a window before.
            None if self.windows_ended == 0 => {
                let knows_none = self.stats.packets_arrived == 0;
                if knows_none || is_later(header.slot(), self.slot) {
                    if !knows_none && body.window() % 2 != self.window % 2 {
                        self.begin_window();
                    }
                    self.window = body.window();
                }
            }
            _ => {}
        }
        self.window == body.window()
    }

    fn note_page(&mut self, header: &Header, body: &FinBody, page: usize, pages: usize) {
        let round = header.index();
        let is_new = self.asked.as_ref().is_none_or(|asked| {
            // 24 bits, wrapping.
            let ahead = (round.wrapping_sub(asked.round) << 8) as i32;
            ahead > 0 || ahead == 0 && asked.pages.len() != pages
        });
        if is_new {
            self.asked = Some(Asked { round, slot: header.slot(), pages: vec![None; pages] });
        }
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.round == round) {
            asked.pages[page] = Some(body.groups().collect());
        }
    }

    /// Ends the window if the sender's last question is here in full, and the answer is yes.
    fn end_if_enough(&mut self, now_ns: u64, header: &Header) {
        let Some(asked) = &self.asked else { return };
        let Some(groups) = asked.groups() else { return };
        let ids: u64 = groups.iter().map(|group| u64::from(group.messages)).sum();
        let ascending = groups.windows(2).all(|pair| pair[0].group < pair[1].group);
        if ids != u64::from(header.message()) || !ascending {
            self.stats.packets_refused += 1;
            self.asked = None;
            return;
        }
        let forced = header.flags().contains(Flags::FORCED);
        let groups: Vec<_> = groups.into_iter().map(|group| self.counted(group)).collect();
        if !forced && groups.iter().any(|group| group.delivered < group.needed) {
            return;
        }
        let more = header.flags().contains(Flags::MORE);
        self.end = Some(End { more, asked_ns: now_ns, slot: asked.slot });
        self.asked = None;
        self.windows_ended = self.windows_ended.saturating_add(1);
        self.summary = Some(Summary {
            window: self.window,
            more,
            forced,
            groups: groups.into_iter().map(|group| self.summarised(group)).collect(),
        });
        self.assembler.clear();
        self.release_all();
    }

    fn counted(&self, group: FinGroup) -> FinGroup {
        let delivered = self.groups.delivered(group.group).min(group.messages);
        FinGroup { delivered, ..group }
    }

    fn summarised(&self, group: FinGroup) -> GroupSummary {
        let FinGroup { group, messages, needed, delivered } = group;
        let missing =
            self.groups.get(group).map(|group| group.delivered.missing(messages).collect());
        // Of a group that nothing came of, all are.
        let lost = missing.unwrap_or_else(|| Delivered::default().missing(messages).collect());
        GroupSummary { group, messages, needed, delivered, lost }
    }
}

/// Whether slot `a` was given out after slot `b` (serial numbers).
pub(crate) const fn is_later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

fn younger(a: u32, b: u32) -> u32 {
    if is_later(b, a) { b } else { a }
}

/// Writes the answer to a FIN: everything echoed but the kind and the counts.
fn fin_ack(
    fin: &Header,
    has_ended: bool,
    window: u32,
    groups: &[FinGroup],
    out: &mut [u8],
) -> usize {
    debug_assert!(groups.len() <= FIN_GROUPS_MAX);
    let header = Header::new(&Fields {
        kind: Kind::FinAck,
        flags: if has_ended { fin.flags().with(Flags::ENDED) } else { fin.flags() },
        group: fin.group(),
        job: fin.job(),
        cookie: fin.cookie(),
        message: fin.message(),
        index: fin.index(),
        count: fin.count(),
        epoch: fin.epoch(),
        slot: fin.slot(),
        time: fin.time(),
    });
    let Some((head, body)) = out.split_at_mut_checked(HEADER_LEN) else { return 0 };
    head.copy_from_slice(header.as_bytes());
    FinBody::write(body, window, groups).map_or(0, |body_len| HEADER_LEN + body_len)
}

/// Answers a FIN as one of the same page was answered before: `answer` is what was written then. For
/// a job that has ended, whose [`Receiver`] is gone. Returns the length; 0 if `out` is too short.
pub fn answer_fin_again(fin: &Header, answer: &[u8], out: &mut [u8]) -> usize {
    let echoed = |body: &[u8]| {
        let groups: Vec<_> = FinBody::parse(body)?.groups().collect();
        Some(fin_ack(fin, true, FinBody::parse(body)?.window(), &groups, out))
    };
    answer.get(HEADER_LEN..).and_then(echoed).unwrap_or(0)
}
