//! Map types that the program and the tests share. The testbed includes this file by its path,
//! because this crate is compiled for another target.

/// The mark of a packet that was processed before. The program removes the mark and lets it pass.
pub const PASS_MARK: u32 = 0x0fa1_7ed0;

/// The faults of the UDP packets that leave an interface. Probabilities are parts per million.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Loss probability after a packet that was not lost.
    pub loss: u32,
    /// Loss probability after a lost packet; equal to `loss` for independent losses.
    pub loss_after_loss: u32,
    /// Probability of duplication.
    pub duplicate: u32,
    /// Probability of a flipped bit in the UDP payload. The checksum is not updated.
    pub corrupt: u32,
    /// Probability of leaving by the interface of `detour_ifindex` instead.
    pub detour: u32,
    /// Index of the interface for `detour`.
    pub detour_ifindex: u32,
    /// The greatest length of an IP packet that is not dropped, bytes; 0 for no limit.
    pub longest: u32,
    /// The DSCP that is set to 0; 0 for none.
    pub cleared_dscp: u32,
}

const _: () = assert!(size_of::<Settings>() == 32);

/// Indexes of the counters.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// UDP packets that came to the program without the mark.
    Seen = 0,
    /// Lost at random.
    Lost = 1,
    /// Sent twice.
    Duplicated = 2,
    /// With a bit flipped.
    Corrupted = 3,
    /// Redirected to the detour.
    Detoured = 4,
    /// Dropped because of their length.
    TooLong = 5,
    /// With their DSCP set to 0.
    Cleared = 6,
}

impl Count {
    /// The number of counters.
    pub const COUNT: u32 = 7;
}
