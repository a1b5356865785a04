//! What the queues of a switch's ports are, from a switch profile.

use super::ETHERNET_BYTES;
use switch_profiles::{Profile, QUEUES};

/// One queue's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Packets that may wait, the one being sent not included; the switch's buffer is a limit of its
    /// own.
    pub packets_max: u32,
    /// Their bytes on the wire.
    pub bytes_max: u64,
    /// From how many packets on one that comes is marked.
    pub mark_from: u32,
}

impl QueueLimit {
    /// No limit but the buffer, and no marks.
    pub const NONE: Self = Self { packets_max: u32::MAX, bytes_max: u64::MAX, mark_from: u32::MAX };
}

/// What a profile's limits of approximate queues count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: k MTUs hold more short packets than long ones, as in a switch, whose buffers are bytes.
    #[default]
    Bytes,
    /// Packets, whatever their length, as Linux's pfifo counts them.
    Packets,
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
    pub fn of_profile(profile: &Profile, unit: Unit, buffer_bytes: u64) -> Self {
        let packet_bytes = u64::from(profile.mtu_bytes() + ETHERNET_BYTES);
        let mut queue_of_dscp = [0; 64];
        let mut limits = [QueueLimit::NONE; QUEUES];
        for (number, queue) in profile.queues().iter().enumerate() {
            for dscp in &queue.dscp {
                queue_of_dscp[usize::from(*dscp)] = number as u8;
            }
            let mark_from = queue.ecn_threshold_packets.unwrap_or(u32::MAX);
            let packets = queue.limit_packets;
            limits[number] = match (number, unit) {
                (0, _) => QueueLimit { mark_from, ..QueueLimit::NONE },
                (_, Unit::Packets) => {
                    QueueLimit { packets_max: packets, mark_from, ..QueueLimit::NONE }
                }
                (_, Unit::Bytes) => {
                    let bytes_max = u64::from(packets) * packet_bytes;
                    QueueLimit { bytes_max, mark_from, ..QueueLimit::NONE }
                }
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

    /// NetApprox §5.2: queue 7 holds an MTU, each higher one an MTU more.
    #[test]
    fn of_profile__is_the_paper_s() {
        for unit in [Unit::Bytes, Unit::Packets] {
            let queues = PortQueues::of_profile(&Profile::default(), unit, 1_500_000);
            for number in 1..8u8 {
                let limit = queues.limits[usize::from(number)];
                let (packets, bytes) = (u32::from(8 - number), u64::from(8 - number) * 1_538);
                match unit {
                    Unit::Bytes => {
                        assert_eq!((limit.packets_max, limit.bytes_max), (u32::MAX, bytes))
                    }
                    Unit::Packets => {
                        assert_eq!((limit.packets_max, limit.bytes_max), (packets, u64::MAX));
                    }
                }
                assert_eq!(limit.mark_from, u32::MAX);
                assert_eq!(queues.queue_of_dscp[usize::from(4 * number - 1)], number);
            }
            assert_eq!(queues.limits[0], QueueLimit { mark_from: 65, ..QueueLimit::NONE });
            assert_eq!(queues.queue_of_dscp[0], 0);
        }
    }
}
