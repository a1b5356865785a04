use super::{MS, Ring, rtt, settings};
use crate::{
    laws::{
        RateLaw, Rules,
        backlog::{PACKETS_MIN, packets_at},
        lane::{Counters, EPOCHS, Lane, Settings, View},
        rtt::Rtt,
    },
    units::{Rate, Share},
};

/// Mean rate, in packets per second, of a polite lane that keeps its host's backlog full. The
/// network takes `path_ns` and loses one packet in 20.
fn settled(path_ns: u64, backlog_is_known: bool) -> f64 {
    let settings = Settings { rules: Rules::new(RateLaw::Tfrc), ..settings() };
    let packet_bytes = settings.packet_bytes;
    let mut lane = Lane::new(settings, Share::ZERO, 0);
    if backlog_is_known {
        lane = lane.with_backlog(PACKETS_MIN);
    }
    let (mut ring, mut rtt) = (Ring::default(), Rtt::default());
    let (mut bytes, mut sent, mut sum) = (0, 0u64, 0.0);
    for ms in 1..=20_000 {
        let rate = lane.rate();
        bytes += rate.bytes_in(MS);
        let wait_ns = packets_at(rate, packet_bytes, PACKETS_MIN) * rate.duration_ns(packet_bytes);
        while bytes >= u64::from(packet_bytes) {
            bytes -= u64::from(packet_bytes);
            sent += 1;
            let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
            cell.sent_packets += 1;
            cell.sent_bytes += u64::from(packet_bytes);
            if !sent.is_multiple_of(20) {
                cell.acked_packets += 1;
                rtt = rtt.observe(wait_ns + path_ns);
            }
        }
        let view = View { now_ns: ms * MS, last_departure_ns: 0, rtt, tlr: Share::ZERO };
        lane.tick(&view, &mut ring);
        sum += if ms > 10_000 { lane.rate().bytes_per_s() as f64 / 10_000.0 } else { 0.0 };
    }
    sum / f64::from(packet_bytes)
}

#[test]
fn tick__of_a_polite_lane_sees_the_path_behind_the_backlog() {
    // RFC 5348 §3.1: 3.7 packets per RTT, which fill the line of 16,667 packets per second.
    let short = settled(MS / 5, true);
    assert!(short > 10_000.0, "{short}");
    // 123 packets per second on a long path.
    let long = settled(30 * MS, true);
    assert!((90.0..200.0).contains(&long), "{long}");
    // The six packets of the backlog are more than 3.7: with their wait as part of the RTT, the
    // lane sinks to its least rate, a packet per millisecond.
    let blind = settled(MS / 5, false);
    assert!(blind < 1_100.0, "{blind}");
}

#[test]
fn tick__waits_for_packets_in_the_backlog() {
    let settings = Settings { rules: Rules::new(RateLaw::Tfrc), ..settings() };
    let evaluated_at = |lane: Lane| {
        let mut lane = lane.at_rate(Rate::from_bytes_per_s(1_500_000));
        let mut ring = Ring::default();
        ring.open(0);
        (ring.0[0].sent_packets, ring.0[0].sent_bytes) = (1, 1_500);
        (1..30).find(|ms| {
            let view =
                View { now_ns: ms * MS, last_departure_ns: 0, rtt: rtt(MS / 5), tlr: Share::ZERO };
            lane.tick(&view, &mut ring).is_some()
        })
    };
    // The first RTT was that of an empty host. Six packets of a millisecond each may wait.
    let lane = Lane::new(settings, Share::ZERO, 0);
    assert_eq!(evaluated_at(lane), Some(2));
    assert_eq!(evaluated_at(lane.with_backlog(PACKETS_MIN)), Some(8));
}
