//! The open windows of a job: the current one, and if windows overlap, the one before it.
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
    outcome::DropReason,
    place::{Known, Place, ahead},
    receipt::Receipts,
};
use atp_common::wire::{Header, WINDOWS};
use std::sync::Arc;

/// One window of a job, which has at least one.
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

    /// Moves the slots that packets are compared with behind the latest one. They would seem to be
    /// later than a slot that is 2^31 after them.
    pub(super) fn follow(&mut self, slot: u32) {
        let least = slot.wrapping_sub(1 << 30);
        let end = self.end.as_mut().map(|end| &mut end.slot);
        for mark in self.before_slot.as_mut().into_iter().chain(end) {
            if is_later(least, *mark) {
                *mark = least;
            }
        }
    }
}

impl Receiver {
    /// Works on the window before the current one, if it is known.
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

    /// The window of DATA, or why there is none. The first packet of the next window begins it.
    pub(super) fn place_of_data(&mut self, header: &Header) -> Result<Place, DropReason> {
        let (named, whole) = (header.window().unwrap_or(0), header.whole_window());
        match (self.known, whole) {
            (Known::Modulo, Some(number)) => {
                (self.window.number, self.known) = (number, Known::ByData)
            }
            (Known::Modulo, None) => {
                self.window.number = named;
                if self.stats.packets_arrived == 0 {
                    self.window.receipts.request_now();
                }
                return Err(DropReason::UnknownWindow);
            }
            (Known::ByData, None) => return Err(DropReason::UnknownWindow),
            (Known::ByData | Known::Told, _) => {}
        }
        let ahead = match whole {
            Some(number) => number.wrapping_sub(self.window.number) as i32,
            None => ahead(named, self.window.number),
        };
        let is_of = header.may_be_of_window(self.window.number.wrapping_add_signed(ahead));
        let slot = header.slot();
        match ahead {
            0 if is_of && self.window.is_recent(slot) => return Ok(Place::Present),
            -1 if is_of => {
                self.open_closing();
                if self.closing.as_ref().is_some_and(|closing| closing.is_recent(slot)) {
                    return Ok(Place::Closing);
                }
            }
            1 | 2 if is_of && self.may_begin(ahead, header) => {
                self.begin_window_beside(ahead as u32);
                return Ok(Place::Present);
            }
            _ => {}
        }
        // It was sent after all that was read, so it is of a window that can't follow: this process
        // joined at an old packet, and the job is elsewhere.
        let is_elsewhere = ahead != 1 && !self.is_finished() && is_later(slot, self.slot);
        Err(if is_elsewhere { DropReason::UnknownWindow } else { DropReason::Ended })
    }

    /// Whether DATA of a window that is `ahead` of the current one begins it. A packet that is 63
    /// windows old seems to be 1 ahead: its slot shows that it is old.
    fn may_begin(&self, ahead: i32, header: &Header) -> bool {
        let slot = header.slot();
        let is_later = self.window.is_recent(slot)
            && self.windows().filter_map(|w| w.end.as_ref()).all(|end| is_later(slot, end.slot));
        // Nothing of the window between may have arrived.
        let may_follow = ahead == 1 || self.window.end.is_some();
        is_later && may_follow && !self.is_finished() && header.message() < self.config.messages_max
    }

    /// Opens the window before the current one, if this process joined in the current one: its
    /// sender may wait for the end of that window.
    fn open_closing(&mut self) {
        if self.may_open_before && self.closing.is_none() {
            let number = self.window.number.wrapping_sub(1);
            let before_slot = self.window.before_slot;
            self.closing = Some(self.window_beside(number, before_slot).into());
        }
    }

    /// Whether DATA surely belongs to the current window, without beginning one.
    pub(super) fn is_surely_present(&self, header: &Header) -> bool {
        self.known != Known::Modulo
            && header.may_be_of_window(self.window.number)
            && self.window.is_recent(header.slot())
    }

    /// Begins the window that is `ahead` of the current one. The one before it may be open too: the
    /// current one, or one of which nothing has arrived.
    fn begin_window_beside(&mut self, ahead: u32) {
        self.may_open_before = false;
        let number = self.window.number.wrapping_add(ahead);
        if ahead > 1 {
            self.skip_to(number.wrapping_sub(1));
        }
        // The sender begins a window only after the last but one has ended.
        let ended = self.closing.as_ref().and_then(|closing| closing.end.as_ref());
        let before_slot = ended.map(|end| end.slot).or(self.window.before_slot);
        let next = self.window_beside(number, before_slot);
        self.drop_closing();
        let mut last = std::mem::replace(&mut self.window, next);
        if last.end.is_some() {
            // FINs ask for its receipts, if the sender wants any.
            last.receipts.begin_window();
        }
        self.closing = Some(last.into());
        self.terms.begin_window();
    }

    /// Makes a window of which nothing has arrived the current one. Those before it have ended.
    fn skip_to(&mut self, number: u32) {
        self.drop_closing();
        self.release_all();
        let ended_slot = self.window.end.as_ref().map(|end| end.slot);
        self.window = self.window_beside(number, ended_slot.or(self.window.before_slot));
    }

    /// A window beside the current one.
    fn window_beside(&self, number: u32, before_slot: Option<u32>) -> Window {
        Window {
            number,
            before_slot,
            receipts: self.window.receipts.of_next_window(&self.config),
            ..Window::new(self.config, self.share.clone())
        }
    }

    /// Forgets the window before the current one.
    pub(super) fn drop_closing(&mut self) {
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

    /// The open window that a FIN or TERMS of this slot names by its full number. They may begin
    /// the next window. If the job is elsewhere, this process joins it there.
    pub(super) fn place_of_told(&mut self, number: u32, slot: u32) -> Option<Place> {
        if self.known == Known::Modulo {
            let is_old = is_later(self.first_slot, slot);
            return if is_old { None } else { Some(self.join(number, slot)) };
        }
        if number == self.window.number.wrapping_sub(1) {
            self.open_closing();
        }
        if let Some(place) = self.place_of_number(number) {
            self.known = Known::Told;
            return Some(place);
        }
        let ahead = number.wrapping_sub(self.window.number) as i32;
        if ahead <= 0 || self.is_finished() || is_later(self.slot, slot) {
            return None;
        }
        // Nothing of the window between may have arrived.
        if ahead == 1 || ahead == 2 && self.window.end.is_some() {
            self.begin_window_beside(ahead as u32);
            self.known = Known::Told;
            return Some(Place::Present);
        }
        // Another process has ended the windows before.
        self.drop_closing();
        self.release_all();
        self.window = self.window_beside(number, None);
        self.terms.begin_window();
        Some(self.join(number, slot))
    }

    /// Joins a job in the middle. DATA names its window modulo [`WINDOWS`], so that of earlier
    /// slots may be of any earlier window.
    fn join(&mut self, number: u32, slot: u32) -> Place {
        // DATA of the window after it has come if the job's windows overlap.
        let is_closing = self.known == Known::Modulo
            && self.stats.packets_arrived > 0
            && ahead(number, self.window.number) == -1;
        self.window.number = number.wrapping_add(u32::from(is_closing));
        self.window.before_slot = (number >= WINDOWS).then_some(slot);
        (self.known, self.may_open_before) = (Known::Told, true);
        if !is_closing {
            return Place::Present;
        }
        self.open_closing();
        Place::Closing
    }
}
