//! The state of the end of a window: which FIN is due, and which answers came.

use super::naming::Naming;
use atp_common::wire::{FIN_GROUPS_MAX, FinGroup, U24_MAX};

const INTERVAL_NS_MIN: u64 = 10_000_000;
const INTERVAL_NS_MAX: u64 = 100_000_000;
/// FINs that tell the receiver of the job's end. Nothing repeats them, so each is sent twice.
const CONFIRMATIONS: u8 = 2;

/// The FINs of the current window, and their answers.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The number of the last attempt; FINs carry it in their index field. A window counts on from
    /// the one before it.
    attempt: u32,
    /// A FIN of this window was sent, since its end was forced if it was.
    fin_sent: bool,
    /// A FIN of this window was sent before that, and may be answered late. Unless `last` is set,
    /// it announced another window.
    fin_sent_before: bool,
    /// No other window follows.
    last: bool,
    /// The window ends with the messages delivered so far, even if they are too few.
    forced: bool,
    /// Pages of the attempt without an answer: one bit each.
    unanswered_pages: u16,
    /// Pages of the attempt that are still to be sent: one bit each.
    unsent_pages: u16,
    /// When the next attempt is due.
    next_ns: u64,
    /// When the last attempt began.
    sent_ns: u64,
    /// How many times the interval was doubled.
    doubled: u32,
    /// Every page of the attempt was answered.
    answered: bool,
    /// An answer to the attempt stated that the receiver's window has ended.
    ended: bool,
    /// The end that the receiver has stated, perhaps not all of its pages.
    stated: Option<Stated>,
    /// The receiver has stated the end in full. Ids of lost messages may be missing.
    naming: Option<Naming>,
    /// FINs still to be sent that tell the receiver of the job's end.
    confirmations: u8,
    /// The slot of the last attempt.
    slot: u32,
    /// DATA packets handed out when the last attempt began.
    packets_sent: u64,
    /// Messages with receipts, by index of the group, when the last attempt began.
    delivered: Vec<u32>,
}

/// An end as the receiver states it: the final counts, page by page. Answers to any attempt state
/// it.
#[derive(Debug)]
struct Stated {
    /// The receiver's clock when its process began. Another process states another end.
    begun: u32,
    /// The pages that were stated: one bit each.
    pages: u16,
    /// Final counts, by index of the group.
    delivered: Vec<u32>,
}

/// The sender's facts when an attempt begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) now_ns: u64,
    /// The timeout of the slowest lane.
    pub(crate) timeout_ns: u64,
    /// The longest time that a packet waits in this host.
    pub(crate) backlog_ns: u64,
    /// DATA packets handed out so far.
    pub(crate) packets_sent: u64,
    /// The number of FINs, or pages, for all groups.
    pub(crate) pages: usize,
}

