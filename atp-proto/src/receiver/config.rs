//! Limits and timers of a receiver.

use crate::sender::MESSAGES_MAX;

/// The configuration of a [`Receiver`](super::Receiver).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// The longest message that is accepted. Default 64 MiB.
    pub message_bytes_max: u32,
    /// The most bytes of all incomplete messages. A value below the longest message plus 4 MiB is
    /// raised to that sum. Default 128 MiB.
    pub incomplete_bytes_max: u64,
    /// The greatest number of incomplete messages. Default 65,536.
    pub incomplete_messages_max: u32,
    /// A newer message may replace an incomplete message that got no packet for this long. The
    /// limit is raised to the longer of two times:
    ///
    /// - eight times as long as the message's packets took so far, but at most ten seconds;
    /// - the time in which four receipts could have been sent.
    ///
    /// Default 100 ms.
    pub incomplete_idle_ns: u64,
    /// The greatest number of message ids of one job (one bit each). Default 2^24.
    pub messages_max: u32,
    /// A receipt is due after this many complete messages. Default 256.
    pub receipt_messages: u32,
    /// A receipt is due this long after the first complete message that no receipt has named.
    /// Default 2 ms.
    pub receipt_delay_ns: u64,
    /// The caller gives advice ([`Receiver::set_advice`](super::Receiver::set_advice)), so receipts
    /// announce it. Default off.
    pub gives_advice: bool,
    /// The end of a window that others follow is stated only once the application has confirmed the
    /// window ([`Receiver::confirm_window`](super::Receiver::confirm_window)). Default off.
    pub confirms_windows: bool,
    /// A finished job is kept for this long to answer repeated FINs. Default 5 s.
    pub linger_ns: u64,
    /// A job is abandoned after this long without a packet of its sender. Default one hour: an
    /// application may compute for a long time between two messages.
    pub silence_ns: u64,
}

impl ReceiverConfig {
    /// The least budget in whose part for messages the longest message fits while another address
    /// holds as much.
    pub const fn budget_bytes_min(&self) -> u64 {
        3 * self.longest_cost_bytes()
    }

    /// The most memory that one incomplete message can need, for any length of its packets.
    pub(crate) const fn longest_cost_bytes(&self) -> u64 {
        self.message_bytes_max as u64 + (1 << 22)
    }
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            message_bytes_max: 64 << 20,
            incomplete_bytes_max: 128 << 20,
            incomplete_messages_max: 65_536,
            incomplete_idle_ns: 100_000_000,
            messages_max: MESSAGES_MAX,
            receipt_messages: 256,
            receipt_delay_ns: 2_000_000,
            gives_advice: false,
            confirms_windows: false,
            linger_ns: 5_000_000_000,
            silence_ns: 3_600_000_000_000,
        }
    }
}
