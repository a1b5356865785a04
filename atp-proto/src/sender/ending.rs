//! The state of the end of a window: which FIN is due, and which answers came.

use atp_common::wire::U24_MAX;

/// The FINs of the present window, and their answers.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The number of the last attempt, over all windows; FINs carry it in their index field.
    pub(crate) attempt: u32,
    /// A FIN of this window was sent.
    pub(crate) fin_sent: bool,
    /// No other window follows.
    pub(crate) last: bool,
    /// The window ends with what is delivered, whether it is enough or not.
    pub(crate) forced: bool,
    /// Pages of the attempt without an answer: one bit each.
    pub(crate) unanswered_pages: u16,
    /// Pages of the attempt that are still to be sent: one bit each.
    pub(crate) unsent_pages: u16,
    /// When the next attempt is due.
    pub(crate) next_ns: u64,
    /// When the last attempt began.
    pub(crate) sent_ns: u64,
    /// How many times the interval was doubled.
    pub(crate) doubled: u32,
    /// Every page of the attempt was answered.
    pub(crate) answered: bool,
    /// An answer to the attempt confirmed that the receiver's window has ended.
    pub(crate) ended: bool,
    /// The slot of the last attempt.
    pub(crate) slot: u32,
    /// DATA packets handed out when the last attempt began.
    pub(crate) packets_sent: u64,
    /// Messages with receipts, by index of the group, when the last attempt began.
    pub(crate) delivered: Vec<u32>,
}

impl Ending {
    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }

    /// Resets the state for the next window. Attempts and slots continue.
    pub(crate) fn begin_window(&mut self) {
        *self = Self { attempt: self.attempt, slot: self.slot, ..Self::default() };
    }

    /// Ends the window with what is delivered; a FIN is due at once.
    pub(crate) fn force(&mut self) {
        *self = Self {
            forced: true,
            attempt: self.attempt,
            slot: self.slot,
            last: self.last,
            ..Self::default()
        };
    }

    /// Takes in the answer to a page. Returns whether every page is answered now. The answer to an
    /// earlier attempt counts as well if there is only one page.
    pub(crate) fn on_answer(
        &mut self,
        attempt: u32,
        page: usize,
        pages: usize,
        ended: bool,
    ) -> bool {
        if self.is_present(attempt) {
            self.ended |= ended;
            self.unanswered_pages &= !(1 << page);
            self.unsent_pages &= !(1 << page);
            self.doubled = 0;
            return self.unanswered_pages == 0;
        }
        self.ended |= ended && pages == 1;
        pages == 1
    }

    /// Whether the index field of a FIN-ACK names the present attempt.
    pub(crate) fn is_present(&self, attempt: u32) -> bool {
        attempt == self.attempt & U24_MAX
    }
}
