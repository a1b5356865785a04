//! Tells the receiver the terms of the job: N, MSR, order and name of each group.
//!
//! A window's first DATA comes before its terms, so that no stranger gets a place at the receiver
//! by TERMS alone. The sender repeats them until a receipt names their revision. A receiver that
//! was restarted names none, and gets them again.

use super::{config::SenderConfig, group::Group, transmissions::Transmissions, window::Window};
use atp_common::wire::{
    COUNT_MAX, Features, Fields, HEADER_LEN, Header, Kind, Order, TERMS_GROUPS_MAX, TermsBody,
    TermsGroup,
};

/// The first interval of repetition, at least.
const INTERVAL_NS_MIN: u64 = 10_000_000;
/// The shortest time from one revision to the next, for each page: 4 Mbit/s.
const PAGE_NS: u64 = 1_000_000;
/// How often a FIN lets terms without an answer go first. Of packets and answers that are lost one
/// time in twenty, all are lost in one of 10,000 jobs.
const SENT_BEFORE_FIN_MAX: u8 = 3;
/// The longest interval, unless the timeout is longer.
const INTERVAL_NS_MAX: u64 = 1_000_000_000;

/// The terms as the receiver knows them.
#[derive(Debug)]
pub(crate) struct Announcement {
    /// The number of the current revision, 1 to [`COUNT_MAX`].
    revision: u32,
    /// A receipt named this revision.
    is_known: bool,
    /// The receiver takes no TERMS.
    is_unsupported: bool,
    /// The receiver takes no TERMS with an order.
    without_order: bool,
    /// The page that is sent next; `None` once all pages were sent.
    next_page: Option<usize>,
    /// When the pages are due. `None` before the window's first DATA, and after a change.
    due_ns: Option<u64>,
    /// The time from the last repetition to the next.
    interval_ns: u64,
    /// DATA packets sent before this window.
    packets_before: u64,
    /// The time field of the latest REQUEST.
    answered: Option<u32>,
    /// The current revision answers a REQUEST.
    is_answer: bool,
    /// When the next revision may leave.
    earliest_ns: u64,
    /// A receipt named a revision of this window whose orders are those of now.
    is_order_known: bool,
    /// When all pages of the revision were last sent.
    sent_ns: Option<u64>,
    /// How often the window's pages were sent because a FIN was due.
    sent_before_fin: u8,
    /// The slot and the number of the newest receipt.
    receipt: Option<(u32, u32)>,
}

impl Default for Announcement {
    fn default() -> Self {
        Self {
            revision: 1,
            is_known: false,
            is_unsupported: false,
            without_order: false,
            next_page: None,
            due_ns: None,
            interval_ns: 0,
            packets_before: 0,
            answered: None,
            is_answer: false,
            earliest_ns: 0,
            is_order_known: false,
            sent_ns: None,
            sent_before_fin: 0,
            receipt: None,
        }
    }
}

impl Announcement {
    /// Begins a window, whose N may differ. Its terms follow its first DATA.
    pub(crate) fn begin_window(&mut self, packets_sent: u64) {
        self.packets_before = packets_sent;
        self.sent_before_fin = 0;
        self.is_order_known = false;
        self.is_answer = false;
        self.change();
    }

    /// Notes that the terms have changed.
    pub(crate) fn change(&mut self) {
        self.revision = self.revision % COUNT_MAX + 1;
        (self.is_known, self.next_page) = (false, None);
        (self.due_ns, self.interval_ns) = (None, 0);
        self.sent_ns = None;
    }

    /// Notes that short messages of a group come first from now on.
    pub(crate) fn change_order(&mut self) {
        self.is_order_known = false;
        self.change();
    }

    /// Notes that packets were handed out: the first of a window make its terms due.
    pub(crate) fn on_sent(&mut self, now_ns: u64) {
        self.due(now_ns);
    }

    /// When the pages are due: at once, but however often terms change, not earlier than the last
    /// revision allows.
    fn due(&mut self, now_ns: u64) -> u64 {
        *self.due_ns.get_or_insert(now_ns.max(self.earliest_ns))
    }

    /// Takes in a receipt, unless it is older than another. The latest slot that was read grows
    /// also where another process has begun to count its receipts anew.
    pub(crate) fn on_receipt(&mut self, header: &Header, features: Features) {
        let (slot, number) = (header.slot(), header.index());
        if let Some((newest_slot, newest_number)) = self.receipt {
            let ahead = slot.wrapping_sub(newest_slot) as i32;
            let number_ahead = (number.wrapping_sub(newest_number) << 8) as i32;
            if ahead < 0 || ahead == 0 && number_ahead < 0 {
                return;
            }
        }
        self.receipt = Some((slot, number));
        self.is_unsupported = !features.contains(Features::TERMS);
        self.without_order = !features.contains(Features::ORDER);
        match header.count() == self.revision {
            true => (self.is_known, self.is_order_known) = (true, true),
            false => self.forget_known(),
        }
    }

    /// The receiver doesn't know the current revision any more: it is due again.
    fn forget_known(&mut self) {
        if std::mem::take(&mut self.is_known) {
            self.is_order_known = false;
            (self.due_ns, self.interval_ns) = (None, 0);
        }
    }

    /// Whether a REQUEST is newer than those before it. A repetition of the latest shows that its
    /// answer was lost.
    pub(crate) fn is_new_request(&mut self, time: u32) -> bool {
        let ahead = self.answered.map_or(1, |answered| time.wrapping_sub(answered) as i32);
        if ahead == 0 {
            self.forget_known();
        }
        ahead > 0
    }

