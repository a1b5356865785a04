//! The progress of a running job.

/// The progress of a running job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Messages accepted by [`Job::send`](crate::Job::send), of all groups and windows.
    pub messages: u64,
    /// Messages known to be delivered, of all groups of the current window.
    pub delivered: u32,
    /// The sum of the lanes' rates, bytes per second.
    pub rate_bytes_per_s: u64,
    /// DATA packets sent, retransmissions included.
    pub packets_sent: u64,
    /// The job, or the current window, needs no more messages: further ones are dropped.
    pub complete: bool,
}
