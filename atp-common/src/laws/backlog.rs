//! The backlog of a lane in its own host: its limit, and the part of the RTT that it explains.
//!
//! Where departures are unknown, as under HTB, an RTT contains the time that the packet waited in
//! this host. A law whose rate falls as the RTT grows must not see it: the lower rate lengthens the
//! wait, which lowers the rate again, down to its floor.

use crate::units::Rate;
use bytemuck::{Pod, Zeroable};

/// The library's limit of the backlog, as time.
pub const BACKLOG_NS: u64 = 2_000_000;
/// The lowest limit for the only lane of a flow. Fewer packets would leave the queue empty between
/// two rounds of the sender thread.
pub const PACKETS_MIN: u64 = 6;
/// The highest limit: room for one batch of the library while another waits.
pub const PACKETS_MAX: u64 = 128;
/// The wait isn't known exactly. A shorter rest of the RTT may be its error, and would allow any
/// rate.
const RTT_NS_MIN: u64 = 100_000;
/// With more ACKs, nothing of the former estimate is left.
const ACKS_MAX: u64 = 64;

/// The least packets that a full backlog of one of a flow's `lanes` has; 0 where departures are
/// known. The library limits several lanes by time alone.
pub const fn least_packets(knows_departures: bool, lanes: usize) -> u64 {
    match (knows_departures, lanes) {
        (true, _) => 0,
        (false, 1) => PACKETS_MIN,
        (false, _) => 1,
    }
}

/// The limit at `rate`, in packets of `packet_bytes`, but never below `least`. It has two
/// significant binary digits after the first one, so that a rate that hardly changes has the same
/// limit: the library needs a system call to change it.
pub const fn packets_at(rate: Rate, packet_bytes: u32, least: u64) -> u64 {
    let packet_bytes = if packet_bytes == 0 { 1 } else { packet_bytes };
    let packets = rate.bytes_in(BACKLOG_NS) / packet_bytes as u64;
    let packets = if packets < PACKETS_MAX { packets } else { PACKETS_MAX };
    let packets = if packets < least { least } else { packets };
    let digits = u64::BITS - packets.leading_zeros();
    let shift = digits.saturating_sub(3);
    packets >> shift << shift
}

/// The wait of a lane's packets in this host. All zero where departures are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct HostWait {
    /// Smoothed like the RTT that contains it, nanoseconds.
    smoothed_ns: u64,
    /// The lowest limit of the backlog, packets; 0: packets don't wait, or departures are known.
    least_packets: u64,
}

impl HostWait {
    /// No packet waits.
    pub const NONE: Self = Self { smoothed_ns: 0, least_packets: 0 };

    /// A backlog that holds `least` packets or more.
    pub const fn of_backlog(least: u64) -> Self {
        Self { smoothed_ns: 0, least_packets: least }
    }

    /// Whether packets wait unseen.
    pub const fn is_unseen(self) -> bool {
        self.least_packets > 0
    }

    /// How long a packet waits at `rate`, if packets have `mean_bytes`. A lane that can use its
    /// rate keeps the backlog full. One that can't waits for less, but its rate isn't its limit.
    const fn at(self, rate: Rate, packet_bytes: u32, mean_bytes: u32) -> u64 {
        let packets = packets_at(rate, packet_bytes, self.least_packets);
        packets * rate.duration_ns(mean_bytes)
    }

    /// Takes in as many ACKs of packets of `mean_bytes` that waited at `rate`. `packet_bytes`: of a
    /// full packet. The library's limit counts packets, however short.
    pub fn observe(&mut self, acks: u64, rate: Rate, packet_bytes: u32, mean_bytes: u32) {
        let wait_ns = self.at(rate, packet_bytes, mean_bytes);
        // The RTT's filter (RFC 6298, gain 1/8).
        for _ in 0..acks.min(ACKS_MAX) {
            self.smoothed_ns = self.smoothed_ns - (self.smoothed_ns >> 3) + (wait_ns >> 3);
        }
    }

    /// By how much the RTT is too short for packets that wait at `rate`: an RTT follows a longer
    /// wait only as their ACKs come.
    pub const fn missing_ns(self, rate: Rate, packet_bytes: u32) -> u64 {
        match self.is_unseen() {
            true => self.at(rate, packet_bytes, packet_bytes).saturating_sub(self.smoothed_ns),
            false => 0,
        }
    }

    /// The network's part of a smoothed RTT. It isn't held to the least RTT, which contains a wait
    /// too if the first packets were lost.
    pub const fn without(self, smoothed_ns: u64) -> u64 {
        if !self.is_unseen() {
            return smoothed_ns;
        }
        let rtt_ns = smoothed_ns.saturating_sub(self.smoothed_ns);
        if rtt_ns < RTT_NS_MIN { RTT_NS_MIN } else { rtt_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::rtt::Rtt;

    #[test]
    fn least_packets__of_one_lane_and_of_several() {
        let of = |knows_departures| [1, 2, 256].map(|lanes| least_packets(knows_departures, lanes));
        assert_eq!((of(true), of(false)), ([0; 3], [PACKETS_MIN, 1, 1]));
    }

    #[test]
    fn packets_at__two_milliseconds_within_bounds() {
        let at = |bytes_per_s| packets_at(Rate::from_bytes_per_s(bytes_per_s), 1_474, PACKETS_MIN);
        assert_eq!(at(0), PACKETS_MIN);
        assert_eq!(at(25_000_000), 32);
        assert_eq!((at(9_000_000), at(10_000_000), at(11_500_000)), (12, 12, 14));
        assert_eq!(at(50_000_000_000), PACKETS_MAX);
    }

    #[test]
    fn observe__follows_the_rtt_that_contains_the_wait() {
        const PATH_NS: u64 = 5_000_000;
        let (mut rtt, mut wait) = (Rtt::default().observe(PATH_NS), HostWait::of_backlog(6));
        // Packets of 1,500 bytes: 32 of them, then the least backlog; short packets.
        let rows = [
            (25_000_000, 1_500, 1_920_000),
            (750_000, 1_500, 12_000_000),
            (750_000, 500, 4_000_000),
            (750_000, 1_500, 12_000_000),
        ];
        for (bytes_per_s, mean_bytes, wait_ns) in rows {
            for _ in 0..40 {
                rtt = rtt.observe(PATH_NS + wait_ns);
                wait.observe(1, Rate::from_bytes_per_s(bytes_per_s), 1_500, mean_bytes);
                let path_ns = wait.without(rtt.smoothed_ns);
                assert!(path_ns.abs_diff(PATH_NS) < 1_000, "{path_ns}");
            }
        }
        let missing_ns = wait.missing_ns(Rate::from_bytes_per_s(375_000), 1_500);
        assert!(missing_ns.abs_diff(12_000_000) < 100_000, "{missing_ns}");
        assert_eq!(HostWait::NONE.missing_ns(Rate::from_bytes_per_s(375_000), 1_500), 0);
        // An RTT without a wait can be of any length.
        assert_eq!((HostWait::NONE.without(9), wait.without(9)), (9, RTT_NS_MIN));
    }
}
