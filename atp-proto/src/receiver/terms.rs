//! Takes in TERMS: N, MSR and name of each group.

use super::{
    Receiver,
    budget::{Account, Part, Share},
    place::Place,
};
use atp_common::wire::{
    COUNT_MAX, Header, TERMS_GROUPS_MAX, TERMS_PAGES_MAX, TermsBody, TermsGroup,
};
use std::sync::Arc;

/// The most memory that one page takes: its groups, and the places of all pages.
const PAGE_BYTES_MAX: u64 = (TERMS_GROUPS_MAX * size_of::<TermsGroup>()
    + TERMS_PAGES_MAX * size_of::<Option<Vec<TermsGroup>>>()) as u64;

/// The terms of a window, as the sender last told them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The window, counted from 0.
    pub window: u32,
    /// The groups, by id.
    pub groups: Vec<TermsGroup>,
    /// They are the first of this window. Otherwise they have changed, or answer a request.
    pub is_first: bool,
}

/// The pages of one revision that have arrived.
#[derive(Debug)]
struct Pages {
    revision: u32,
    pages: Vec<Option<Vec<TermsGroup>>>,
}

impl Pages {
    fn bytes(&self) -> u64 {
        let places = self.pages.capacity() * size_of::<Option<Vec<TermsGroup>>>();
        places as u64 + self.pages.iter().flatten().map(bytes_of).sum::<u64>()
    }
}

fn bytes_of(groups: &Vec<TermsGroup>) -> u64 {
    (groups.capacity() * size_of::<TermsGroup>()) as u64
}

/// The terms of the current window.
#[derive(Debug)]
pub(crate) struct KnownTerms {
    /// The revision that is known in full; 0 for none.
    revision: u32,
    arriving: Option<Pages>,
    /// Terms that the application has not seen.
    unseen: Option<Terms>,
    /// The sender has told some terms of the run: it takes REQUESTs.
    was_told: bool,
    /// The bytes of `arriving` and `unseen`. Sources are unproven, and a hostile one may tell terms
    /// that are never complete, or that the application never gets.
    account: Account,
}

impl KnownTerms {
    /// No terms yet, in the memory of the sender's address.
    pub(crate) fn new(share: Option<Arc<Share>>) -> Self {
        let account = Account::new(share, Part::Records);
        Self { revision: 0, arriving: None, unseen: None, was_told: false, account }
    }

    /// The memory that it holds of its address's share, bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.account.bytes()
    }

    /// Counts the bytes that it holds now.
    fn settle(&mut self) {
        let arriving = self.arriving.as_ref().map_or(0, Pages::bytes);
        let unseen = self.unseen.as_ref().map_or(0, |terms| bytes_of(&terms.groups));
        self.account.clear();
        self.account.take(arriving + unseen);
    }

    /// The revision that is known in full; 0 for none.
    pub(crate) fn revision(&self) -> u32 {
        self.revision
    }

    /// Whether the sender takes REQUESTs.
    pub(crate) fn takes_requests(&self) -> bool {
        self.was_told
    }

    /// Forgets the terms of the last window. Unseen ones stay for the application.
    pub(crate) fn begin_window(&mut self) {
        (self.revision, self.arriving) = (0, None);
        self.settle();
    }

    /// Takes in a page. Returns all groups once all pages of the latest revision are there.
    fn insert(&mut self, header: &Header, body: &TermsBody<'_>) -> Option<Vec<TermsGroup>> {
        let (revision, page) = (header.index(), usize::from(header.epoch()));
        let pages = header.count() as usize;
        let latest = self.arriving.as_ref().map_or(self.revision, |arriving| arriving.revision);
        if latest != 0 && !is_later_revision(revision, latest) && revision != latest {
            return None;
        }
        if self.arriving.as_ref().is_none_or(|a| a.revision != revision || a.pages.len() != pages) {
            self.arriving = Some(Pages { revision, pages: vec![None; pages] });
        }
        let arriving = self.arriving.as_mut()?;
        let mut groups = Vec::with_capacity(body.groups().count());
        groups.extend(body.groups());
        *arriving.pages.get_mut(page)? = Some(groups);
        if arriving.pages.iter().any(Option::is_none) {
            return None;
        }
        let pages = self.arriving.take()?.pages;
        let mut groups = Vec::with_capacity(pages.iter().flatten().map(Vec::len).sum());
        groups.extend(pages.into_iter().flatten().flatten());
        groups.is_sorted_by(|a, b| a.group < b.group).then_some(groups)
    }
}

/// Whether revision `a` is later than `b`: 1 follows the greatest.
fn is_later_revision(a: u32, b: u32) -> bool {
    let ahead = (a + COUNT_MAX - b) % COUNT_MAX;
    ahead != 0 && ahead <= COUNT_MAX / 2
}

impl Receiver {
    /// Takes in one page of TERMS. Afterwards a receipt is due, and [`Receiver::take_terms`] may
    /// have the terms. Terms of another window than the current one are dropped, and
    /// those for which the sender's address has no memory left: the sender repeats them.
    pub fn on_terms(&mut self, now_ns: u64, header: &Header, body: &TermsBody<'_>) {
        if !self.is_ours(header) {
            self.stats.packets_foreign += 1;
            return;
        }
        let (page, pages) = (usize::from(header.epoch()), header.count() as usize);
        let is_possible =
            page < pages && pages <= TERMS_PAGES_MAX && (1..=COUNT_MAX).contains(&header.index());
        if !is_possible {
            self.stats.packets_refused += 1;
            return;
        }
        let messages: u64 = body.groups().filter_map(|group| group.messages.map(u64::from)).sum();
        if messages > u64::from(self.config.messages_max) {
            self.stats.packets_refused += 1;
            return;
        }
        // Those of a short window may come after its end, and must not keep a request waiting.
        self.terms.was_told = true;
        self.requests.on_answer(now_ns, body.answered);
        if !self.is_present(header, body) || self.window.end.is_some() {
            self.stats.packets_late += 1;
            return;
        }
        // Their slot is DATA's, which TERMS may have overtaken: it isn't read yet.
        self.note_bytes(now_ns, body.bytes());
        if header.index() != self.terms.revision && !self.terms.account.fits(PAGE_BYTES_MAX) {
            // The sender repeats the page.
            self.stats.packets_no_room += 1;
            return;
        }
        if header.index() != self.terms.revision
            && let Some(groups) = self.terms.insert(header, body)
        {
            // An unseen first revision stays the first.
            let window = self.window.number;
            let was_first =
                self.terms.unseen.as_ref().is_some_and(|t| t.window == window && t.is_first);
            let is_first = self.terms.revision == 0 || was_first;
            self.terms.revision = header.index();
            self.terms.unseen = Some(Terms { window, groups, is_first });
        }
        self.terms.settle();
        if header.index() == self.terms.revision {
            self.window.receipts.request_now();
            // A window that has begun takes what was asked between two windows.
            self.requests.on_terms(now_ns);
        }
    }

    /// Whether terms are of the current window.
    fn is_present(&mut self, header: &Header, body: &TermsBody<'_>) -> bool {
        self.place_of_told(body.window, header.slot()) == Some(Place::Present)
    }

    /// The terms that the application has not seen yet.
    pub fn take_terms(&mut self) -> Option<Terms> {
        let terms = self.terms.unseen.take()?;
        self.terms.settle();
        Some(terms)
    }
}
