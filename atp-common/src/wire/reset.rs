//! RESET: a refusal. The reason stands in the header's epoch field, so that the packet is a bare
//! header.

/// Why a receiver refuses a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ResetReason {
    /// The receiver does not take this job.
    NotWanted = 1,
    /// The receiver has no room for another job or message.
    NoRoom = 2,
    /// A message is larger than the receiver takes.
    TooLarge = 3,
    /// The packets of one message contradict each other.
    Inconsistent = 4,
    /// The receiving application went away.
    Gone = 5,
}

impl ResetReason {
    /// From the wire; `None` for a reason that isn't known.
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

    /// A sentence for a person.
    pub const fn explain(self) -> &'static str {
        match self {
            Self::NotWanted => "the receiver does not take this job",
            Self::NoRoom => "the receiver has no room for another job",
            Self::TooLarge => "a message is larger than the receiver takes",
            Self::Inconsistent => "the packets of one message contradict each other",
            Self::Gone => "the receiving application went away",
        }
    }
}
