//! Cuts a stream into windows.

mod open;

use crate::{
    draw::Terms,
    offsets::Offsets,
    position::Position,
    record::RecordRef,
    rule::Rule,
    sampling::{GroupId, Sampling},
};
use open::Open;
pub use open::{Batch, Cut};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// The limits of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The encoded bytes of a window, after which it closes early.
    pub window_bytes_max: usize,
    /// The encoded bytes of a record. A longer one isn't sent: [`Cut::refused`].
    pub record_bytes_max: usize,
}

/// How a stream is cut and sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The rule of the windows.
    pub rule: Rule,
    /// Their limits.
    pub limits: Limits,
    /// The groups of the records.
    pub sampling: Sampling,
}

/// Cuts the records of a stream, in order of their offsets, into windows, and draws those that are
/// sent.
///
/// The windows depend on the records and on the [`Position`] alone, unless [`Cutter::close`] or
/// [`Cutter::advance`] is called: another cutter that begins at the [position](Cut::position)
/// behind a window makes the same ones. With these calls it does so if they are repeated between
/// the same records, those before the position's record included. Chance decides which of their
/// records are sent.
#[derive(Debug)]
pub struct Cutter {
    plan: Plan,
    rng: ChaCha8Rng,
    /// The share of the room that new groups of windows use.
    room: f64,
    /// The shares that groups needed for an accepted error, and in how many records.
    needed: BTreeMap<u8, (u64, f64)>,
    begun: Position,
    /// Open windows, by number.
    open: BTreeMap<i64, Open>,
    closed: VecDeque<Cut>,
    /// The next offset to read.
    next: u64,
    /// The least number of an open window.
    open_from: i64,
    time_max_ms: i64,
    /// The window of which parts were closed, and their number.
    parts: (i64, u32),
    /// Where the last window's [`Cut::resume`] was.
    resumed: u64,
}

impl Cutter {
    /// A cutter of the records from `position` on.
    ///
    /// If the windows so far had other times, those that were open at the position are cut anew:
    /// some of their records were sent, and their receiver counts these once.
    ///
    /// `seed` decides which records are sent: another one for each cutter.
    pub fn new(plan: Plan, position: Position, seed: u64) -> Self {
        let rule = plan.rule;
        let position = match position.rule {
            Some(before) if !rule.can_follow(before) => {
                Position { epoch: position.epoch, ..Position::begin(position.offset) }
            }
            _ => position,
        };
        let open_from = match rule {
            Rule::Records(_) => position.open_from.max(0),
            Rule::Time { .. } => position.open_from,
        };
        Self {
            plan,
            rng: ChaCha8Rng::seed_from_u64(seed),
            room: 0.0,
            needed: BTreeMap::new(),
            begun: position,
            open: BTreeMap::new(),
            closed: VecDeque::new(),
            next: position.offset,
            open_from,
            time_max_ms: position.time_max_ms,
            parts: (position.sent_below, position.parts),
            resumed: position.offset,
        }
    }

    /// Takes the next record, of this group. A record before the next offset is ignored.
    pub fn push(&mut self, record: &RecordRef<'_>, group: GroupId) {
        self.push_number(record, group, None);
    }

    /// Takes the next record, of this group, and the number in it whose average may have an
    /// [accepted error](Sampling::accepting).
    pub fn push_number(&mut self, record: &RecordRef<'_>, group: GroupId, number: Option<f64>) {
        if record.offset < self.next {
            return;
        }
        let (window, is_late) = self.number_of(record);
        let before = (self.open_from, self.time_max_ms);
        self.next = record.offset.saturating_add(1);
        if let Some(time_ms) = record.timestamp_ms {
            self.time_max_ms = self.time_max_ms.max(time_ms);
        }
        if !self.was_sent(record.offset, window) {
            let terms = self.terms(window, group);
            let open = self.open.entry(window).or_insert_with(|| Open::new(record, before));
            open.push(record, group, is_late, number, terms, &mut self.rng);
            self.close_if_full(window);
        }
        if let Rule::Time { length_ms, watermark_delay_ms } = self.plan.rule
            && self.time_max_ms > i64::MIN
        {
            let watermark_ms = self.time_max_ms.saturating_sub_unsigned(watermark_delay_ms);
            self.close_below(index(watermark_ms, length_ms));
        }
    }

