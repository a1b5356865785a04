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

use super::{config::SenderConfig, ledger::MessageState, report::Report, window::Window};

const WAIT_TIMEOUTS: u64 = 16;
const WAIT_NS_MIN: u64 = 100_000_000;
/// The application counts as stuck only after this many probes, as a peer counts as silent only
/// after as many timeouts.
const PROBES_MIN: u32 = 3;

/// The receiving application has read nothing for this long, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stuck(pub(crate) u64);

impl Window {
    /// Notes that the peer's library has read up to `slot`, and has `delivered` messages in all. If
    /// receipts named all of them, a complete message sent before `slot` and without a receipt is
    /// missing for certain. Messages that an earlier process had too are counted twice here, and
    /// nothing is certain then. `next_slot`: that of the next packet.
    pub(super) fn on_slot_read(
        &mut self,
        slot: u32,
        delivered: u32,
        next_slot: u32,
        config: &SenderConfig,
        counters: &mut Report,
    ) {
        let was_sent = (slot.wrapping_sub(next_slot) as i32) < 0;
        let named = self.delivered - self.named_before;
        if delivered == named && was_sent {
            self.awaiting_receipt.set_known_slot(slot);
            self.retransmit_missing(config, counters);
        }
    }

    /// Retransmits the messages that certainly never reached the application.
    fn retransmit_missing(&mut self, config: &SenderConfig, counters: &mut Report) {
        if self.ending.is_settled() {
            return;
        }
        let Some(known_slot) = self.awaiting_receipt.known_slot else { return };
        // The list is in the order of `acked_slot`.
        while let Some(key) = self.awaiting_receipt.first() {
            let acked_slot = self.ledger.message(key).acked_slot;
            if (known_slot.wrapping_sub(acked_slot) as i32) < 0 {
                return;
            }
            self.retransmit(key, config, counters);
        }
    }

    /// Retransmits one message as a probe, if it has waited for too long.
    pub(super) fn probe_for_receipt(
        &mut self,
        now_ns: u64,
        base_timeout_ns: u64,
        config: &SenderConfig,
        counters: &mut Report,
    ) -> Result<(), Stuck> {
        if self.receipt_timeout_ns(base_timeout_ns).is_none_or(|at_ns| at_ns > now_ns) {
            return Ok(());
        }
        let awaiting = &mut self.awaiting_receipt;
        let silence_ns = now_ns.saturating_sub(awaiting.since_ns);
        if awaiting.probes >= PROBES_MIN && silence_ns >= config.receipt_timeout_ns {
            return Err(Stuck(silence_ns));
        }
        if let Some(key) = self.next_probe() {
            let message = self.ledger.message(key);
            let awaiting = &mut self.awaiting_receipt;
            awaiting.probes = awaiting.probes.saturating_add(1);
            awaiting.probed_ns = now_ns;
            awaiting.probed = Some((message.group, message.id.id));
            self.retransmit(key, config, counters);
        }
        Ok(())
    }

    /// When the next probe is due. `base_timeout_ns`: the timeout of the slowest lane.
    pub(super) fn receipt_timeout_ns(&self, base_timeout_ns: u64) -> Option<u64> {
        if self.is_over() || self.ending.is_settled() {
            return None;
        }
        let message = self.ledger.message(self.next_probe()?);
        let wait_ns = (WAIT_TIMEOUTS * base_timeout_ns).max(WAIT_NS_MIN);
        let wait_ns = wait_ns << self.awaiting_receipt.probes.min(5);
        let since_ns = message.acked_ns.max(self.awaiting_receipt.probed_ns);
        Some(since_ns.saturating_add(wait_ns))
    }

    /// Begins a new attempt at a message: acknowledgments of earlier ones no longer count.
    fn retransmit(&mut self, key: u32, config: &SenderConfig, counters: &mut Report) {
        let message = self.ledger.message_mut(key);
        debug_assert_eq!(message.state, MessageState::AwaitingReceipt);
        message.begin_attempt(config.payload_bytes_max);
        counters.messages_retransmitted += 1;
        self.update(key, None);
    }

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
