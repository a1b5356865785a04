use crate::laws::lane::Lane;
use bytemuck::{Pod, Zeroable};

/// A lane's controller, where the programs run it themselves (`--epochs kernel`). The daemon writes it
/// once, when the lane opens; then it only tells the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneLaw {
    /// Who works on it: [`LaneLaw::FREE`], or somebody, whom nobody waits for.
    pub holder: u64,
    /// The controller.
    pub lane: Lane,
    /// When it ran last, nanoseconds of CLOCK_MONOTONIC.
    pub ran_ns: u64,
    /// How often.
    pub runs: u64,
    /// The target loss rate, Q16: written by the daemon (NetApprox §4.2, Eq. 1).
    pub tlr_q16: u32,
    /// Zero.
    pub reserved: u32,
    /// What the switches know each queue by.
    pub dscp_by_queue: [u8; 8],
}

const _: () = assert!(size_of::<LaneLaw>() == size_of::<Lane>() + 40);

impl LaneLaw {
    /// Nobody works on it.
    pub const FREE: u64 = 0;
    /// A program does.
    pub const PROGRAM: u64 = 1;
    /// The daemon does: it opens or closes the lane.
    pub const DAEMON: u64 = 2;
    /// Two runs are this far apart at least, so that a lane whose next step waits for something else
    /// doesn't try it with every packet.
    pub const INTERVAL_NS_MIN: u64 = 2_000;
}
