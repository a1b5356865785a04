//! Ends a job or a window: takes in FIN, answers it, and writes the summary.

use super::{
    Receiver,
    delivered::Delivered,
    outcome::{GroupSummary, Summary},
    place::{Known, Place},
    stated_end::StatedEnd,
};
use atp_common::wire::{
    FIN_GROUPS_MAX, FIN_PAGES_MAX, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind,
};

/// The fields that all pages of a FIN attempt share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AttemptKey {
    number: u32,
    slot: u32,
    forced: bool,
    more: bool,
    /// N of all groups of all pages.
    messages: u32,
    pages: u32,
}

impl AttemptKey {
    fn of(header: &Header) -> Self {
        Self {
            number: header.index(),
            slot: header.slot(),
            forced: header.flags().contains(Flags::FORCED),
            more: header.flags().contains(Flags::MORE),
            messages: header.message(),
            pages: header.count(),
        }
    }
}

/// The pages of the sender's latest FIN attempt that have arrived.
#[derive(Debug)]
pub(crate) struct FinAttempt {
    key: AttemptKey,
    pages: Vec<Option<Vec<FinGroup>>>,
}

/// A job or window that has ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) stated: StatedEnd,
    /// When the last FIN came.
    pub(crate) fin_ns: u64,
    /// Answers may state the end: the application has confirmed the window, or need not.
    pub(crate) is_confirmed: bool,
    /// The sender said that it knows of the end.
    pub(crate) is_known: bool,
    /// The latest slot of a FIN. Packets of earlier slots belong to the ended job or window.
    pub(crate) slot: u32,
}

