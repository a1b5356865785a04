//! A path that has become narrower without a word: full packets vanish, shorter ones may pass.
//!
//! RFC 8899 §4.3's black hole, found from the data itself: either shorter packets arrive while full
//! ones, [`LOSSES_MIN`] in a row, don't; or nothing at all comes back for several timeouts. Then
//! messages are cut for the next narrower of the usual paths. Loss alone, however heavy, is no sign:
//! a starved lane loses nine packets of ten.

use super::{Sender, sent_packets::Transmission};

/// Message bytes that pass with IPv6 and UDP headers and ours: jumbo frames, Ethernet, IPv6's least
/// MTU, IPv4's.
const PLATEAUS: [u32; 4] = [8_900, 1_400, 1_200, 500];
const LOSSES_MIN: u32 = 48;
const SILENT_TIMEOUTS_MIN: u32 = 4;
const SILENT_TIMEOUTS_STEP: u32 = 2;
/// And for so long: first timeouts are short, a host that is busy may say nothing for some of them.
const SILENT_NS_MIN: u64 = 2_000_000_000;

/// What was seen since a long packet arrived last.
#[derive(Debug, Default)]
pub(crate) struct Path {
    /// Packets lost that could have been shorter, and the longest of them.
    lost: u32,
    longest_bytes: u32,
    shorter_arrived: bool,
    /// Timeouts in a row at which the packets were last made shorter.
    at_timeouts: u32,
}

impl Sender {
    /// The next cut that makes a packet of `bytes` shorter; `None` if none does.
    fn narrower(&self, bytes: u32) -> Option<u32> {
        let bytes = bytes.min(self.config.payload_bytes_max);
        PLATEAUS.into_iter().find(|&plateau| plateau < bytes)
    }

    /// Message bytes of a transmission, if its message is still cut that way.
    fn bytes_of(&self, transmission: &Transmission) -> Option<u32> {
        let message = self.ledger.message(self.current(transmission)?);
        let offset = transmission.index * message.payload_bytes;
        Some((message.len_bytes - offset).min(message.payload_bytes))
    }

    /// A packet arrived.
    pub(super) fn path_carried(&mut self, transmission: &Transmission) {
        if self.path.lost == 0 {
            return;
        }
        let Some(bytes) = self.bytes_of(transmission) else { return };
        if self.narrower(self.path.longest_bytes).is_some_and(|narrower| bytes > narrower) {
            self.path = Path::default();
        } else {
            self.path.shorter_arrived = true;
        }
    }

    /// A packet was lost.
    pub(super) fn path_lost(&mut self, transmission: &Transmission) {
        let Some(bytes) = self.bytes_of(transmission) else { return };
        if self.narrower(bytes).is_some() {
            self.path.lost += 1;
            self.path.longest_bytes = self.path.longest_bytes.max(bytes);
        }
    }

    /// Cuts shorter packets if the path seems to have become narrower.
    pub(super) fn narrow_if_black_hole(&mut self, now_ns: u64) {
        let timeouts = self.losses.unanswered();
        self.path.at_timeouts = self.path.at_timeouts.min(timeouts);
        let patience = match self.path.at_timeouts {
            0 => SILENT_TIMEOUTS_MIN,
            at => at + SILENT_TIMEOUTS_STEP,
        };
        let selective = self.path.lost >= LOSSES_MIN && self.path.shorter_arrived;
        let silent = self.path.lost > 0
            && timeouts >= patience
            && self.losses.silent_for_ns(now_ns) >= SILENT_NS_MIN;
        let narrower = self.narrower(self.path.longest_bytes);
        if let Some(bytes) = narrower.filter(|_| selective || silent) {
            self.path = Path { at_timeouts: timeouts, ..Path::default() };
            self.set_payload_bytes(now_ns, bytes);
        }
    }
}
