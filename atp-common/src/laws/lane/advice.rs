//! A lane with and without advice: what the first advice changes, and the gaps between packets.

use super::{Lane, Settings};
use crate::{
    laws::{advice::uneven_bytes, lane::EPOCHS},
    units::Rate,
    wire::Advice,
};

/// Advised lanes from this share of Rmax on have even gaps: few of them fit a port.
const EVEN_GAPS_SHARE: u64 = 8;

/// No advice was received yet.
pub(super) const NEVER: u8 = 0;
/// Advice was received, and epochs from before it remain to be evaluated.
const FIRST: u8 = 1;
/// All epochs from before the first advice are evaluated.
const KNOWN: u8 = 2;

impl Lane {
    /// Takes in the advice to this lane from the flow's newest receipt, which came at
    /// `received_ns`.
    ///
    /// Until the first advice, all lanes of a port send at Rmax, and what they lose says nothing of
    /// their shares. So the first advice lifts the law's rate to it, but for exact and polite
    /// lanes. Later advice doesn't: a receiver could overrule the law again and again.
    pub const fn advise(&mut self, advice: Advice, received_ns: u64) {
        self.advice.receive(advice, received_ns);
        let is_first = self.advice.is_advised() && self.received_advice == NEVER;
        if is_first && !self.settings.exact.is_true() && !self.is_polite() {
            self.received_advice = FIRST;
            self.advised_from = self.epoch.wrapping_add(1);
            let advised = self.advice.limited(Rate::MAX, self.settings.rate_max, self.advice_floor);
            if advised.bytes_per_s() > self.rate.bytes_per_s() {
                self.rate = advised;
            }
        }
    }

    /// Whether the gaps between packets are uneven. Otherwise lanes at the same rate stay in step:
    /// many advised ones meet in a short queue again and again, and a full queue has room for
    /// packets of the same lane each time. An exact lane's rate is its own law's.
    pub const fn has_uneven_gaps(&self) -> bool {
        if self.lacks_advice() {
            return true;
        }
        self.is_advised()
            && !self.settings.exact.is_true()
            && self.rate().bytes_per_s() < self.settings.rate_max.bytes_per_s() / EVEN_GAPS_SHARE
    }

    /// Whether the lane is approximate, queues are deep, and nobody advises it. A deep queue stays
    /// full then. The lanes of a queue above it take the whole line, so the first lanes to climb
    /// would starve the others.
    pub(super) const fn lacks_advice(&self) -> bool {
        let Settings { exact, deep_queues, .. } = self.settings;
        deep_queues.is_true() && !exact.is_true() && !self.is_advised()
    }

    /// The bytes that a packet counts for in the lane's pacing. Packets of one lane have different
    /// `number`s.
    pub const fn paced_bytes(&self, bytes: u32, number: u32) -> u32 {
        if self.has_uneven_gaps() { uneven_bytes(bytes, number) } else { bytes }
    }

    /// Whether packets of this epoch, which is evaluated now, left before the first advice.
    pub(super) const fn is_before_advice(&mut self, epoch: u16) -> bool {
        if self.received_advice != FIRST {
            return false;
        }
        let before = self.advised_from.wrapping_sub(epoch) as usize;
        if before == 0 || before > EPOCHS {
            self.received_advice = KNOWN;
            return false;
        }
        true
    }

    /// Whether the lane has advice that is still valid.
    pub const fn is_advised(&self) -> bool {
        self.advice.is_advised()
    }

    /// The advice, bytes per second on the wire; 0 for none.
    pub const fn advice_bytes_per_s(&self) -> u64 {
        self.advice.bytes_per_s()
    }
}
