//! The open windows of a job: the current one, and while its end is being confirmed, the one before
//! it.

use super::{
    report::{GroupReport, LostIds, MessageId, SendError, Short, State},
    sent_packets::{SentPackets, Transmission},
    window::Window,
};
use atp_common::wire::{Header, WINDOWS};

/// The open windows.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) current: Window,
    closing: Option<Closing>,
}

/// The window before the current one.
#[derive(Debug)]
struct Closing {
    window: Box<Window>,
    /// It has ended, and so its transmissions were made void.
    is_void: bool,
}

/// A window that ended while the next one was open: see [`Sender::take_ended_window`].
///
/// [`Sender::take_ended_window`]: super::Sender::take_ended_window
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedWindow {
    /// Counted from 0.
    pub window: u32,
    /// Every group has what it needs.
    pub is_done: bool,
    /// The groups, by id.
    pub groups: Vec<GroupReport>,
    /// For each of `groups`, what [`Sender::lost_ids`] says of a job.
    ///
    /// [`Sender::lost_ids`]: super::Sender::lost_ids
    pub lost_ids: Vec<LostIds>,
}

impl Windows {
    pub(crate) fn new(first: Window) -> Self {
        Self { current: first, closing: None }
    }

    /// The open windows, the older one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Window> {
        self.before_current().into_iter().chain([&self.current])
    }

    /// The open windows, the older one first.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Window> {
        let Self { current, closing } = self;
        closing.as_mut().map(|closing| &mut *closing.window).into_iter().chain([current])
    }

    /// The window before the current one, if its outcome was not taken.
    pub(crate) fn before_current(&self) -> Option<&Window> {
        self.closing.as_ref().map(|closing| &*closing.window)
    }

    pub(crate) fn before_current_mut(&mut self) -> Option<&mut Window> {
        self.closing.as_mut().map(|closing| &mut *closing.window)
    }

    /// The window before the current one, if it has not ended.
    pub(crate) fn closing(&self) -> Option<&Window> {
        self.before_current().filter(|window| !window.is_over())
    }

    /// The window of a transmission, if it is open.
    pub(crate) fn of(&mut self, transmission: &Transmission) -> Option<&mut Window> {
        match self.current.is_odd() == transmission.odd_window {
            true => Some(&mut self.current),
            false => self.before_current_mut(),
        }
    }

    /// The window of this number, if it is open.
    pub(crate) fn of_number(&mut self, number: u32) -> Option<&mut Window> {
        self.each_mut().find(|window| window.number == number)
    }

    /// The number of the open window that a receipt is of. The receipt names it, unless its
    /// receiver doesn't announce overlap: then its slot shows whether the window has ended.
    pub(crate) fn number_of_receipt(&self, header: &Header, next_slot: u32) -> Option<u32> {
        let is_recent = |window: &Window| window.is_in_or_after(header.slot(), next_slot);
        let Some(named) = header.window() else {
            return is_recent(&self.current).then_some(self.current.number);
        };
        let is_named = |window: &&Window| named == window.number % WINDOWS;
        self.iter().filter(is_named).find(|window| is_recent(window)).map(|window| window.number)
    }

    /// Whether the next window may begin: the current one has ended, or it only waits for its end,
    /// and windows may overlap.
    pub(crate) fn can_begin(&self, may_overlap: bool) -> bool {
        let overlaps = may_overlap && self.current.state == State::Finishing;
        let is_over = matches!(self.current.state, State::Done | State::Ended);
        !self.current.ending.is_last() && self.closing.is_none() && (is_over || overlaps)
    }

    /// Begins the next window, which [`Windows::can_begin`] allows.
    pub(crate) fn begin(&mut self, next: Window, sent: &mut SentPackets) {
        let mut last = std::mem::replace(&mut self.current, next);
        if last.is_over() {
            sent.void_all();
            self.current.ledger.take_released(&mut last.ledger);
        } else {
            self.closing = Some(Closing { window: last.into(), is_void: false });
        }
    }

    /// Makes the transmissions of the window before the current one void, if it has ended.
    pub(crate) fn void_ended(&mut self, sent: &mut SentPackets) {
        if let Some(closing) = &mut self.closing
            && closing.window.is_over()
            && !std::mem::replace(&mut closing.is_void, true)
        {
            sent.void_window(closing.window.is_odd());
        }
    }

    /// Takes the outcome of a window that has ended while the next one was open.
    pub(crate) fn take_ended(&mut self, names_lost: bool) -> Option<EndedWindow> {
        let has_ended =
            |closing: &mut Closing| matches!(closing.window.state, State::Done | State::Ended);
        let mut ended = self.closing.take_if(has_ended)?.window;
        self.current.ledger.take_released(&mut ended.ledger);
        Some(EndedWindow {
            window: ended.number,
            is_done: ended.state == State::Done,
            groups: ended.reports(),
            lost_ids: ended.lost_ids(names_lost),
        })
    }

    /// Fails each window that is not over.
    pub(crate) fn fail(&mut self, error: &SendError) {
        self.each_mut().for_each(|window| window.fail(error.clone()));
    }

    /// The groups that have less than they need, in all windows that are not over.
    pub(crate) fn short(&self) -> Vec<Short> {
        self.iter().filter(|window| !window.is_over()).flat_map(Window::short).collect()
    }

    /// Whether the send buffer has room for a message of `len_bytes` beside those of all windows.
    pub(crate) fn has_room(&self, len_bytes: u32, messages_max: u32, bytes_max: u64) -> bool {
        let messages: u32 = self.iter().map(|window| window.ledger.len()).sum();
        let bytes: u64 = self.iter().map(|window| window.ledger.bytes).sum();
        messages < messages_max && bytes + u64::from(len_bytes) <= bytes_max
    }

    /// Takes the ids of messages whose data is no longer needed.
    pub(crate) fn drain_released(&mut self) -> impl Iterator<Item = MessageId> + '_ {
        self.each_mut().flat_map(|window| window.ledger.drain_released())
    }
}