    /// The terms of a group in a window, which hold from its first record on.
    fn terms(&self, window: i64, group: GroupId) -> Terms {
        let Plan { sampling, limits, .. } = &self.plan;
        let msr = sampling.msr(group);
        let accepted = sampling.accepted().filter(|_| msr > 0.0);
        let has_begun = || self.open.get(&window).is_some_and(|open| open.has(group));
        let expected = accepted
            .filter(|_| !has_begun())
            .map(|accepted| self.expected(window, group).unwrap_or(accepted.first_rate()));
        let rate = sampling.rate(group, self.room).max(expected.unwrap_or(0.0));
        Terms { msr, rate, accepted, record_bytes_max: limits.record_bytes_max }
    }

    /// The share that a group will need in a new window, after the window before it. That one is
    /// still open: the first record of the new one closes it.
    fn expected(&self, window: i64, group: GroupId) -> Option<f64> {
        let id = group.id();
        let before = self.open.range(..window).next_back();
        let before = before.and_then(|(_, open)| open.shares_needed().find(|(of, _)| *of == id));
        let known = self.needed.get(&id).copied();
        let needed = before.map_or(known, |(_, needed)| Some(followed(known, needed)));
        needed.map(|(_, share)| share)
    }

    /// Sends this share of the records beyond MSR, of [`Sampling::up_to`], in windows that open
    /// later: see [`Room`](crate::Room). At first it is 0.
    pub fn set_room(&mut self, room: f64) {
        self.room = room.clamp(0.0, 1.0);
    }

    /// Skips offsets: no record below `offset` follows.
    pub fn skip_to(&mut self, offset: u64) {
        self.next = self.next.max(offset);
    }

    /// Closes the windows by event time that end at or before this time: the stream's watermark has
    /// reached it. Without effect on windows by number.
    ///
    /// The last of these windows is made also without a record, so that a receiver knows how far
    /// the stream has come.
    ///
    /// Where windows close by this alone, with [`Rule::NEVER`], another cutter makes the same ones
    /// if it is told the same watermarks between the same records.
    pub fn advance(&mut self, watermark_ms: i64) {
        let Rule::Time { length_ms, .. } = self.plan.rule else { return };
        let number = index(watermark_ms, length_ms);
        if number <= self.open_from {
            return;
        }
        let last = number - 1;
        let is_open = self.open.contains_key(&last);
        self.close_below(number);
        // A window that was sent before the position isn't made again, nor are its parts forgotten.
        if !is_open && last >= self.begun.sent_below {
            let next = RecordRef { offset: self.next, ..RecordRef::default() };
            self.end(Open::new(&next, (number, self.time_max_ms)), last, true);
        }
    }

    /// Closes all open windows now, because no record may follow for a long time. Later records of
    /// the last window by event time make another part of it.
    pub fn close(&mut self) {
        let Some((&last, _)) = self.open.last_key_value() else { return };
        match self.plan.rule {
            Rule::Records(_) => self.close_below(last.saturating_add(1)),
            Rule::Time { .. } => {
                self.close_below(last);
                self.close_one(last, false);
            }
        }
    }

    /// The oldest window that is closed.
    pub fn pop(&mut self) -> Option<Cut> {
        self.closed.pop_front()
    }

    /// The new messages of the window that closes next. `None` without any, and while a closed
    /// window waits for [`Cutter::pop`].
    ///
    /// With windows by time, records may come for an earlier window than the first that is open.
    /// That window closes next, so nothing is sent before the watermark has reached a window.
    pub fn take_batch(&mut self) -> Option<Batch> {
        let mut first = self.open.first_entry()?;
        let number = *first.key();
        if number > self.open_from || !self.closed.is_empty() {
            return None;
        }
        let messages = first.get_mut().take();
        let part = if self.parts.0 == number { self.parts.1 } else { 0 };
        let epoch = self.begun.epoch;
        (!messages.is_empty()).then_some(Batch { number, part, epoch, messages })
    }

    /// Whether a window is open.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The memory of all windows here.
    pub fn memory_bytes(&self) -> usize {
        let open: usize = self.open.values().map(Open::memory_bytes).sum();
        open + self.closed.iter().map(Cut::bytes).sum::<usize>()
    }

