//! A checked queue profile of a switch port (NetApprox §5.2).

/// Queues of a port. Queue 0 is served first and carries exact traffic.
pub const QUEUES: usize = 8;

/// The queues of a switch port. The daemon takes its DSCPs from the same profile as the switch its
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(super) mtu_bytes: u32,
    pub(super) port_buffer_bytes: u64,
    pub(super) queues: [Queue; QUEUES],
}

/// One queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The code points of the queue. Queue 0 also gets every code point that no queue lists.
    pub dscp: Vec<u8>,
    /// The number of packets that may wait, without the packet that is being sent.
    pub limit_packets: u32,
    /// The queue length in packets from which ECN-capable packets are marked, if the queue marks.
    pub ecn_threshold_packets: Option<u32>,
}

impl Profile {
    /// The code point that ATP's egress writes for queues 1 to 7: the first one of the queue. Queue
    /// 0 keeps the application's code point, 0 by default.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn dscp_of_queue(&self, queue: u8) -> u8 {
        self.queues[usize::from(queue)].dscp.first().copied().unwrap_or(0)
    }

    /// The number of packets that may wait in a queue.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn depth_packets(&self, queue: u8) -> u32 {
        self.queues[usize::from(queue)].limit_packets
    }

    /// The length of the longest IP packet.
    pub fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// The total buffer of the port.
    pub fn port_buffer_bytes(&self) -> u64 {
        self.port_buffer_bytes
    }

    /// All queues, queue 0 first.
    pub fn queues(&self) -> &[Queue; QUEUES] {
        &self.queues
    }
}
