//! Asks the sender for other sampling rates, or for the end of the job.
//!
//! A REQUEST is repeated until TERMS answer it. It holds all that is unanswered, so that a lost or
//! late one does no harm.

use super::Receiver;
use atp_common::{
    units::Msr,
    wire::{
        Fields, HEADER_LEN, Header, Kind, REQUEST_GROUP_LEN, REQUEST_GROUPS_MAX, REQUEST_LEN_MIN,
        RequestBody,
    },
};
use std::collections::BTreeMap;

/// The first interval of repetition, which doubles.
const INTERVAL_NS_MIN: u64 = 10_000_000;
/// The shortest time between two REQUESTs.
const CHANGE_NS: u64 = 1_000_000;
/// The longest interval of repetition.
const INTERVAL_NS_MAX: u64 = 1_000_000_000;

/// The unanswered requests of the application.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The asked rates, by group, with the time field of the last REQUEST that held them.
    rates: BTreeMap<u8, (Msr, Option<u32>)>,
    end: bool,
    /// The time field of the last REQUEST.
    time: Option<u32>,
    /// Something was asked since that REQUEST.
    is_changed: bool,
    /// When the next REQUEST may leave.
    earliest_ns: u64,
    due_ns: u64,
    interval_ns: u64,
}

impl Requests {
    fn change(&mut self, now_ns: u64) {
        self.is_changed = true;
        self.hurry(now_ns);
    }

    /// Makes a REQUEST due, as soon as the last one allows.
    fn hurry(&mut self, now_ns: u64) {
        (self.due_ns, self.interval_ns) = (now_ns.max(self.earliest_ns), 0);
    }

    /// Bytes of the next REQUEST.
    fn bytes(&self) -> u64 {
        let groups = self.rates.len().min(REQUEST_GROUPS_MAX);
        (HEADER_LEN + REQUEST_LEN_MIN + groups * REQUEST_GROUP_LEN) as u64
    }

    fn is_empty(&self) -> bool {
        self.rates.is_empty() && !self.end
    }

    /// Takes in the time field of the latest REQUEST that the sender has handled, 0 for none. An
    /// asked end that it refused is answered as well.
    pub(crate) fn on_answer(&mut self, now_ns: u64, answered: u32) {
        if answered == 0 {
            return;
        }
        // The times of another process, or of another host, go on here.
        let last = *self.time.get_or_insert(answered);
        let is_at_most_last = last.wrapping_sub(answered) as i32 >= 0;
        let is_answered = |time: u32| is_at_most_last && answered.wrapping_sub(time) as i32 >= 0;
        self.rates.retain(|_, (_, time)| !time.is_some_and(is_answered));
        if !self.is_changed && self.time.is_some_and(is_answered) {
            self.end = false;
            // The groups that the last REQUEST had no room for are due.
            self.is_changed = !self.rates.is_empty();
            self.hurry(now_ns);
        }
    }
}

impl Requests {
    /// Repeats a pending REQUEST soon: the sender has just told its terms.
    pub(crate) fn on_terms(&mut self, now_ns: u64) {
        if !self.is_empty() {
            let interval_ns = self.interval_ns;
            self.hurry(now_ns);
            self.interval_ns = interval_ns;
        }
    }
}

impl Receiver {
    /// Asks the sender to set the sampling rate of `group`. A later call for the same group
    /// replaces this one. The terms say what the sender has set.
    pub fn request_msr(&mut self, now_ns: u64, group: u8, msr: Msr) {
        let pending = self.requests.rates.get(&group);
        if pending.is_none_or(|(pending, _)| *pending != msr) {
            self.requests.rates.insert(group, (msr, None));
            self.requests.change(now_ns);
        }
    }

    /// Asks the sender to end the job with the messages delivered so far.
    pub fn request_end(&mut self, now_ns: u64) {
        if !std::mem::replace(&mut self.requests.end, true) {
            self.requests.change(now_ns);
        }
    }

    /// When the next REQUEST is due. Only senders that have told their terms take any.
    pub(super) fn request_due_ns(&self) -> Option<u64> {
        let is_due = !self.requests.is_empty()
            && self.terms.takes_requests()
            && !self.is_finished()
            && self.credit_bytes >= self.requests.bytes();
        is_due.then_some(self.requests.due_ns)
    }

    /// Whether a REQUEST is due now.
    pub fn request_due(&self, now_ns: u64) -> bool {
        self.request_due_ns().is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// Writes a REQUEST, header and body, into `out` and returns its length: at most 516 bytes. The
    /// length is 0 if `out` is too short, or if three times the received bytes were sent already.
    /// A repetition always has the same groups: the sender takes one copy only.
    pub fn write_request(&mut self, now_ns: u64, out: &mut [u8]) -> usize {
        let requests = &mut self.requests;
        let room = out.len().min(self.credit_bytes as usize);
        let Some((head, body)) = out[..room].split_at_mut_checked(HEADER_LEN) else { return 0 };
        let rates = requests.rates.iter().take(REQUEST_GROUPS_MAX);
        let rates: Vec<_> = rates.map(|(group, (msr, _))| (*group, *msr)).collect();
        let Some(body_len) = RequestBody::write(body, requests.end, rates.iter().copied()) else {
            return 0;
        };
        let now = Header::time_of(now_ns);
        let time = match requests.time {
            Some(last) if !requests.is_changed => last,
            // Later than the last, also where the clock's unit is too coarse to tell.
            Some(last) if now.wrapping_sub(last) as i32 <= 0 => last.wrapping_add(1),
            _ => now,
        };
        let time = time.max(1);
        (requests.time, requests.is_changed) = (Some(time), false);
        for (group, _) in &rates {
            if let Some((_, asked)) = requests.rates.get_mut(group) {
                *asked = Some(time);
            }
        }
        requests.interval_ns = (2 * requests.interval_ns).clamp(INTERVAL_NS_MIN, INTERVAL_NS_MAX);
        requests.earliest_ns = now_ns + CHANGE_NS;
        requests.due_ns = now_ns + requests.interval_ns;
        let header = Header::new(&Fields {
            group: rates.first().map_or(0, |(group, _)| *group),
            job: self.job,
            cookie: self.cookie,
            slot: self.slot,
            time,
            ..Fields::of(Kind::Request)
        });
        head.copy_from_slice(header.as_bytes());
        self.credit_bytes -= (HEADER_LEN + body_len) as u64;
        HEADER_LEN + body_len
    }
}
