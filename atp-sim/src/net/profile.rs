//! What the queues of a switch's ports are: from a switch profile, or as other schemes want them.

use super::{CreditedLimits, ETHERNET_BYTES, PriorityLimits, QueueLimit, Queueing, TrimmingLimits};
use std::rc::Rc;
use switch_profiles::{Profile, QUEUES};

/// What a profile's limits of approximate queues count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: k MTUs hold more short packets than long ones, as in a switch, whose buffers are bytes.
    #[default]
    Bytes,
    /// Packets, whatever their length, as Linux's pfifo counts them.
    Packets,
}

/// The queues of every port of a switch, and its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortQueues {
    /// How each port queues.
    pub queueing: Queueing,
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
        Self::priority(limits, queue_of_dscp, buffer_bytes)
    }

    /// One queue for all, as wide as the buffer: what the other schemes are made for.
    pub fn single(mark_from: u32, buffer_bytes: u64) -> Self {
        let mut limits = [QueueLimit::NONE; QUEUES];
        limits[0].mark_from = mark_from;
        Self::priority(limits, [0; 64], buffer_bytes)
    }

    /// pFabric's: one small buffer per port, and none that they share (SIGCOMM 2013, §4.1).
    pub const fn pfabric(port_bytes: u64) -> Self {
        let queueing = Queueing::PFabric { bytes_max: port_bytes };
        Self { queueing, buffer_bytes: u64::MAX }
    }

    /// NDP's: two short queues per port (SIGCOMM 2017, §3.1), and one for others' packets, which share
    /// the buffer.
    pub const fn trimming(limits: TrimmingLimits, buffer_bytes: u64) -> Self {
        Self { queueing: Queueing::Trimming(limits), buffer_bytes }
    }

    /// ExpressPass's with Aeolus's: 8 credits may wait (SIGCOMM 2017, §3.1), and unscheduled packets are
    /// refused from 6 KB of data on (SIGCOMM 2020, §4.1). `mark_from`: as in [`Self::single`], for what
    /// has no credits and no need of them.
    pub const fn credited(mark_from: u32, buffer_bytes: u64) -> Self {
        let limits = CreditedLimits { credits_max: 8, unscheduled_bytes: 6_000, mark_from };
        Self { queueing: Queueing::Credited(limits), buffer_bytes }
    }

    /// What hosts' own ports are where switches' are `queueing`: they limit credits as those do
    /// (ExpressPass, SIGCOMM 2017, §3.1), and nothing else.
    pub fn of_hosts(queueing: &Queueing) -> Queueing {
        match queueing {
            Queueing::Credited(_) => queueing.clone(),
            _ => Self::unlimited().queueing,
        }
    }

    /// A host's own: nothing is lost or marked there.
    pub fn unlimited() -> Self {
        Self::single(u32::MAX, u64::MAX)
    }

    fn priority(limits: [QueueLimit; QUEUES], queue_of_dscp: [u8; 64], buffer_bytes: u64) -> Self {
        let limits = PriorityLimits { limits, queue_of_dscp };
        Self { queueing: Queueing::Priority(Rc::new(limits)), buffer_bytes }
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
            let Queueing::Priority(queues) = queues.queueing else { panic!("{queues:?}") };
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
