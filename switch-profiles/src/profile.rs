//! A checked queue profile of a switch's ports (NetApprox §5.2).

use super::role::{PerRole, PortRole};

/// Queues of a port with priorities. Queue 0 is served first and carries exact traffic.
pub const QUEUES: usize = 8;

/// The packets that a lane's rate laws use are in queues 1 to 4; the lower ones hold those of jobs
/// that need less than half of their data.
const DEPTH_QUEUES: std::ops::RangeInclusive<u8> = 1..=4;

/// The queues of a switch's ports: eight in strict priority, or one for all traffic. The daemon
/// takes its DSCPs from the same profile as the switch its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(super) mtu_bytes: u32,
    pub(super) port_buffer_bytes: PerRole<u64>,
    pub(super) exact_burst_bytes: Option<PerRole<u64>>,
    pub(super) approximate_limit_packets: Option<PerRole<u32>>,
    pub(super) law: Option<String>,
    /// Eight, or one.
    pub(super) queues: Vec<Queue>,
}

/// One queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The code points of the queue. Queue 0 also gets every code point that no queue lists.
    pub dscp: Vec<u8>,
    /// The number of packets that may wait, without the packet that is being sent.
    pub limit_packets: PerRole<u32>,
    /// The queue length in packets from which ECN-capable packets are marked, if the queue marks.
    pub ecn_threshold_packets: Option<u32>,
}

impl Profile {
    /// The code point that ATP's egress writes for queues 1 to 7: the first one of the queue. Queue
    /// 0 keeps the application's code point, 0 by default. With one queue for all traffic it is 0,
    /// that of best effort, for each of 0 to 7.
    ///
    /// # Panics
    /// If the queue is above 7.
    pub fn dscp_of_queue(&self, queue: u8) -> u8 {
        self.queue(queue).dscp.first().copied().unwrap_or(0)
    }

    /// The code points of queues 1 to 7, one bit each.
    pub fn approximate_dscps(&self) -> u64 {
        self.queues[1..].iter().flat_map(|queue| &queue.dscp).fold(0, |bits, dscp| bits | 1 << dscp)
    }

    /// The number of packets that may wait in a queue of a port of `role`. Of one queue for all
    /// traffic it is the limit for each of 0 to 7.
    ///
    /// # Panics
    /// If the queue is above 7.
    pub fn depth_packets(&self, queue: u8, role: PortRole) -> u32 {
        self.queue(queue).limit_packets.of(role)
    }

    /// The number of packets that may wait in a queue of any port on a path, as in
    /// [`depth_packets`](Self::depth_packets).
    ///
    /// # Panics
    /// If the queue is above 7.
    pub fn path_depth_packets(&self, queue: u8) -> u32 {
        self.queue(queue).limit_packets.least()
    }

    /// The packets that any of queues 1 to 4 holds at a port towards a host. Advice depends on it.
    /// 0 with one queue for all traffic.
    pub fn advised_depth_packets(&self) -> u32 {
        if self.is_one_queue() {
            return 0;
        }
        DEPTH_QUEUES.map(|queue| self.depth_packets(queue, PortRole::ToHost)).min().unwrap_or(0)
    }

    /// The length of the longest IP packet.
    pub fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// The total buffer of a port of `role`.
    pub fn port_buffer_bytes(&self, role: PortRole) -> u64 {
        self.port_buffer_bytes.of(role)
    }

    /// The burst of exact traffic, bytes on the wire, that the approximate queues of a port of
    /// `role` wait for without losing more than some 4 %; `None` if the profile doesn't say.
    pub fn exact_burst_bytes(&self, role: PortRole) -> Option<u64> {
        Some(self.exact_burst_bytes?.of(role))
    }

    /// The number of packets that may wait in queues 1 to 7 of a port of `role` together; `None` if
    /// only each queue has a limit.
    pub fn approximate_limit_packets(&self, role: PortRole) -> Option<u32> {
        Some(self.approximate_limit_packets?.of(role))
    }

    /// The rate law that fits these queues, by its name; `None` if the profile doesn't say. The
    /// name isn't checked.
    pub fn law(&self) -> Option<&str> {
        self.law.as_deref()
    }

    /// Whether there is one queue for all traffic.
    pub fn is_one_queue(&self) -> bool {
        self.queues.len() == 1
    }

    /// All queues, queue 0 first: eight, or one.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// The queue that packets of queue `number` wait in.
    fn queue(&self, number: u8) -> &Queue {
        let number = usize::from(number);
        assert!(number < QUEUES, "a queue is 0 to 7");
        &self.queues[number.min(self.queues.len() - 1)]
    }
}