impl Ending {
    /// Whether the window ends with the messages delivered so far, even if they are too few.
    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }

    /// Whether a FIN of this window was sent, since its end was forced if it was.
    pub(crate) fn is_fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// Whether the end has begun: a FIN was sent, or the end is forced.
    pub(crate) fn has_begun(&self) -> bool {
        self.fin_sent || self.forced
    }

    /// Whether a FIN of this window was ever sent.
    pub(crate) fn was_fin_sent(&self) -> bool {
        self.fin_sent || self.fin_sent_before
    }

    /// Whether no other window follows.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    /// Makes this window the last, unless a FIN has announced another.
    pub(crate) fn set_last(&mut self) {
        self.last |= !(self.fin_sent || self.fin_sent_before);
    }

    /// The index field of the attempt's FINs.
    pub(crate) fn index(&self) -> u32 {
        self.attempt & U24_MAX
    }

    /// The slot of the last attempt.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Messages with receipts, by index of the group, when the last attempt began.
    pub(crate) fn delivered(&self) -> &[u32] {
        &self.delivered
    }

    /// Takes in one page of an end that the receiver states, of a window with this many groups.
    /// Returns the final counts once all pages of the same end are stated.
    pub(crate) fn on_stated(
        &mut self,
        begun: u32,
        page: usize,
        counts: impl Iterator<Item = FinGroup>,
        groups: usize,
    ) -> Option<&[u32]> {
        let new = || Stated { begun, pages: 0, delivered: vec![0; groups] };
        let stated = self.stated.get_or_insert_with(new);
        if stated.begun != begun {
            *stated = new();
        }
        stated.pages |= 1 << page;
        let of_page = stated.delivered.iter_mut().skip(page * FIN_GROUPS_MAX);
        of_page.zip(counts).for_each(|(delivered, count)| *delivered = count.delivered);
        let is_all = stated.pages.count_ones() as usize == groups.div_ceil(FIN_GROUPS_MAX);
        is_all.then_some(&stated.delivered)
    }

    /// Whether an answer to the current attempt stated that the receiver's window has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The asking for names of lost messages, once the end is settled.
    pub(crate) fn naming_mut(&mut self) -> Option<&mut Naming> {
        self.naming.as_mut()
    }

    /// Whether the receiver has stated the end in full. Ids of lost messages may be missing.
    pub(crate) fn is_settled(&self) -> bool {
        self.naming.is_some()
    }

    /// Notes that the receiver has stated the end in full.
    pub(crate) fn settle(&mut self) {
        self.naming.get_or_insert(Naming::new());
    }

    /// Tells the receiver that this sender knows of the job's end.
    pub(crate) fn confirm(&mut self) {
        self.confirmations = CONFIRMATIONS;
    }

    /// Takes one of the FINs that tell the receiver of the end; `false` if none is left.
    pub(crate) fn next_confirmation(&mut self) -> bool {
        let is_due = self.confirmations > 0;
        self.confirmations = self.confirmations.saturating_sub(1);
        is_due
    }

    /// The state of the next window. Attempts and slots continue.
    pub(crate) fn next_window(&self) -> Self {
        Self { attempt: self.attempt, slot: self.slot, ..Self::default() }
    }

    /// Ends the window with the messages delivered so far; a FIN is due at once.
    pub(crate) fn force(&mut self) {
        *self = Self {
            forced: true,
            fin_sent_before: self.fin_sent,
            attempt: self.attempt,
            slot: self.slot,
            last: self.last,
            // The receiver may have ended the window before.
            stated: self.stated.take(),
            ..Self::default()
        };
    }

    /// When the next FIN is due, if the window should end. 0: at once.
    pub(crate) fn due_ns(&self) -> u64 {
        if self.unsent_pages != 0 { 0 } else { self.next_ns }
    }

    /// The next page of the attempt to be sent. `None`: an attempt has to begin first.
    pub(crate) fn next_page(&self) -> Option<usize> {
        (self.unsent_pages != 0).then(|| self.unsent_pages.trailing_zeros() as usize)
    }

    /// Notes that a page was sent.
    pub(crate) fn on_page_sent(&mut self, page: usize) {
        self.unsent_pages &= !(1 << page);
    }

    /// Sends no more pages of this attempt.
    pub(crate) fn stop_pages(&mut self) {
        self.unsent_pages = 0;
    }

    /// When the last attempt began, if it got no answer and no DATA was handed out since. Another
    /// attempt is then a sign of silence.
    pub(crate) fn unanswered_since_ns(&self, packets_sent: u64) -> Option<u64> {
        let is_unanswered = self.fin_sent && !self.answered && self.packets_sent == packets_sent;
        is_unanswered.then_some(self.sent_ns)
    }

    /// Begins an attempt, or repeats the unanswered pages of one with several pages. Returns
    /// whether it is a new one: then call [`Ending::set_snapshot`].
    pub(crate) fn begin_attempt(&mut self, start: &Attempt) -> bool {
        let &Attempt { now_ns, timeout_ns, backlog_ns, packets_sent, pages } = start;
        let has_sent_data = self.packets_sent != packets_sent;
        let repeats_pages = pages > 1 && self.unanswered_pages != 0 && !has_sent_data;
        if has_sent_data {
            self.doubled = 0;
        }
        let timeout_ns = timeout_ns.max(INTERVAL_NS_MIN);
        let interval_ns = (timeout_ns << self.doubled).min(INTERVAL_NS_MAX.max(timeout_ns));
        self.next_ns = now_ns + interval_ns + backlog_ns;
        self.doubled = (self.doubled + 1).min(8);
        (self.fin_sent, self.sent_ns) = (true, now_ns);
        self.answered = false;
        self.packets_sent = packets_sent;
        if repeats_pages {
            self.unsent_pages = self.unanswered_pages;
            return false;
        }
        self.attempt = self.attempt.wrapping_add(1);
        self.ended = false;
        let all_pages = u16::MAX >> (u16::BITS as usize - pages);
        (self.unanswered_pages, self.unsent_pages) = (all_pages, all_pages);
        true
    }

    /// Notes the slot of a new attempt, and the messages with receipts, by index of the group.
    pub(crate) fn set_snapshot(&mut self, slot: u32, delivered: impl Iterator<Item = u32>) {
        self.slot = slot;
        self.delivered.clear();
        self.delivered.extend(delivered);
    }

    /// Notes that every page of the current attempt was answered.
    pub(crate) fn set_answered(&mut self) {
        self.answered = true;
    }

    /// Takes in the answer to a page of the current attempt. Returns whether every page is answered
    /// now.
    pub(crate) fn on_answer(&mut self, page: usize, ended: bool) -> bool {
        self.ended |= ended;
        self.unanswered_pages &= !(1 << page);
        self.unsent_pages &= !(1 << page);
        self.doubled = 0;
        self.unanswered_pages == 0
    }

    /// Makes a new attempt due at once.
    pub(crate) fn ask_at_once(&mut self) {
        self.next_ns = 0;
    }

    /// Whether the index field of a FIN-ACK names the current attempt.
    pub(crate) fn is_current(&self, attempt: u32) -> bool {
        attempt == self.index()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn attempt(now_ns: u64, packets_sent: u64, pages: usize) -> Attempt {
        Attempt { now_ns, timeout_ns: 5 * MS, backlog_ns: 1, packets_sent, pages }
    }

    #[test]
    fn begin_attempt__waits_longer_until_data_is_sent() {
        let mut ending = Ending::default();
        let mut due_ns = |packets_sent| {
            assert!(ending.begin_attempt(&attempt(0, packets_sent, 1)));
            ending.on_page_sent(0);
            ending.due_ns()
        };
        // At least 10 ms, at most 100 ms.
        let waits_ms = [10, 20, 40, 80, 100, 100];
        assert_eq!(waits_ms.map(|_| due_ns(0)), waits_ms.map(|ms| ms * MS + 1));
        assert_eq!(due_ns(1), 10 * MS + 1);
    }

    #[test]
    fn begin_attempt__repeats_unanswered_pages_until_data_is_sent() {
        let mut ending = Ending::default();
        assert!(ending.begin_attempt(&attempt(0, 0, 3)));
        ending.set_snapshot(7, [1, 2].into_iter());
        assert_eq!(ending.next_page(), Some(0));
        (0..3).for_each(|page| ending.on_page_sent(page));
        assert_eq!(ending.next_page(), None);
        assert!(!ending.on_answer(0, true));
        assert!(ending.has_ended());
        assert!(!ending.begin_attempt(&attempt(MS, 0, 3)));
        assert_eq!((ending.index(), ending.slot(), ending.next_page()), (1, 7, Some(1)));
        assert!(ending.begin_attempt(&attempt(2 * MS, 1, 3)));
        assert_eq!((ending.index(), ending.next_page()), (2, Some(0)));
        assert!(!ending.has_ended());
    }

    #[test]
    fn on_stated__needs_all_pages_of_one_end() {
        let mut ending = Ending::default();
        let count = |delivered| FinGroup { delivered, ..FinGroup::default() };
        let mut stated = |begun, page, delivered| {
            let groups = if page == 0 { FIN_GROUPS_MAX } else { 1 };
            let counts = std::iter::repeat_n(count(delivered), groups);
            let all = ending.on_stated(begun, page, counts, FIN_GROUPS_MAX + 1);
            all.map(|all| (all[0], all[FIN_GROUPS_MAX]))
        };
        assert_eq!(stated(7, 1, 5), None);
        // Another process has ended the window too.
        assert_eq!(stated(8, 0, 3), None);
        assert_eq!(stated(8, 1, 4), Some((3, 4)));
        assert_eq!(stated(8, 1, 4), Some((3, 4)));
    }

    #[test]
    fn unanswered_since_ns__until_an_answer_or_data() {
        let mut ending = Ending::default();
        assert_eq!(ending.unanswered_since_ns(0), None);
        ending.begin_attempt(&attempt(MS, 4, 1));
        assert_eq!(ending.unanswered_since_ns(4), Some(MS));
        assert_eq!(ending.unanswered_since_ns(5), None);
        ending.set_answered();
        assert_eq!(ending.unanswered_since_ns(4), None);
    }
}
