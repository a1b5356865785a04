//! Limits and timers of a receiver.

use crate::sender::MESSAGES_MAX;

/// The configuration of a [`Receiver`](super::Receiver).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// The longest message that is taken. Default 64 MiB.
    pub message_bytes_max: u32,
    /// Bytes of messages that are not whole yet, all together; never less than the longest message
    /// and 4 MiB. Default 128 MiB.
    pub incomplete_bytes_max: u64,
    /// Messages that are not whole yet. Default 65,536.
    pub incomplete_messages_max: u32,
    /// A message that is not whole may be dropped for a newer one when it got no packet for this long,
    /// nor for eight times as long as those that came took (ten seconds at most), nor while four receipts
    /// could have gone out.
    /// Default 100 ms.
    pub incomplete_idle_ns: u64,
    /// Message ids of one job (one bit each). Default 2^24.
    pub messages_max: u32,
    /// A receipt goes out at the latest after this many whole messages. Default 256.
    pub receipt_messages: u32,
    /// A receipt goes out at the latest this long after the first whole message that none has
    /// named. Default 2 ms.
    pub receipt_delay_ns: u64,
    /// How long a finished job is kept to answer repeated FINs. Default 5 s.
    pub linger_ns: u64,
    /// After this long without a packet of its sender a job is called abandoned. Default one hour: an
    /// application may compute for long between two messages, and to forget it sooner saves nothing
    /// that nobody else asks for.
    pub silence_ns: u64,
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
            linger_ns: 5_000_000_000,
            silence_ns: 3_600_000_000_000,
        }
    }
}
