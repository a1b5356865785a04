//! Leaving: tells the senders of unfinished jobs, and stays until those of ended jobs know.

use super::{Endpoint, Lanes, OPEN_WINDOWS_MAX};
use crate::{StatedEnd, reset_header};
use atp_common::wire::{HEADER_LEN, ResetReason};

/// The longest stay, for senders that repeat their FIN again and again.
const STAY_NS_MAX: u64 = 5_000_000_000;
/// The time between repeated answers. Losses come in bursts of packets, and these packets are few.
const REPEAT_NS: u64 = 100_000_000;

/// An endpoint's stay after it has begun to leave.
pub struct Leaving {
    started_ns: u64,
    linger_ns: u64,
    repeated_ns: u64,
}

impl<L: Lanes> Endpoint<L> {
    /// Begins to leave: tells the senders of unfinished jobs, and those of ended jobs once more.
    /// From now on only FINs of ended jobs are answered. Packets of a known unfinished job get a
    /// RESET, those of an unknown one nothing. `linger_ns`: how long to wait for a sender that may
    /// not know of its job's end. A second call does nothing.
    pub fn leave(&mut self, now_ns: u64, linger_ns: u64) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(Leaving { started_ns: now_ns, linger_ns, repeated_ns: now_ns });
        self.repeat_answers(now_ns);
        for source in self.sources.iter_mut().filter(|source| !source.transport.is_finished()) {
            let ends = source.ends();
            // One of each open window.
            for _ in 0..OPEN_WINDOWS_MAX {
                self.replies.control(ends, |out| source.transport.write_receipt(now_ns, out));
            }
        }
        // The receipts go first: as a bare header, a RESET would overtake them.
        for source in self.sources.iter().filter(|source| !source.transport.is_finished()) {
            let reset = reset_header(&source.first, ResetReason::Gone);
            self.replies.control(source.ends(), |out| {
                out[..HEADER_LEN].copy_from_slice(reset.as_bytes());
                HEADER_LEN
            });
        }
        // No process will repeat these.
        self.repeat_answers(now_ns);
    }

    /// Repeats the answers that are due after [`Self::leave`]. Returns when to call this again, and
    /// `None` once no sender needs this endpoint. Hand it the packets that arrive until then.
    pub fn handle_leave_timeout(&mut self, now_ns: u64) -> Option<u64> {
        let newest_ns = self.sources.newest_unknown_end_ns(now_ns);
        let leaving = self.leaving.as_mut()?;
        let stay_left_ns = STAY_NS_MAX.saturating_sub(now_ns - leaving.started_ns);
        let left_ns = leaving.linger_ns.saturating_sub(newest_ns?).min(stay_left_ns);
        if now_ns - leaving.repeated_ns >= REPEAT_NS {
            leaving.repeated_ns = now_ns;
            let linger_ns = leaving.linger_ns;
            self.repeat_affordable_answers(now_ns, linger_ns);
        }
        (left_ns > 0).then_some(now_ns + left_ns.min(REPEAT_NS))
    }

    /// Repeats the answers to the FINs of ended jobs whose senders may not know.
    fn repeat_answers(&mut self, now_ns: u64) {
        for source in self.sources.iter() {
            if source.transport.unknown_end_age_ns(now_ns).is_some()
                && let Some(end) = source.transport.stated_end()
            {
                self.replies.state_end(source.ends(), end);
            }
        }
        for (to, end) in self.sources.lingering_ends() {
            self.replies.state_end(to, end);
        }
    }

    /// As above, within the bytes that each sender's packets allow: its address may be another
    /// host's.
    fn repeat_affordable_answers(&mut self, now_ns: u64, linger_ns: u64) {
        for source in self.sources.iter_mut() {
            let age_ns = source.transport.unknown_end_age_ns(now_ns);
            let bytes = source.transport.stated_end().map_or(0, StatedEnd::bytes);
            if age_ns.is_some_and(|age_ns| age_ns < linger_ns)
                && source.transport.spend(bytes)
                && let Some(end) = source.transport.stated_end()
            {
                self.replies.state_end(source.ends(), end);
            }
        }
    }
}
