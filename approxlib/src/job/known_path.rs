//! Begins a job with the RTT that earlier flows measured to its receiver.

use crate::control::KnownPath;
use atp_common::{
    laws::{first_window, rtt::Rtt},
    units::Rate,
};
use atp_proto::Sender;

/// The longest RTT that is taken from a daemon: 60 s.
const RTT_NS_MAX: u64 = 60_000_000_000;

/// Sets a new sender's first timeout and first window. `packet_bytes` is a full packet on the wire.
///
/// With an exact group the first window keeps its greatest length: queue 0 has room for it.
pub fn apply(path: KnownPath, sender: &mut Sender, packet_bytes: u32) {
    let rtt = Rtt {
        smoothed_ns: path.rtt_smoothed_ns.min(RTT_NS_MAX),
        variation_ns: path.rtt_variation_ns.min(RTT_NS_MAX),
        min_ns: path.rtt_min_ns.min(RTT_NS_MAX),
    };
    sender.set_earlier_rtt(rtt);
    let line = Rate::from_bytes_per_s(path.rate_max_bytes_per_s);
    sender.set_awaiting_packets(first_window::awaiting_packets(line, packet_bytes));
    if sender.config().groups.iter().any(|group| group.msr.is_exact()) {
        return;
    }
    let packets_max = sender.config().initial_window_packets;
    let packets = first_window::packets(packets_max, line, packet_bytes, rtt.min_ns);
    sender.set_initial_window_packets(packets);
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::units::Msr;
    use atp_proto::{GroupConfig, SenderConfig};
    use proptest::prelude::*;

    const PACKET_BYTES: u32 = 1_500;

    fn sender(msr: Msr, initial_window_packets: u32) -> Sender {
        let group = GroupConfig::new(0, msr);
        let config = SenderConfig { initial_window_packets, ..SenderConfig::new(1, 1, group) };
        Sender::new(config).unwrap()
    }

    fn window(msr: Msr, most: u32, path: KnownPath) -> u32 {
        let mut sender = sender(msr, most);
        apply(path, &mut sender, PACKET_BYTES);
        sender.config().initial_window_packets
    }

    #[test]
    fn apply__window_is_one_and_a_half_bandwidth_delay_products() {
        // 25 MB/s times 200 us is 5,000 bytes.
        let path = KnownPath {
            rtt_min_ns: 200_000,
            rate_max_bytes_per_s: 25_000_000,
            ..KnownPath::default()
        };
        let half = Msr::from_parts_per_billion(500_000_000).unwrap();
        assert_eq!(window(half, 16, path), 5);
        assert_eq!(window(half, 16, KnownPath::default()), 16, "nothing is known");
        assert_eq!(window(Msr::EXACT, 16, path), 16, "exact traffic");
        assert_eq!(window(half, 0, path), 0, "the job has no first window");
    }

    proptest! {
        /// A daemon's numbers can't make a job panic, or stop it.
        #[test]
        fn apply__takes_any_numbers(
            rtt_smoothed_ns: u64,
            rtt_variation_ns: u64,
            rtt_min_ns: u64,
            rate_max_bytes_per_s: u64,
            most in 0u32..100_000,
        ) {
            let path =
                KnownPath { rtt_smoothed_ns, rtt_variation_ns, rtt_min_ns, rate_max_bytes_per_s };
            let half = Msr::from_parts_per_billion(500_000_000).unwrap();
            let packets = window(half, most, path);
            prop_assert!(packets <= most && (packets > 0) == (most > 0));
        }
    }
}