impl End {
    /// Whether another window follows.
    pub(crate) fn more(&self) -> bool {
        self.stated.more
    }
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
        self.note_packet(now_ns, header, body.bytes());
        if self.window.end.is_none() {
            self.note_page(header, body, page);
            self.end_if_enough(now_ns);
        }
        let len = match &mut self.window.end {
            Some(end) if !end.is_confirmed => {
                // The receipt that goes before tells the sender that this host is there.
                end.fin_ns = now_ns;
                end.slot = later(end.slot, header.slot());
                return 0;
            }
            Some(end) => {
                let len = end.stated.answer(header, body, out);
                if len > 0 {
                    end.fin_ns = now_ns;
                    end.slot = later(end.slot, header.slot());
                }
                len
            }
            None => {
                let groups: Vec<_> = body.groups().map(|group| self.counted(group)).collect();
                answer_unended(header, body.window(), &groups, out)
            }
        };
        let has_more =
            |theirs: FinGroup| theirs.delivered < self.window.groups.delivered(theirs.group);
        if body.groups().any(has_more) {
            self.window.receipts.request_now();
        }
        if len == 0 {
            self.stats.packets_refused += 1;
        }
        // The FIN-ACK is as long as the FIN, so the credit covers it.
        self.credit_bytes = self.credit_bytes.saturating_sub(len as u64);
        len
    }

    /// Takes in the last FIN, which says that the sender knows of the job's end.
    fn note_known_end(&mut self, header: &Header, body: &FinBody) {
        let more = header.flags().contains(Flags::MORE);
        match &mut self.window.end {
            Some(end) if !end.more() && !more && body.window() == self.window.number => {
                end.is_known = true
            }
            _ => self.stats.packets_refused += 1,
        }
    }

    /// The open window of a FIN. A FIN of the next window begins that window, because a window may
    /// end without a message.
    fn place_of_fin(&mut self, header: &Header, body: &FinBody) -> Option<Place> {
        let place = self.place_of_told(body.window(), header.slot())?;
        if place == Place::Present {
            // Windows end in order: the one before has ended, perhaps at another process.
            self.drop_closing();
            self.may_open_before = false;
        }
        Some(place)
    }

    fn note_page(&mut self, header: &Header, body: &FinBody, page: usize) {
        let key = AttemptKey::of(header);
        let is_new = self.window.fin_attempt.as_ref().is_none_or(|attempt| {
            // 24 bits, wrapping.
            let ahead = (key.number.wrapping_sub(attempt.key.number) << 8) as i32;
            ahead > 0 || ahead == 0 && attempt.key != key
        });
        if is_new {
            let pages = vec![None; key.pages as usize];
            self.window.fin_attempt = Some(FinAttempt { key, pages });
        }
        let attempt = self.window.fin_attempt.as_mut();
        if let Some(attempt) = attempt.filter(|attempt| attempt.key == key) {
            attempt.pages[page] = Some(body.groups().collect());
        }
    }

    /// Ends the window if all pages of the latest FIN attempt have arrived, and every group has
    /// what it needs or the end is forced.
    fn end_if_enough(&mut self, now_ns: u64) {
        let Some(attempt) = &self.window.fin_attempt else { return };
        let key = attempt.key;
        // Unless a page is missing.
        let pages: Option<Vec<_>> = attempt.pages.iter().cloned().collect();
        let Some(mut pages) = pages else { return };
        let ids: u64 = pages.iter().flatten().map(|group| u64::from(group.messages)).sum();
        let ascending = pages.iter().flatten().is_sorted_by(|a, b| a.group < b.group);
        if ids != u64::from(key.messages) || !ascending {
            self.stats.packets_refused += 1;
            self.window.fin_attempt = None;
            return;
        }
        for group in pages.iter_mut().flatten() {
            *group = self.counted(*group);
        }
        let AttemptKey { number, slot, forced, more, .. } = key;
        if !forced && pages.iter().flatten().any(|group| group.delivered < group.needed) {
            return;
        }
        self.window.fin_attempt = None;
        (self.known, self.may_open_before) = (Known::Told, false);
        self.summaries.push_back(Summary {
            window: self.window.number,
            more,
            forced,
            groups: pages.iter().flatten().map(|group| self.summarized(*group)).collect(),
        });
        let stated = StatedEnd {
            job: self.job,
            cookie: self.cookie,
            window: self.window.number,
            forced,
            more,
            begun: self.begun,
            attempt: number,
            slot,
            pages,
        };
        // The application isn't told of a window before the first message.
        let is_told = self.stats.messages_delivered > 0;
        let is_confirmed = !(self.config.confirms_windows && more && is_told);
        self.window.end = Some(End { stated, fin_ns: now_ns, is_confirmed, is_known: false, slot });
        self.window.assembler.clear();
        self.release_all();
    }

    /// Confirms an ended window for the application, which has kept what it needs of it. Returns
    /// the end for its sender, if the window waited for that.
    pub fn confirm_window(&mut self, number: u32) -> Option<&StatedEnd> {
        let windows = self.closing.as_deref_mut().into_iter().chain([&mut self.window]);
        let mut ends =
            windows.filter(|window| window.number == number).filter_map(|w| w.end.as_mut());
        let end = ends.find(|end| !end.is_confirmed)?;
        end.is_confirmed = true;
        let left = self.credit_bytes.checked_sub(end.stated.bytes() as u64)?;
        self.credit_bytes = left;
        Some(&end.stated)
    }

    /// The end of the job, once it has ended.
    pub fn stated_end(&self) -> Option<&StatedEnd> {
        self.window.end.as_ref().filter(|end| !end.more()).map(|end| &end.stated)
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

/// Writes the answer to a FIN of a window that has not ended. It states the counts of this moment,
/// and no flag.
fn answer_unended(fin: &Header, window: u32, groups: &[FinGroup], out: &mut [u8]) -> usize {
    debug_assert!(groups.len() <= FIN_GROUPS_MAX);
    let header = Header::new(&Fields {
        group: fin.group(),
        job: fin.job(),
        cookie: fin.cookie(),
        message: fin.message(),
        index: fin.index(),
        count: fin.count(),
        epoch: fin.epoch(),
        slot: fin.slot(),
        time: fin.time(),
        ..Fields::of(Kind::FinAck)
    });
    let Some((head, body)) = out.split_at_mut_checked(HEADER_LEN) else { return 0 };
    head.copy_from_slice(header.as_bytes());
    FinBody::write(body, window, groups).map_or(0, |body_len| HEADER_LEN + body_len)
}
