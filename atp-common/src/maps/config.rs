use bytemuck::{Pod, Zeroable};

/// Paces by departure time: `skb->tstamp`, under the fq qdisc.
pub const BACKEND_FQ: u32 = 0;
/// Paces by class: `skb->priority` names the lane's HTB class.
pub const BACKEND_HTB: u32 = 1;

/// The daemon's settings for the programs. One element, written by the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Config {
    /// When the daemon last ran its loop, nanoseconds of CLOCK_MONOTONIC.
    pub heartbeat_ns: u64,
    /// After this long without a heartbeat, lanes fall to the safe rate; nanoseconds.
    pub heartbeat_ns_max: u64,
    /// The rate of every lane without a controller, bytes per second.
    pub safe_rate_bytes_per_s: u64,
    /// The runaway guard: packets whose departure is further ahead are dropped; nanoseconds.
    pub horizon_ns: u64,
    /// [`BACKEND_FQ`] or [`BACKEND_HTB`].
    pub backend: u32,
    /// Changes whenever a cgroup is given to a job or taken away. Sockets then look up their job
    /// again.
    pub generation: u32,
    /// The packet mark of a clone that egress turns into an ACK; random per daemon, never 0.
    pub ack_mark: u32,
    /// Not 0 if arrivals are counted for advice.
    pub counts_arrivals: u32,
    /// The DSCPs of the approximate queues, one bit each.
    pub approximate_dscps: u64,
}

impl Config {
    /// 1 if switches put packets with this traffic-class byte into an approximate queue, else 0.
    #[inline(always)]
    pub const fn approximate(&self, traffic_class: u8) -> u64 {
        self.approximate_dscps >> (traffic_class >> 2) & 1
    }
}

const _: () = assert!(size_of::<Config>() == 56);
