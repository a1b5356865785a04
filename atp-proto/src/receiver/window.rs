//! The windows of a stream that are open: the present one, and if windows overlap, the one before
//! it.
//!
//! Everything works on `Receiver::window`. For the window before it, [`Receiver::in_closing`] puts
//! that one there.

use super::{
    Receiver,
    assemble::Assembler,
    budget::{Account, Part, Share},
    config::ReceiverConfig,
    end::{End, FinAttempt, is_later},
    group::Groups,
    place::{Place, ahead},
    receipt::Receipts,
};
use atp_common::wire::{Flags, Header, WINDOWS};
use std::sync::Arc;

/// One window of a stream; the only one of another job.
#[derive(Debug)]
pub(crate) struct Window {
    /// Counted from 0.
    pub(crate) number: u32,
    /// The last slot of the windows that have ended before it began.
    pub(crate) before_slot: Option<u32>,
    pub(crate) assembler: Assembler,
    pub(crate) groups: Groups,
    /// The bytes of `groups`, without held messages.
    pub(crate) record_account: Account,
    pub(crate) receipts: Receipts,
    /// The pages of the sender's latest FIN attempt.
    pub(crate) fin_attempt: Option<FinAttempt>,
    pub(crate) end: Option<End>,
}

impl Window {
    pub(crate) fn new(config: ReceiverConfig, share: Option<Arc<Share>>) -> Self {
        Self {
            number: 0,
            before_slot: None,
            assembler: Assembler::new(config, Account::new(share.clone(), Part::Messages)),
            groups: Groups::default(),
            record_account: Account::new(share, Part::Records),
            receipts: Receipts::new(&config),
            fin_attempt: None,
            end: None,
        }
    }

    /// Whether a slot is later than those of the windows that had ended before.
    pub(super) fn is_recent(&self, slot: u32) -> bool {
        self.before_slot.is_none_or(|before_slot| is_later(slot, before_slot))
    }

    /// Whether DATA that doesn't name its window has this window's parity.
    fn has_parity_of(&self, header: &Header) -> bool {
        header.flags().contains(Flags::ODD_WINDOW) == (self.number % 2 == 1)
    }
}

