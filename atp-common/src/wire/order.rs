//! The order of a group's messages, as its sender states it in TERMS.

/// The order in which the messages of a group are numbered and sent.
///
/// It decides whether the messages that arrive are a fair sample: a job mostly leaves out its last
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The sender doesn't say.
    #[default]
    Unknown,
    /// The order of the data, such as time.
    Ordered,
    /// Shuffled as a whole.
    Shuffled,
    /// Each message was drawn from a buffer of this many, as a power of two: 1 to
    /// [`Self::LOG2_MAX`].
    ShuffledAmong {
        /// The logarithm of the number of messages, to the base 2.
        log2_messages: u8,
    },
}

impl Order {
    /// The largest buffer: no job has more messages.
    pub const LOG2_MAX: u8 = 24;

    /// Messages drawn from a buffer of at most `messages`, rounded down to a power of two.
    pub const fn shuffled_among(messages: u32) -> Self {
        match messages {
            0 | 1 => Self::Ordered,
            _ => {
                let log2 = messages.ilog2() as u8;
                let log2_messages = if log2 > Self::LOG2_MAX { Self::LOG2_MAX } else { log2 };
                Self::ShuffledAmong { log2_messages }
            }
        }
    }

    /// The two bytes of TERMS.
    pub(super) const fn to_wire(self) -> [u8; 2] {
        match self {
            Self::Unknown => [0, 0],
            Self::Ordered => [1, 0],
            Self::Shuffled => [2, 0],
            Self::ShuffledAmong { log2_messages } => [2, log2_messages],
        }
    }

    pub(super) const fn from_wire(bytes: [u8; 2]) -> Option<Self> {
        match bytes {
            [0, 0] => Some(Self::Unknown),
            [1, 0] => Some(Self::Ordered),
            [2, 0] => Some(Self::Shuffled),
            [2, log2_messages @ 1..=Self::LOG2_MAX] => Some(Self::ShuffledAmong { log2_messages }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_wire__reads_what_to_wire_writes_and_no_more() {
        let mut valid = 0;
        for bytes in (0..=u16::MAX).map(u16::to_be_bytes) {
            let Some(order) = Order::from_wire(bytes) else { continue };
            assert_eq!(order.to_wire(), bytes);
            valid += 1;
        }
        assert_eq!(valid, 3 + Order::LOG2_MAX);
    }

    #[test]
    fn shuffled_among__rounds_down() {
        let among = |log2_messages| Order::ShuffledAmong { log2_messages };
        assert_eq!([0, 1].map(Order::shuffled_among), [Order::Ordered; 2]);
        assert_eq!([2, 3, 1_024].map(Order::shuffled_among), [among(1), among(1), among(10)]);
        assert_eq!(Order::shuffled_among(u32::MAX), among(24));
    }
}