    /// The window of a record, and whether the record's own has closed.
    fn number_of(&self, record: &RecordRef<'_>) -> (i64, bool) {
        // Records behind the closing of windows that were sent belong to later ones.
        let least = match record.offset >= self.begun.closed_at {
            true => self.open_from.max(self.begun.sent_below),
            false => self.open_from,
        };
        let own = match (self.plan.rule, record.timestamp_ms) {
            (Rule::Time { length_ms, .. }, Some(time_ms)) => index(time_ms, length_ms),
            (Rule::Time { length_ms, .. }, None) => index(self.time_max_ms.max(0), length_ms),
            (Rule::Records(_), _) => least,
        };
        (own.max(least), own < least)
    }

    /// Whether windows before the position that this cutter began at have the record.
    fn was_sent(&self, offset: u64, number: i64) -> bool {
        let Position { sent_below, parts, closed_at, .. } = self.begun;
        offset < closed_at && (number < sent_below || number == sent_below && parts > 0)
    }

    fn close_if_full(&mut self, number: i64) {
        let open = &self.open[&number];
        let is_full = matches!(self.plan.rule, Rule::Records(records) if open.records() >= records);
        let is_large = open.bytes() >= self.plan.limits.window_bytes_max
            || open.ranges() >= Offsets::RANGES_MAX;
        match self.plan.rule {
            _ if is_full => self.close_below(number + 1),
            Rule::Records(_) if is_large => self.close_below(number + 1),
            Rule::Time { .. } if is_large => {
                self.close_below(number);
                self.close_one(number, false);
            }
            _ => {}
        }
    }

    /// Closes the windows below a number. None of these numbers opens again.
    fn close_below(&mut self, number: i64) {
        if number <= self.open_from {
            return;
        }
        self.open_from = number;
        while let Some((&oldest, _)) = self.open.first_key_value()
            && oldest < number
        {
            self.close_one(oldest, true);
        }
    }

    fn close_one(&mut self, number: i64, is_last_part: bool) {
        if let Some(open) = self.open.remove(&number) {
            self.end(open, number, is_last_part);
        }
    }

    /// Makes a window of what is no longer open.
    fn end(&mut self, open: Open, number: i64, is_last_part: bool) {
        let part = if self.parts.0 == number { self.parts.1 } else { 0 };
        self.parts = if is_last_part { (number, 0) } else { (number, part + 1) };
        let from = self.resumed;
        // All windows that are still open have later records only, or these.
        let oldest = self.open.values().min_by_key(|open| open.first());
        let (offset, (open_from, time_max_ms)) = match oldest {
            Some(oldest) => (oldest.first(), oldest.before()),
            None => (self.next, (self.open_from, self.time_max_ms)),
        };
        self.resumed = offset;
        let position = Position {
            offset,
            epoch: self.begun.epoch,
            rule: Some(self.plan.rule),
            sent_below: number.saturating_add(i64::from(is_last_part)),
            parts: self.parts.1,
            closed_at: self.next,
            open_from,
            time_max_ms,
        };
        let span_ms = match self.plan.rule {
            Rule::Records(_) => None,
            Rule::Time { length_ms, .. } => Some(span_ms(number, length_ms)),
        };
        for (id, needed) in open.shares_needed() {
            let known = self.needed.get(&id).copied();
            self.needed.insert(id, followed(known, needed));
        }
        let draw = (&self.plan.sampling, &mut self.rng);
        let cut = open.cut(number, (part, is_last_part), span_ms, from, position, draw);
        self.closed.push_back(cut);
    }
}

/// The need of a group, after another window. Few records need a larger share, so those
/// of a much smaller window don't count, until some windows in a row are that small.
fn followed(known: Option<(u64, f64)>, (records, share): (u64, f64)) -> (u64, f64) {
    match known {
        Some((before, share)) if records < before / 2 => (before / 2, share),
        _ => (records, share),
    }
}

/// The number of the window of an event time.
fn index(time_ms: i64, length_ms: u64) -> i64 {
    time_ms.div_euclid(i64::try_from(length_ms).unwrap_or(i64::MAX).max(1))
}

fn span_ms(number: i64, length_ms: u64) -> (i64, i64) {
    let length_ms = i64::try_from(length_ms).unwrap_or(i64::MAX).max(1);
    let start_ms = number.saturating_mul(length_ms);
    (start_ms, start_ms.saturating_add(length_ms))
}

#[cfg(test)]
mod tests;