impl Receiver {
    /// Works on the window before the present one, if it is known.
    pub(super) fn in_closing<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let closing = self.closing.as_deref_mut()?;
        std::mem::swap(&mut self.window, closing);
        let result = work(self);
        if let Some(closing) = self.closing.as_deref_mut() {
            std::mem::swap(&mut self.window, closing);
        }
        Some(result)
    }

    /// Works on one of the open windows.
    pub(super) fn in_place<T>(
        &mut self,
        place: Place,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        match place {
            Place::Present => Some(work(self)),
            Place::Closing => self.in_closing(work),
        }
    }

    /// The open windows, the older one first.
    pub(super) fn windows(&self) -> impl Iterator<Item = &Window> {
        self.closing.as_deref().into_iter().chain([&self.window])
    }

    /// The window of DATA; `None` if it has ended long ago. The first packet of the next window
    /// begins it.
    pub(super) fn place_of_data(&mut self, header: &Header) -> Option<Place> {
        match header.window() {
            Some(named) => self.place_of_named(header, named),
            // Its sender has named windows since.
            None if self.names_windows => None,
            None => self.is_of_present_window(header).then_some(Place::Present),
        }
    }

    /// As [`Self::place_of_data`], for DATA that names its window modulo [`WINDOWS`].
    fn place_of_named(&mut self, header: &Header, named: u32) -> Option<Place> {
        let knew_parity = !std::mem::replace(&mut self.names_windows, true);
        if !self.knows_number {
            if self.stats.packets_arrived == 0 {
                self.window.number = named;
            } else if knew_parity && ahead(named, self.window.number) != 0 {
                // Until now only the parity of the window's number was known.
                let is_same = named % 2 == self.window.number % 2;
                self.window.number = (named + if is_same { 0 } else { WINDOWS - 1 }) % WINDOWS;
            }
        }
        match ahead(named, self.window.number) {
            0 => self.window.is_recent(header.slot()).then_some(Place::Present),
            -1 => {
                self.open_closing();
                let closing = self.closing.as_ref();
                let is_recent = closing.is_some_and(|closing| closing.is_recent(header.slot()));
                is_recent.then_some(Place::Closing)
            }
            ahead if ahead > 0 && self.may_begin(ahead, header) => {
                self.begin_window_beside(ahead as u32);
                Some(Place::Present)
            }
            _ => None,
        }
    }

    /// Whether DATA of a window that is `ahead` of the present one begins it. A packet that is 40
    /// windows old seems to be 24 ahead: its slot shows that it is old.
    fn may_begin(&self, ahead: i32, header: &Header) -> bool {
        let slot = header.slot();
        let is_later = self.window.is_recent(slot)
            && self.windows().filter_map(|w| w.end.as_ref()).all(|end| is_later(slot, end.slot));
        // Nothing of the window between may have arrived. A receiver that joined in the middle has
        // missed any number of windows.
        let may_skip =
            ahead == 1 || ahead == 2 && self.window.end.is_some() || self.windows_ended == 0;
        is_later && may_skip && !self.is_finished() && header.message() < self.config.messages_max
    }

    /// Opens the window before the present one, if this receiver joined in the present one: its
    /// sender may wait for the end of that window.
    fn open_closing(&mut self) {
        if self.windows_ended == 0 && !self.has_begun_another && self.closing.is_none() {
            let number = self.window.number.wrapping_sub(1);
            self.closing = Some(self.window_beside(number, None).into());
        }
    }

    /// Whether DATA that doesn't name its window belongs to the present one.
    fn is_of_present_window(&mut self, header: &Header) -> bool {
        if !self.window.is_recent(header.slot()) {
            return false;
        }
        if self.stats.packets_arrived == 0 && !self.knows_number {
            self.window.number = u32::from(header.flags().contains(Flags::ODD_WINDOW));
        }
        if self.window.has_parity_of(header) {
            return true;
        }
        // The packet is of the next window, or of one that ended long ago. If this process saw no
        // end of a window, an earlier process has confirmed it.
        let last_slot = self.window.end.as_ref().map_or(self.slot, |end| end.slot);
        let is_next = !self.is_finished() && is_later(header.slot(), last_slot);
        if is_next {
            self.begin_window();
        }
        is_next
    }

    /// Whether DATA surely belongs to the present window, without beginning one.
    pub(super) fn is_surely_present(&self, header: &Header) -> bool {
        let is_named = match header.window() {
            Some(named) => self.names_windows && named == self.window.number % WINDOWS,
            None => !self.names_windows && self.window.has_parity_of(header),
        };
        is_named && self.window.is_recent(header.slot())
    }

    /// Begins the next window in the place of the present one, which has ended.
    pub(super) fn begin_window(&mut self) {
        // Receipts have named held messages, so the application gets them even without an end.
        self.release_all();
        self.has_begun_another = true;
        let window = &mut self.window;
        window.number = window.number.wrapping_add(1);
        window.before_slot = window.end.take().map(|end| end.slot).or(window.before_slot);
        window.fin_attempt = None;
        window.assembler.clear();
        window.groups = Groups::default();
        window.record_account.clear();
        window.receipts.begin_window();
        self.terms.begin_window();
        self.drop_closing();
    }

    /// Begins the window that is `ahead` of the present one. The one before it may be open too: the
    /// present one, or one of which nothing has arrived.
    fn begin_window_beside(&mut self, ahead: u32) {
        self.has_begun_another = true;
        let number = self.window.number.wrapping_add(ahead);
        if ahead > 1 {
            self.skip_to(number.wrapping_sub(1));
        }
        // The sender begins a window only after the last but one has ended.
        let ended = self.closing.as_ref().and_then(|closing| closing.end.as_ref());
        let before_slot = ended.map(|end| end.slot).or(self.window.before_slot);
        let next = self.window_beside(number, before_slot);
        self.drop_closing();
        let last = std::mem::replace(&mut self.window, next);
        self.closing = Some(last.into());
        self.terms.begin_window();
    }

    /// Makes a window of which nothing has arrived the present one. Those before it have ended.
    fn skip_to(&mut self, number: u32) {
        self.drop_closing();
        self.release_all();
        let ended_slot = self.window.end.as_ref().map(|end| end.slot);
        self.window = self.window_beside(number, ended_slot.or(self.window.before_slot));
    }

    /// A window beside the present one.
    fn window_beside(&self, number: u32, before_slot: Option<u32>) -> Window {
        Window {
            number,
            before_slot,
            receipts: self.window.receipts.of_next_window(&self.config),
            ..Window::new(self.config, self.share.clone())
        }
    }

    /// Forgets the window before the present one.
    fn drop_closing(&mut self) {
        // As at the end of a window: receipts have named held messages.
        self.in_closing(Self::release_all);
        self.closing = None;
    }

    /// The open window of this number.
    pub(super) fn place_of_number(&self, number: u32) -> Option<Place> {
        let is_closing = self.closing.as_ref().is_some_and(|closing| closing.number == number);
        match number == self.window.number {
            true => Some(Place::Present),
            false => is_closing.then_some(Place::Closing),
        }
    }

    /// The open window that a FIN or TERMS names by its full number. A receiver that joined in the
    /// middle knows numbers only modulo [`WINDOWS`], until it learns one here.
    pub(super) fn place_of_told(&mut self, number: u32) -> Option<Place> {
        if !self.knows_number {
            let place = match ahead(number, self.window.number) {
                0 => Place::Present,
                -1 => Place::Closing,
                _ => return None,
            };
            let ahead = u32::from(place == Place::Closing);
            self.learn_number(number.wrapping_add(ahead));
        }
        if number == self.window.number.wrapping_sub(1) {
            self.open_closing();
        }
        self.place_of_number(number)
    }

    /// Notes the full number of the present window.
    pub(super) fn learn_number(&mut self, number: u32) {
        (self.window.number, self.knows_number) = (number, true);
        if let Some(closing) = &mut self.closing {
            closing.number = number.wrapping_sub(1);
        }
    }
}
