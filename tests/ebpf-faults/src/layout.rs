//! What the program and the tests share. The tests include this file as it is, for their crate is
//! compiled for another target.

/// A packet with this mark has met its fate already: it passes, and loses the mark.
pub const PASS_MARK: u32 = 0x0fa1_7ed0;

/// What is done to the UDP packets that leave an interface. Chances are parts per million.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Chance to be lost, for a packet whose predecessor wasn't.
    pub loss: u32,
    /// Chance to be lost, for a packet whose predecessor was; equal to `loss` for losses that have
    /// nothing to do with each other.
    pub loss_after_loss: u32,
    /// Chance to be sent twice.
    pub duplicate: u32,
    /// Chance to have one bit of the UDP payload flipped, the checksum left as it was.
    pub corrupt: u32,
    /// Chance to leave by the interface of `detour_ifindex` instead.
    pub detour: u32,
    /// See `detour`.
    pub detour_ifindex: u32,
    /// IP packets longer than this vanish; 0 for no limit. Bytes.
    pub longest: u32,
}

const _: () = assert!(size_of::<Settings>() == 28);

/// What was done, counted.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// UDP packets that came to the program, but for those marked.
    Seen = 0,
    /// Lost by chance.
    Lost = 1,
    /// Sent twice.
    Duplicated = 2,
    /// With a bit flipped.
    Corrupted = 3,
    /// Sent by the detour.
    Detoured = 4,
    /// Lost for their length.
    TooLong = 5,
}

impl Count {
    /// How many there are.
    pub const COUNT: u32 = 6;
}
