//! RESET: the receiver rejects a job, or has no room for it at present. The reason is in the
//! header's epoch field, so the packet is only a header.

/// The reason for which a receiver rejects a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ResetReason {
    /// The receiver does not accept this job.
    NotWanted = 1,
    /// The receiver has no room at present. The sender tries again later.
    NoRoom = 2,
    /// A message is larger than the receiver accepts.
    TooLarge = 3,
    /// The packets of one message contradict each other.
    Inconsistent = 4,
    /// The receiving application went away.
    Gone = 5,
    /// The receiver has forgotten which messages the job had delivered.
    Forgotten = 6,
    /// A message's id is above the receiver's limit.
    TooMany = 7,
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
            6 => Self::Forgotten,
            7 => Self::TooMany,
            _ => return None,
        })
    }

    /// The reason as a clause of an error message.
    pub const fn explain(self) -> &'static str {
        match self {
            Self::NotWanted => "the receiver does not accept this job",
            Self::NoRoom => "the receiver has no room at present",
            Self::TooLarge => "a message is larger than the receiver accepts",
            Self::Inconsistent => "the packets of one message contradict each other",
            Self::Gone => "the receiving application went away",
            Self::Forgotten => {
                "the receiver has forgotten this job: it was silent for long, or was refused"
            }
            Self::TooMany => "the job has more messages than the receiver accepts",
        }
    }
}
