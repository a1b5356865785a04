//! RESET: the receiver rejects a job. The reason is in the header's epoch field, so the packet is
//! only a header.

/// The reason for which a receiver rejects a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ResetReason {
    /// The receiver does not accept this job.
    NotWanted = 1,
    /// The receiver has no room for another job or message.
    NoRoom = 2,
    /// A message is larger than the receiver accepts.
    TooLarge = 3,
    /// The packets of one message contradict each other.
    Inconsistent = 4,
    /// The receiving application went away.
    Gone = 5,
}

impl ResetReason {
    /// The reason of a number; `None` for an unknown number.
    pub const fn from_wire(value: u16) -> Option<Self> {
        Some(match value {
            1 => Self::NotWanted,
            2 => Self::NoRoom,
            3 => Self::TooLarge,
            4 => Self::Inconsistent,
            5 => Self::Gone,
            _ => return None,
        })
    }

    /// The reason as a clause of an error message.
    pub const fn explain(self) -> &'static str {
        match self {
            Self::NotWanted => "the receiver does not accept this job",
            Self::NoRoom => "the receiver has no room for another job",
            Self::TooLarge => "a message is larger than the receiver accepts",
            Self::Inconsistent => "the packets of one message contradict each other",
            Self::Gone => "the receiving application went away",
        }
    }
}
