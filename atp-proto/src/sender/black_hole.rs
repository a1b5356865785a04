//! Detects that the path has become narrower: full packets vanish, shorter ones may pass.
//!
//! This is the black hole of RFC 8899 §4.3, detected from the data itself. There are two signs:
//!
//! - shorter packets arrive, while [`LOSSES_MIN`] full ones in a row are lost;
//! - nothing at all comes back for several timeouts.
//!
//! Messages are then segmented for the next narrower of the usual paths. Even heavy loss alone is
//! no sign: a starved lane loses nine packets of ten.

use super::config::PAYLOAD_BYTES_MAX;

/// Message bytes that fit behind the IP, UDP and ATP headers: on jumbo frames, on Ethernet, at
/// IPv6's minimum MTU, and at an MTU of 576 bytes (IPv4).
const PLATEAUS: [u32; 4] = [PAYLOAD_BYTES_MAX, 1_400, 1_200, 500];
const LOSSES_MIN: u32 = 48;
const SILENT_TIMEOUTS_MIN: u32 = 4;
const SILENT_TIMEOUTS_STEP: u32 = 2;
/// A busy host may be silent for several timeouts, because the first timeouts are short.
const SILENT_NS_MIN: u64 = 2_000_000_000;

/// Losses and arrivals since the last long packet arrived.
#[derive(Debug, Default)]
pub(crate) struct BlackHoleDetector {
    /// Lost packets that could have been shorter.
    lost: u32,
    /// The longest of them.
    longest_bytes: u32,
    shorter_arrived: bool,
    /// Timeouts in a row when the packets were last made shorter.
    narrowed_at_timeouts: u32,
}

impl BlackHoleDetector {
    /// Whether an arrival can change anything.
    pub(crate) fn has_losses(&self) -> bool {
        self.lost > 0
    }

    /// Takes in the arrival of a packet of `bytes`, where packets have at most `bytes_max`.
    pub(crate) fn on_ack(&mut self, bytes: u32, bytes_max: u32) {
        if narrower(self.longest_bytes, bytes_max).is_some_and(|narrower| bytes > narrower) {
            *self = Self::default();
        } else {
            self.shorter_arrived = true;
        }
    }

    /// Takes in the loss of a packet of `bytes`.
    pub(crate) fn on_loss(&mut self, bytes: u32, bytes_max: u32) {
        if narrower(bytes, bytes_max).is_some() {
            self.lost += 1;
            self.longest_bytes = self.longest_bytes.max(bytes);
        }
    }

    /// The payload to use from now on, if the path seems to have become narrower. `timeouts` in a
    /// row and `silent_ns` describe the peer's silence.
    pub(crate) fn evaluate(
        &mut self,
        timeouts: u32,
        silent_ns: u64,
        bytes_max: u32,
    ) -> Option<u32> {
        self.narrowed_at_timeouts = self.narrowed_at_timeouts.min(timeouts);
        let timeouts_min = match self.narrowed_at_timeouts {
            0 => SILENT_TIMEOUTS_MIN,
            before => before + SILENT_TIMEOUTS_STEP,
        };
        let selective = self.lost >= LOSSES_MIN && self.shorter_arrived;
        let silent = self.lost > 0 && timeouts >= timeouts_min && silent_ns >= SILENT_NS_MIN;
        let bytes = narrower(self.longest_bytes, bytes_max).filter(|_| selective || silent)?;
        *self = Self { narrowed_at_timeouts: timeouts, ..Self::default() };
        Some(bytes)
    }
}

/// The next plateau that makes a packet of `bytes` shorter.
fn narrower(bytes: u32, bytes_max: u32) -> Option<u32> {
    let bytes = bytes.min(bytes_max);
    // From 1,440 to 1,400 would not help on a path through a tunnel.
    PLATEAUS.into_iter().find(|&plateau| plateau < bytes - bytes / 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluate__needs_losses_of_full_packets_beside_shorter_arrivals() {
        let mut detector = BlackHoleDetector::default();
        (1..LOSSES_MIN).for_each(|_| detector.on_loss(1_400, 1_400));
        detector.on_ack(1_000, 1_400);
        assert_eq!(detector.evaluate(0, 0, 1_400), None);
        detector.on_loss(1_400, 1_400);
        assert_eq!(detector.evaluate(0, 0, 1_400), Some(1_200));
        assert!(!detector.has_losses());
    }

    #[test]
    fn on_ack__of_a_full_packet_forgets_the_losses() {
        let mut detector = BlackHoleDetector::default();
        (0..LOSSES_MIN).for_each(|_| detector.on_loss(1_400, 1_400));
        detector.on_ack(1_400, 1_400);
        assert_eq!(detector.evaluate(8, 2 * SILENT_NS_MIN, 1_400), None);
    }
}