    /// Answers the REQUEST with this time field by a new revision.
    pub(crate) fn answer(&mut self, time: u32) {
        self.answered = Some(time);
        self.is_answer = true;
        self.change();
    }
}

impl Announcement {
    /// When the terms are due, if that is a matter of time.
    pub(super) fn timeout_ns(&self, facts: &Facts) -> Option<u64> {
        self.is_wanted(facts).then_some(self.due_ns).flatten()
    }

    /// Whether the receiver has to be told. FIN says the same to a window that ends.
    fn is_wanted(&self, facts: &Facts) -> bool {
        let Facts { config, window, packets_sent, .. } = facts;
        config.announce_terms
            && !(self.is_known || self.is_unsupported || window.is_over())
            && *packets_sent > self.packets_before
            && (self.is_answer || !window.ending.has_begun())
    }

    /// When the first FIN of the current window may leave, as far as its terms decide: an answer of
    /// incomplete messages depends on their order, which FIN doesn't say. `None` if they decide
    /// nothing.
    pub(super) fn fin_waits_until_ns(&self, facts: &Facts) -> Option<u64> {
        let states = |group: &Group| group.config.order != Order::Unknown && !group.exact;
        let is_awaited = !facts.window.ending.has_begun()
            && self.is_wanted(facts)
            && !(self.is_order_known || self.without_order)
            && facts.window.groups.iter().any(states);
        if !is_awaited {
            return None;
        }
        let timeout_ns = facts.transmissions.lanes.base_timeout_ns();
        let sent_ns = self.sent_ns.filter(|_| self.next_page.is_none());
        Some(match (sent_ns, self.may_be_sent_before_fin()) {
            (Some(sent_ns), true) => (sent_ns + timeout_ns).max(self.earliest_ns),
            (Some(sent_ns), false) => sent_ns + timeout_ns,
            (None, true) => self.earliest_ns,
            (None, false) => 0,
        })
    }

    fn may_be_sent_before_fin(&self) -> bool {
        self.sent_before_fin < SENT_BEFORE_FIN_MAX
    }

    /// Writes the next page of TERMS that a due FIN awaits; `None` if they were sent often enough.
    pub(super) fn next_before_fin(
        &mut self,
        now_ns: u64,
        facts: &Facts,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.may_be_sent_before_fin() {
            return None;
        }
        self.due_ns = Some(now_ns);
        let len = self.next(now_ns, facts, out)?;
        if self.next_page.is_none() {
            self.sent_before_fin += 1;
        }
        Some(len)
    }

    /// Writes the next page of TERMS, if one is due.
    pub(super) fn next(&mut self, now_ns: u64, facts: &Facts, out: &mut [u8]) -> Option<usize> {
        if !self.is_wanted(facts) || self.due(now_ns) > now_ns {
            self.next_page = None;
            return None;
        }
        let page = self.next_page.unwrap_or(0);
        let len = self.write(now_ns, facts, page, out)?;
        let is_last = page + 1 == facts.pages();
        self.next_page = (!is_last).then_some(page + 1);
        if is_last {
            let lanes = &facts.transmissions.lanes;
            self.sent_ns = Some(now_ns);
            let interval_ns_min = INTERVAL_NS_MIN.max(lanes.base_timeout_ns());
            let interval_ns_max = INTERVAL_NS_MAX.max(interval_ns_min);
            self.interval_ns = (2 * self.interval_ns).clamp(interval_ns_min, interval_ns_max);
            self.earliest_ns = now_ns + PAGE_NS * (page as u64 + 1);
            let wait_ns = self.interval_ns.saturating_add(lanes.longest_backlog_ns());
            self.due_ns = Some(now_ns + wait_ns);
        }
        Some(len)
    }

    fn write(&self, now_ns: u64, facts: &Facts, page: usize, out: &mut [u8]) -> Option<usize> {
        let Facts { config, window, transmissions, .. } = facts;
        let (head, body) = out.split_at_mut_checked(HEADER_LEN)?;
        let groups = window.groups.chunks(TERMS_GROUPS_MAX).nth(page)?;
        let answered = self.answered.unwrap_or(0);
        let terms = groups.iter().map(|group| terms(group, self.without_order));
        let body_len = TermsBody::write(body, window.number, answered, terms)?;
        let header = Header::new(&Fields {
            group: groups[0].config.group,
            job: config.job,
            cookie: config.cookie,
            index: self.revision,
            count: facts.pages() as u32,
            epoch: page as u16,
            slot: transmissions.sent.next_slot().wrapping_sub(1),
            time: Header::time_of(now_ns),
            ..Fields::of(Kind::Terms)
        });
        head.copy_from_slice(header.as_bytes());
        Some(HEADER_LEN + body_len)
    }
}

/// The sender's facts on which the announcement depends.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) config: &'a SenderConfig,
    /// The current window: its terms are announced.
    pub(crate) window: &'a Window,
    pub(crate) transmissions: &'a Transmissions,
    /// DATA packets handed out so far.
    pub(crate) packets_sent: u64,
}

impl Facts<'_> {
    /// The number of TERMS, or pages, for all groups.
    fn pages(&self) -> usize {
        self.window.groups.len().div_ceil(TERMS_GROUPS_MAX)
    }
}

/// The terms of a group. Receivers of earlier versions take no order.
fn terms(group: &Group, without_order: bool) -> TermsGroup {
    let order = if without_order { Order::Unknown } else { group.config.order };
    TermsGroup {
        group: group.config.group,
        exact: group.exact,
        messages: group.is_total_known().then(|| group.messages()),
        msr: group.config.msr,
        order,
        shortest_first: group.shortest_first && !without_order,
        name: group.config.name,
    }
}
