//! What the queues of a switch's ports are, from a switch profile.

use switch_profiles::{Profile, QUEUES};

/// One queue's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Packets that may wait, the one being sent not included; the switch's buffer is a limit of its
    /// own.
    pub packets_max: u32,
    /// From how many packets on one that comes is marked.
    pub mark_from: u32,
}

impl QueueLimit {
    /// No limit but the buffer, and no marks.
    pub const NONE: Self = Self { packets_max: u32::MAX, mark_from: u32::MAX };
}

/// The queues of every port of a switch, served in strict priority, and its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortQueues {
    /// By number; 0 is served first.
    pub limits: [QueueLimit; QUEUES],
    /// Which queue a code point belongs to.
    pub queue_of_dscp: [u8; 64],
    /// Bytes that all ports of a switch share.
    pub buffer_bytes: u64,
}

impl PortQueues {
    /// The queues of `profile` (NetApprox §5.2). Queue 0 has what is left of the buffer.
    pub fn of_profile(profile: &Profile, buffer_bytes: u64) -> Self {
        let mut queue_of_dscp = [0; 64];
        let mut limits = [QueueLimit::NONE; QUEUES];
        for (number, queue) in profile.queues().iter().enumerate() {
            for dscp in &queue.dscp {
                queue_of_dscp[usize::from(*dscp)] = number as u8;
            }
            limits[number] = QueueLimit {
                packets_max: if number == 0 { u32::MAX } else { queue.limit_packets },
                mark_from: queue.ecn_threshold_packets.unwrap_or(u32::MAX),
            };
        }
        Self { limits, queue_of_dscp, buffer_bytes }
    }

    /// One queue for all, as wide as the buffer: what the other schemes are made for.
    pub fn single(mark_from: u32, buffer_bytes: u64) -> Self {
        let mut limits = [QueueLimit::NONE; QUEUES];
        limits[0].mark_from = mark_from;
        Self { limits, queue_of_dscp: [0; 64], buffer_bytes }
    }

    /// A host's own: nothing is lost or marked there.
    pub fn unlimited() -> Self {
        Self::single(u32::MAX, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NetApprox §5.2: queue 7 holds a packet, each higher one a packet more.
    #[test]
    fn of_profile__is_the_paper_s() {
        let queues = PortQueues::of_profile(&Profile::default(), 1_500_000);
        for number in 1..8u8 {
            let limit = queues.limits[usize::from(number)];
            assert_eq!(limit.packets_max, u32::from(8 - number));
            assert_eq!(limit.mark_from, u32::MAX);
            assert_eq!(queues.queue_of_dscp[usize::from(4 * number - 1)], number);
        }
        assert_eq!(queues.limits[0], QueueLimit { packets_max: u32::MAX, mark_from: 65 });
        assert_eq!(queues.queue_of_dscp[0], 0);
    }
}
