//! Ends a job or a window: takes in FIN, answers it, and writes the summary.

use super::{
    Receiver,
    delivered::Delivered,
    outcome::{GroupSummary, Summary},
    place::Place,
};
use atp_common::wire::{
    FIN_GROUPS_MAX, FIN_PAGES_MAX, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind,
};

/// The pages of the sender's latest FIN attempt that have arrived.
#[derive(Debug)]
pub(crate) struct FinAttempt {
    number: u32,
    slot: u32,
    pages: Vec<Option<Vec<FinGroup>>>,
}

impl FinAttempt {
    /// All groups, if all pages have arrived.
    fn groups(&self) -> Option<Vec<FinGroup>> {
        let mut groups = Vec::new();
        for page in &self.pages {
            groups.extend(page.as_ref()?);
        }
        Some(groups)
    }
}

/// A job or window that has ended.
#[derive(Debug)]
pub(crate) struct End {
    /// Another window follows.
    pub(crate) more: bool,
    /// When the last FIN came.
    pub(crate) fin_ns: u64,
    /// The sender said that it knows of the end.
    pub(crate) is_known: bool,
    /// The latest slot of a FIN. Packets of earlier slots belong to the ended job or window.
    pub(crate) slot: u32,
}

impl Receiver {
    /// Takes in one page of a FIN, writes the FIN-ACK (header and body) into `out` and returns its
    /// length. The length is 0 if the FIN is foreign, late or impossible, or if `out` is too short
    /// (484 bytes are always enough). Afterwards a receipt may be due, and messages may be ready.
    /// Once every group has what it needs, the job (or its window) has ended: see
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
        if header.flags().contains(Flags::ENDED) {
            self.note_known_end(header, body);
            return 0;
        }
        let Some(place) = self.place_of_fin(header, body) else {
            self.stats.packets_late += 1;
            return 0;
        };
        let answered = |receiver: &mut Self| receiver.on_fin_of_window(now_ns, header, body, out);
        self.in_place(place, answered).unwrap_or(0)
    }

    fn on_fin_of_window(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
        out: &mut [u8],
    ) -> usize {
        let (page, pages) = (usize::from(header.epoch()), header.count() as usize);
        let total: u64 = body.groups().map(|group| u64::from(group.messages)).sum();
        let possible = page < pages && pages <= FIN_PAGES_MAX && total <= header.message().into();
        if !possible || header.message() > self.config.messages_max {
            self.stats.packets_refused += 1;
            return 0;
        }
        self.heard(now_ns, header, body.bytes());
        match &mut self.window.end {
            Some(end) => {
                end.fin_ns = now_ns;
                end.slot = later(end.slot, header.slot());
            }
            None => {
                self.note_page(header, body, page, pages);
                self.end_if_enough(now_ns, header);
            }
        }
        let groups: Vec<_> = body.groups().map(|group| self.counted(group)).collect();
        if body.groups().zip(&groups).any(|(theirs, ours)| theirs.delivered < ours.delivered) {
            self.window.receipts.request_now();
        }
        // The FIN-ACK is as long as the FIN, so the credit covers it.
        let len = fin_ack(header, self.window.end.is_some(), body.window(), &groups, out);
        self.credit_bytes = self.credit_bytes.saturating_sub(len as u64);
        len
    }

    /// Takes in the last FIN, which says that the sender knows of the job's end.
    fn note_known_end(&mut self, header: &Header, body: &FinBody) {
        let more = header.flags().contains(Flags::MORE);
        match &mut self.window.end {
            Some(end) if !end.more && !more && body.window() == self.window.number => {
                end.is_known = true
            }
            _ => self.stats.packets_refused += 1,
        }
    }

    /// The open window of a FIN. A FIN of the next window begins that window, because a window may
    /// end without a message.
    fn place_of_fin(&mut self, header: &Header, body: &FinBody) -> Option<Place> {
        if self.names_windows
            && let Some(place) = self.place_of_told(body.window())
        {
            return Some(place);
        }
        let is_next = body.window() == self.window.number.wrapping_add(1);
        match &self.window.end {
            Some(end) if end.more && is_next && is_later(header.slot(), end.slot) => {
                self.begin_window();
            }
            // A receiver that joined in the middle learns the window's number from its first FIN. A
            // delayed FIN of an earlier window doesn't count.
            None if self.windows_ended == 0 && self.may_be_present(body.window()) => {
                let knows_none = self.stats.packets_arrived == 0;
                if knows_none || is_later(header.slot(), self.slot) {
                    if !knows_none && self.is_of_later_window(body.window()) {
                        self.begin_window();
                    }
                    self.learn_number(body.window());
                }
            }
            _ => {}
        }
        (self.window.number == body.window()).then_some(Place::Present)
    }

    /// Whether a receiver that joined in the middle takes `number` for its present window's, or a
    /// later one's.
    pub(super) fn may_be_present(&self, number: u32) -> bool {
        !self.knows_number || number.wrapping_sub(self.window.number) as i32 >= 0
    }

    /// Whether a window of which only the number is known is not the present one.
    fn is_of_later_window(&self, number: u32) -> bool {
        self.names_windows || number % 2 != self.window.number % 2
    }

    fn note_page(&mut self, header: &Header, body: &FinBody, page: usize, pages: usize) {
        let number = header.index();
        let is_new = self.window.fin_attempt.as_ref().is_none_or(|attempt| {
            // 24 bits, wrapping.
            let ahead = (number.wrapping_sub(attempt.number) << 8) as i32;
            ahead > 0 || ahead == 0 && attempt.pages.len() != pages
        });
        if is_new {
            let pages = vec![None; pages];
            self.window.fin_attempt = Some(FinAttempt { number, slot: header.slot(), pages });
        }
        let latest = self.window.fin_attempt.as_mut().filter(|attempt| attempt.number == number);
        if let Some(attempt) = latest {
            attempt.pages[page] = Some(body.groups().collect());
        }
    }

    /// Ends the window if all pages of the latest FIN attempt have arrived, and every group has
    /// what it needs or the end is forced.
    fn end_if_enough(&mut self, now_ns: u64, header: &Header) {
        let Some(attempt) = &self.window.fin_attempt else { return };
        let Some(groups) = attempt.groups() else { return };
        let ids: u64 = groups.iter().map(|group| u64::from(group.messages)).sum();
        let ascending = groups.windows(2).all(|pair| pair[0].group < pair[1].group);
        if ids != u64::from(header.message()) || !ascending {
            self.stats.packets_refused += 1;
            self.window.fin_attempt = None;
            return;
        }
        let forced = header.flags().contains(Flags::FORCED);
        let groups: Vec<_> = groups.into_iter().map(|group| self.counted(group)).collect();
        if !forced && groups.iter().any(|group| group.delivered < group.needed) {
            return;
        }
        let more = header.flags().contains(Flags::MORE);
        self.window.end = Some(End { more, fin_ns: now_ns, is_known: false, slot: attempt.slot });
        self.window.fin_attempt = None;
        self.knows_number = true;
        self.windows_ended = self.windows_ended.saturating_add(1);
        self.summaries.push_back(Summary {
            window: self.window.number,
            more,
            forced,
            groups: groups.into_iter().map(|group| self.summarized(group)).collect(),
        });
        self.window.assembler.clear();
        self.release_all();
    }

    /// A group of a FIN, with this receiver's number of complete messages.
    fn counted(&self, group: FinGroup) -> FinGroup {
        let delivered = self.window.groups.delivered(group.group).min(group.messages);
        FinGroup { delivered, ..group }
    }

    fn summarized(&self, group: FinGroup) -> GroupSummary {
        let FinGroup { group, messages, needed, delivered } = group;
        let missing =
            self.window.groups.get(group).map(|group| group.delivered.missing(messages).collect());
        // All messages of an unknown group are lost.
        let lost = missing.unwrap_or_else(|| Delivered::default().missing(messages).collect());
        GroupSummary { group, messages, needed, delivered, lost }
    }
}

/// Whether slot `a` is later than slot `b` (serial number arithmetic).
pub(crate) const fn is_later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

fn later(a: u32, b: u32) -> u32 {
    if is_later(b, a) { b } else { a }
}

/// Writes the answer to a FIN. It echoes everything but the kind and the counts.
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

/// Answers a repeated FIN of a job that has ended and whose [`Receiver`] is gone. `answer` is the
/// FIN-ACK that was written for the same page. Returns the length; 0 if `out` is too short.
pub fn answer_fin_again(fin: &Header, answer: &[u8], out: &mut [u8]) -> usize {
    let echoed = |body: &[u8]| {
        let groups: Vec<_> = FinBody::parse(body)?.groups().collect();
        Some(fin_ack(fin, true, FinBody::parse(body)?.window(), &groups, out))
    };
    answer.get(HEADER_LEN..).and_then(echoed).unwrap_or(0)
}
