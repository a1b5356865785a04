//! The queues of a switch's ports: from a switch profile, or one queue for all packets.

use super::{CommonLimit, ETHERNET_BYTES, PriorityLimits, QueueLimit, Queueing};
use std::rc::Rc;
use switch_profiles::{PortRole, Profile, QUEUES};

/// Bytes that may wait in the deep queue of [`PortQueues::with_deep`]: 256 full packets, as in the
/// default profile's queue 0.
const DEEP_BYTES: u64 = 256 * 1_538;

/// Unit in which a profile limits its approximate queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: k MTUs hold more short packets than long ones, as in a switch's buffer.
    #[default]
    Bytes,
    /// Packets of any length, as in Linux's pfifo.
    Packets,
}

/// The queues of every port of a switch, and its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortQueues {
    /// The discipline of each port towards a host.
    pub to_hosts: Queueing,
    /// The discipline of each port between switches.
    pub between_switches: Queueing,
    /// Buffer that all ports of a switch share, bytes.
    pub buffer_bytes: u64,
}

impl PortQueues {
    /// The queues of `profile` (NetApprox §5.2). Only the buffer limits queue 0 of eight. The one
    /// queue for all traffic has the limit of the profile too.
    pub fn of_profile(profile: &Profile, unit: Unit, buffer_bytes: u64) -> Self {
        let of = |role| Queueing::Priority(Rc::new(limits_of(profile, unit, role)));
        let (to_hosts, between_switches) = (of(PortRole::ToHost), of(PortRole::BetweenSwitches));
        Self { to_hosts, between_switches, buffer_bytes }
    }

    /// Whether the ports serve their queues by priority, and do no more than that.
    pub fn have_priorities(&self) -> bool {
        matches!(self.to_hosts, Queueing::Priority(_))
    }

    /// Ports of one discipline, wherever they lead.
    pub fn same(queueing: Queueing, buffer_bytes: u64) -> Self {
        Self { to_hosts: queueing.clone(), between_switches: queueing, buffer_bytes }
    }

    /// One queue for all packets, limited by the buffer. `mark_from` is its ECN threshold, in
    /// packets.
    pub fn single(mark_from: u32, buffer_bytes: u64) -> Self {
        let mut limits = [QueueLimit::NONE; QUEUES];
        limits[0].mark_from = mark_from;
        let limits = PriorityLimits { limits, queue_of_dscp: [0; 64], common: None };
        Self::same(Queueing::Priority(Rc::new(limits)), buffer_bytes)
    }

    /// Adds a queue for packets of `dscp`, which is served when queue 0 is empty, and marks as
    /// queue 0 does. Other disciplines than [`Queueing::Priority`] have no such queue.
    #[must_use]
    pub fn with_lower(mut self, dscp: u8) -> Self {
        self.each_priority(|limits| {
            limits.limits[1] = limits.limits[0];
            limits.queue_of_dscp[usize::from(dscp)] = 1;
        });
        self
    }

    /// Adds a deep queue for packets of `dscp`, which is served after queue 0 and before all
    /// others. The others move down by one; the last two become one, with the limit of the deeper.
    #[must_use]
    pub fn with_deep(mut self, dscp: u8) -> Self {
        self.each_priority(|PriorityLimits { limits, queue_of_dscp, common }| {
            limits.copy_within(1..QUEUES - 1, 2);
            limits[1] = QueueLimit { bytes_max: DEEP_BYTES, ..QueueLimit::NONE };
            for queue in queue_of_dscp.iter_mut().filter(|queue| **queue > 0) {
                *queue = (*queue + 1).min(QUEUES as u8 - 1);
            }
            queue_of_dscp[usize::from(dscp)] = 1;
            if let Some(CommonLimit { queues, .. }) = common {
                *queues <<= 1;
            }
        });
        self
    }

    /// Sets another ECN threshold. Queues that mark no packets still mark none.
    #[must_use]
    pub fn with_ecn_threshold(mut self, packets: u32) -> Self {
        for queueing in [&mut self.to_hosts, &mut self.between_switches] {
            match queueing {
                Queueing::Priority(limits) => {
                    let limits = &mut Rc::make_mut(limits).limits;
                    for limit in limits.iter_mut().filter(|limit| limit.mark_from != u32::MAX) {
                        limit.mark_from = packets;
                    }
                }
                Queueing::Trimming(limits) => limits.mark_from = packets,
                Queueing::Credit(limits) => limits.mark_from = packets,
                Queueing::Rank { .. } => {}
            }
        }
        self
    }

