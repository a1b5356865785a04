use crate::laws::lane::Lane;
use bytemuck::{Pod, Zeroable};

/// A lane's controller, if the eBPF programs run it (`--epochs kernel`). The daemon writes it once,
/// when the lane opens. From then on it writes only the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneLaw {
    /// A lock that is only tried, never waited for: [`LaneLaw::FREE`], [`LaneLaw::PROGRAM`] or
    /// [`LaneLaw::DAEMON`].
    pub holder: u64,
    /// The controller.
    pub lane: Lane,
    /// When it ran last, nanoseconds of CLOCK_MONOTONIC.
    pub ran_ns: u64,
    /// How often it ran.
    pub runs: u64,
    /// The target loss rate, Q16: written by the daemon (NetApprox §4.2, Eq. 1).
    pub tlr_q16: u32,
    /// The newest advice, as in [`ReceivedAdvice`](super::ReceivedAdvice): written by the daemon.
    pub advice: u32,
    /// When the advice was received; written by the daemon.
    pub received_ns: u64,
    /// The share of ACKs that the network loses, Q16: written by the daemon.
    pub acks_lost_q16: u32,
    /// Zero.
    pub reserved: u32,
    /// The DSCP of each queue at the switches; written by the daemon.
    pub dscp_by_queue: [u8; 8],
}

const _: () = assert!(size_of::<LaneLaw>() == size_of::<Lane>() + 56);

impl LaneLaw {
    /// The lock is not held.
    pub const FREE: u64 = 0;
    /// A program holds the lock.
    pub const PROGRAM: u64 = 1;
    /// The daemon holds the lock, while it opens or closes the lane.
    pub const DAEMON: u64 = 2;
}
