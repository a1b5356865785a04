//! Retransmits messages that reached the peer's host, but never its application.
//!
//! The kernel acknowledges a packet before the socket's receive buffer is checked. An acknowledged
//! message may therefore be lost in the host. It is retransmitted in two cases:
//!
//! *It is certainly missing.* Every receipt counts all complete messages. Its slot field names the
//! latest DATA (or FIN) packet that the receiving library has read. A socket's buffer is first in,
//! first out. So a message is missing if both of these hold:
//! - The library has read a packet that was sent after the message was acknowledged in full.
//! - Receipts have named all complete messages, and not this one.
//!
//! *It has waited for too long* (receipts were lost, or nothing was sent afterwards). After
//! [`WAIT_TIMEOUTS`] timeouts, the message that has waited longest is retransmitted as a probe, at
//! growing intervals. The next receipt is the probe's answer. Until then no other message is
//! probed. At a receiver that reads little of each burst, probing all of them would begin every
//! message anew and complete none.

use super::{Sender, ledger::MessageState, report::SendError, window::Window};

const WAIT_TIMEOUTS: u64 = 16;
const WAIT_NS_MIN: u64 = 100_000_000;
/// The application counts as stuck only after this many probes, as a peer counts as silent only
/// after as many timeouts.
const PROBES_MIN: u32 = 3;

impl Sender {
    /// Retransmits the messages that certainly never reached the application.
    pub(super) fn retransmit_missing(&mut self, now_ns: u64) {
        if self.window.ending.is_settled() {
            return;
        }
        let Some(known_slot) = self.window.awaiting_receipt.known_slot else { return };
        // The list is in the order of `complete_slot`.
        while let Some(key) = self.window.awaiting_receipt.first() {
            let complete_slot = self.window.ledger.message(key).complete_slot;
            if (known_slot.wrapping_sub(complete_slot) as i32) < 0 {
                return;
            }
            self.retransmit(now_ns, key);
        }
    }

    /// Retransmits one message as a probe, if it has waited for too long.
    pub(super) fn probe_for_receipt(&mut self, now_ns: u64) {
        if self.receipt_timeout_ns(&self.window).is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        if self.has_ended() {
            return;
        }
        let silence_ns = now_ns.saturating_sub(self.window.awaiting_receipt.since_ns);
        let is_stuck = self.window.awaiting_receipt.probes >= PROBES_MIN
            && silence_ns >= self.config.receipt_timeout_ns;
        if is_stuck {
            let short = self.short();
            self.fail(SendError::NotReading { silence_ns, short });
        } else if let Some(key) = self.window.next_probe() {
            let message = self.window.ledger.message(key);
            let awaiting = &mut self.window.awaiting_receipt;
            awaiting.probes = awaiting.probes.saturating_add(1);
            awaiting.probed_ns = now_ns;
            awaiting.probed = Some((message.group, message.id.id));
            self.retransmit(now_ns, key);
        }
    }

    /// When the next probe of a window is due.
    pub(super) fn receipt_timeout_ns(&self, window: &Window) -> Option<u64> {
        if window.is_over() || window.ending.is_settled() {
            return None;
        }
        let message = window.ledger.message(window.next_probe()?);
        let wait_ns = (WAIT_TIMEOUTS * self.lanes.base_timeout_ns()).max(WAIT_NS_MIN);
        let wait_ns = wait_ns << window.awaiting_receipt.probes.min(5);
        let since_ns = message.complete_ns.max(window.awaiting_receipt.probed_ns);
        Some(since_ns.saturating_add(wait_ns))
    }

    /// Begins a new attempt at a message: acknowledgments of earlier ones no longer count.
    fn retransmit(&mut self, now_ns: u64, key: u32) {
        let message = self.window.ledger.message_mut(key);
        debug_assert_eq!(message.state, MessageState::AwaitingReceipt);
        message.begin_attempt(self.config.payload_bytes_max);
        self.report.messages_retransmitted += 1;
        self.update_message(now_ns, key, None);
    }
}

impl Window {
    /// The message to probe with: the last probe again while it has no receipt, or none while the
    /// last probe is in flight. If the last probe isn't retransmitted because its group has enough
    /// without it, the next probe is another message.
    fn next_probe(&self) -> Option<u32> {
        let first = self.awaiting_receipt.first()?;
        let last = self.awaiting_receipt.probed.and_then(|(group, id)| self.ledger.key(group, id));
        let Some(last) = last else { return Some(first) };
        let message = self.ledger.message(last);
        match message.state {
            MessageState::AwaitingReceipt => Some(last),
            _ if self.groups[usize::from(message.group)].has_enough() => Some(first),
            _ => None,
        }
    }
}