    /// Lets no queue mark packets.
    #[must_use]
    pub fn without_marks(mut self) -> Self {
        self.each_priority(|limits| {
            limits.limits.iter_mut().for_each(|limit| limit.mark_from = u32::MAX);
        });
        self
    }

    fn each_priority(&mut self, change: impl Fn(&mut PriorityLimits)) {
        for queueing in [&mut self.to_hosts, &mut self.between_switches] {
            if let Queueing::Priority(limits) = queueing {
                change(Rc::make_mut(limits));
            }
        }
    }

    /// Discipline of hosts' ports in a network whose switches have `queueing`. Hosts limit credits
    /// as switches do (Cho et al., SIGCOMM 2017, §3.1), and nothing else.
    pub fn of_hosts(queueing: &Queueing) -> Queueing {
        match queueing {
            Queueing::Credit(_) => queueing.clone(),
            _ => Self::unlimited().to_hosts,
        }
    }

    /// One unlimited queue, which drops and marks nothing.
    pub fn unlimited() -> Self {
        Self::single(u32::MAX, u64::MAX)
    }
}

/// The limits of a profile's ports of `role`.
fn limits_of(profile: &Profile, unit: Unit, role: PortRole) -> PriorityLimits {
    let packet_bytes = u64::from(profile.mtu_bytes() + ETHERNET_BYTES);
    let limit_of = |packets: u32| match unit {
        Unit::Packets => QueueLimit { packets_max: packets, ..QueueLimit::NONE },
        Unit::Bytes => {
            QueueLimit { bytes_max: u64::from(packets) * packet_bytes, ..QueueLimit::NONE }
        }
    };
    let mut queue_of_dscp = [0; 64];
    let mut limits = [QueueLimit::NONE; QUEUES];
    for (number, queue) in profile.queues().iter().enumerate() {
        for dscp in &queue.dscp {
            queue_of_dscp[usize::from(*dscp)] = number as u8;
        }
        let mark_from = queue.ecn_threshold_packets.unwrap_or(u32::MAX);
        let packets = queue.limit_packets.of(role);
        let has_rest = number == 0 && !profile.is_one_queue();
        let limit = if has_rest { QueueLimit::NONE } else { limit_of(packets) };
        limits[number] = QueueLimit { mark_from, ..limit };
    }
    let common = profile.approximate_limit_packets(role);
    let common = common.map(|packets| CommonLimit { queues: !1, limit: limit_of(packets) });
    PriorityLimits { limits, queue_of_dscp, common }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Label, Packet, Packets, discipline::PriorityQueues};
    use proptest::prelude::*;

    proptest! {
        /// The lower queue is served after all packets of queue 0, and each queue in order.
        #[test]
        fn with_lower__is_served_last(are_lower in proptest::collection::vec(any::<bool>(), 0..60)) {
            let queues = PortQueues::single(65, u64::MAX).with_lower(9);
            let Queueing::Priority(limits) = queues.to_hosts else { panic!("{queues:?}") };
            let (mut queues, mut packets) = (PriorityQueues::new(limits), Packets::default());
            let mut waiting = Vec::new();
            for is_lower in are_lower {
                let dscp = if is_lower { 9 } else { 0 };
                let label = Label { dscp, ..Label::new(0, 0, 1, 1_538, 0) };
                let id = packets.insert(Packet { label, body: () });
                queues.put(0, id, packets.labels_mut(), u64::MAX);
                waiting.push((is_lower, id));
            }
            waiting.sort_by_key(|(is_lower, _)| *is_lower);
            let taken: Vec<_> = std::iter::from_fn(|| queues.take()).map(|it| it.packet).collect();
            prop_assert_eq!(taken, waiting.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
        }
    }

    /// Served after queue 0 and before all others, of which the last two share a queue.
    #[test]
    fn with_deep__moves_the_approximate_queues_down() {
        let queues = PortQueues::of_profile(&Profile::paper(), Unit::Bytes, 1_500_000);
        let Queueing::Priority(queues) = queues.with_deep(31).to_hosts else { panic!() };
        let queue_of = |dscp: usize| queues.queue_of_dscp[dscp];
        assert_eq!([0, 31].map(queue_of), [0, 1]);
        assert_eq!([3, 7, 11, 15, 19, 23, 27].map(queue_of), [2, 3, 4, 5, 6, 7, 7]);
        let depth = |queue: usize| queues.limits[queue].bytes_max / 1_538;
        assert_eq!([1, 2, 3, 4, 5, 6, 7].map(depth), [256, 7, 6, 5, 4, 3, 2]);
        assert_eq!(queues.limits[0], QueueLimit { mark_from: 65, ..QueueLimit::NONE });
    }

    /// NetApprox §5.2: queue 7 holds one MTU, and each queue of higher priority one MTU more.
    #[test]
    fn of_profile__is_the_paper_s() {
        for unit in [Unit::Bytes, Unit::Packets] {
            let queues = PortQueues::of_profile(&Profile::paper(), unit, 1_500_000);
            let Queueing::Priority(queues) = queues.to_hosts else { panic!("{queues:?}") };
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

    /// The queue's own limit, whatever the buffer, and every DSCP in it.
    #[test]
    fn of_profile__one_queue_takes_all_packets_up_to_its_limit() {
        for (unit, packets_max, bytes_max) in
            [(Unit::Packets, 256, u64::MAX), (Unit::Bytes, u32::MAX, 256 * 1_538)]
        {
            let queues = PortQueues::of_profile(&Profile::one_queue(), unit, u64::MAX);
            assert_eq!(queues.to_hosts, queues.between_switches);
            let Queueing::Priority(limits) = queues.to_hosts else { panic!("{queues:?}") };
            let expected = QueueLimit { packets_max, bytes_max, ..QueueLimit::NONE };
            assert_eq!((limits.limits[0], limits.common), (expected, None));
            assert_eq!(limits.queue_of_dscp, [0; 64]);
        }
    }

    proptest! {
        /// A FIFO: packets leave in the order of their arrival, whatever their DSCP, and those
        /// beyond the limit are dropped.
        #[test]
        fn of_profile__one_queue_is_a_fifo(dscps in proptest::collection::vec(0..64u8, 0..300)) {
            let queues = PortQueues::of_profile(&Profile::one_queue(), Unit::Packets, u64::MAX);
            let Queueing::Priority(limits) = queues.to_hosts else { panic!("{queues:?}") };
            let (mut queues, mut packets) = (PriorityQueues::new(limits), Packets::default());
            let ids: Vec<_> = dscps
                .into_iter()
                .map(|dscp| {
                    let label = Label { dscp, ..Label::new(0, 0, 1, 1_538, 0) };
                    let id = packets.insert(Packet { label, body: () });
                    queues.put(0, id, packets.labels_mut(), u64::MAX);
                    id
                })
                .collect();
            let taken: Vec<_> = std::iter::from_fn(|| queues.take()).map(|it| it.packet).collect();
            prop_assert_eq!(&taken[..], &ids[..ids.len().min(256)]);
        }
    }

    /// Deep towards hosts only.
    #[test]
    fn of_profile__depends_on_where_a_port_leads() {
        let queues = PortQueues::of_profile(&Profile::default(), Unit::Packets, 1_500_000);
        let depth = |queueing: &Queueing| match queueing {
            Queueing::Priority(limits) => limits.limits[1].packets_max,
            other => panic!("{other:?}"),
        };
        assert_eq!((depth(&queues.to_hosts), depth(&queues.between_switches)), (96, 7));
    }

    #[test]
    fn with_ecn_threshold__changes_only_queues_that_mark() {
        let queues = PortQueues::of_profile(&Profile::paper(), Unit::Bytes, 1_500_000);
        let changed = queues.clone().with_ecn_threshold(20);
        let (Queueing::Priority(old), Queueing::Priority(new)) =
            (&queues.to_hosts, &changed.to_hosts)
        else {
            panic!("{changed:?}")
        };
        assert_eq!(new.limits[0], QueueLimit { mark_from: 20, ..QueueLimit::NONE });
        assert_eq!((&old.limits[1..], old.limits[0].mark_from), (&new.limits[1..], 65));
        let rank = PortQueues::same(Queueing::Rank { bytes_max: 9 }, 9);
        assert_eq!(rank.clone().with_ecn_threshold(20), rank);
        assert_eq!(PortQueues::single(65, 9).with_ecn_threshold(5), PortQueues::single(5, 9));
    }
}
