//! The counters of an endpoint.

use crate::DropReason;
use atp_common::wire::ResetReason;
use serde::{Deserialize, Serialize};

/// Counters of all senders at one port, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// DATA packets of accepted jobs, duplicates included.
    pub packets_received: u64,
    /// Bytes behind their headers: message bytes, and the members' headers in packed packets.
    pub bytes: u64,
    /// ACKs sent by this process; none while the daemon's programs acknowledge.
    pub acks_sent: u64,
    /// Packets refused: malformed, of unwanted jobs, too large, contradictory, or beyond a limit.
    pub refused: u64,
    /// Packets refused, by reason.
    #[serde(default)]
    pub refusals: Refusals,
    /// Packets that mean nothing any more, or not yet: of jobs and windows that have ended, with
    /// parts of an earlier length, or terms and probes of a sender without a message.
    #[serde(default)]
    pub ignored: u64,
    /// Complete messages.
    pub messages: u64,
    /// Senders (address, job and run) known now.
    pub sources: u32,
    /// Silent senders that were evicted before their job's end, to make room for others.
    pub evicted: u64,
    /// Memory of incomplete and waiting messages, records and terms of all senders now, bytes.
    /// At most [`Admission::memory_bytes_max`](super::Admission::memory_bytes_max).
    pub memory_bytes: u64,
}

/// Packets that a receiver has refused, by reason. [`Stats::refused`] is their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// Packets that aren't ATP's, are damaged, or contradict earlier packets of their message.
    pub malformed: u64,
    /// Packets of jobs or addresses that the receiver doesn't admit, or for a receiver that is
    /// leaving.
    pub unwanted: u64,
    /// Packets of messages that are longer, or of jobs that have more messages, than the receiver
    /// accepts.
    pub too_large: u64,
    /// Packets beyond the limits of senders and memory. Their senders try again later.
    pub no_room: u64,
    /// Packets of senders that the receiver has forgotten, because they were silent for too long.
    pub forgotten: u64,
}

impl Stats {
    /// Counts a packet that was answered with a RESET.
    pub(super) fn note_reset(&mut self, reason: ResetReason) {
        let Refusals { malformed, unwanted, too_large, no_room, forgotten } = &mut self.refusals;
        *match reason {
            ResetReason::Inconsistent => malformed,
            ResetReason::NotWanted | ResetReason::Gone => unwanted,
            ResetReason::TooLarge | ResetReason::TooMany => too_large,
            ResetReason::NoRoom => no_room,
            ResetReason::Forgotten => forgotten,
        } += 1;
        self.refused += 1;
    }

    /// Counts a packet whose payload was dropped.
    pub(super) fn note_drop(&mut self, reason: DropReason) {
        match reason {
            DropReason::Foreign | DropReason::Contradiction | DropReason::Malformed => {
                self.note_malformed();
            }
            DropReason::NoRoom => self.note_reset(ResetReason::NoRoom),
            DropReason::Stale | DropReason::Ended | DropReason::UnknownWindow => self.ignored += 1,
        }
    }

    /// Counts a packet that gets no answer.
    pub(super) fn note_malformed(&mut self) {
        self.refusals.malformed += 1;
        self.refused += 1;
    }
}
