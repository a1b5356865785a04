//! Divides a line among lanes: max-min fairness (water-filling).

use super::LaneArrivals;

/// Even a line full of other traffic leaves lanes a hundredth of it.
const LEAST_DIVISOR: u64 = 100;
/// The overcommit: this number of packets, divided by a queue's depth, is the share of the others'
/// traffic that lanes are advised too much. Queues ten times as deep as a burst leave the line idle
/// for 1 %.
const OVERCOMMIT_PACKETS: u64 = 6;

/// Whether approximate queues of `depth_packets` are deep: in deeper ones than these, advice leaves
/// out more than half of the others' traffic. Lanes without advice don't share such a queue equally
/// under the paper's rules.
pub const fn queues_are_deep(depth_packets: u32) -> bool {
    depth_packets as u64 > 2 * OVERCOMMIT_PACKETS
}

/// The part of a line that approximate lanes can use, bytes per second on the wire. `others`: what
/// arrives beside them. `depth_packets`: the packets that an approximate queue holds at the line's
/// other end; 0 for one queue, which exact traffic shares.
pub const fn available(line_bytes_per_s: u64, others_bytes_per_s: u64, depth_packets: u32) -> u64 {
    let least = line_bytes_per_s / LEAST_DIVISOR;
    let left = line_bytes_per_s.saturating_sub(subtracted(others_bytes_per_s, depth_packets));
    if left < least { least } else { left }
}

/// The rate that unadvised traffic leaves to `lanes` lanes, of the part that they can use. Such
/// traffic is in the approximate queues too, and gets no advice. At most one lane's share is
/// subtracted for it: lanes yield to what is subtracted, so that traffic that doesn't yield would
/// take the line from them.
pub const fn left_beside(
    unadvised_bytes_per_s: u64,
    available_bytes_per_s: u64,
    lanes: u64,
    depth_packets: u32,
) -> u64 {
    let share = available_bytes_per_s / (lanes + 1);
    let subtracted = subtracted(unadvised_bytes_per_s, depth_packets);
    available_bytes_per_s - if subtracted < share { subtracted } else { share }
}

/// The part of the others' traffic that lanes yield to.
///
/// Exact traffic comes in bursts. With all of it subtracted, a short queue is empty before the next
/// burst, and the line idles. So a part is left in: `OVERCOMMIT_PACKETS / depth_packets` of it, and
/// at most half.
///
/// In one queue for all traffic lanes yield by their windows, within an RTT. With exact traffic
/// subtracted as well they would yield twice, and the line would idle.
const fn subtracted(others_bytes_per_s: u64, depth_packets: u32) -> u64 {
    if depth_packets == 0 {
        return 0;
    }
    let half = others_bytes_per_s / 2;
    // No line carries the 3 * 10^18 bytes per second at which it saturates.
    let part = others_bytes_per_s.saturating_mul(OVERCOMMIT_PACKETS) / depth_packets as u64;
    others_bytes_per_s - if part < half { part } else { half }
}

/// Gives each of `lanes`, all of them active, its advice.
///
/// The *level* is the rate at which the lanes that want more than it, each limited to it, fill what
/// the others leave. It is everybody's advice: a lane that wants less may begin to send more. If
/// all lanes together want less than there is, each may use all of the rest, and as much as the
/// lane that wants most.
///
/// The level rises from pass to pass, and a pass without a further lane below it is the last. So
/// there are at most as many passes as lanes.
pub fn fill(lanes: &mut [LaneArrivals], available_bytes_per_s: u64, now_ns: u64, window_ns: u64) {
    let number = lanes.len() as u64;
    if number == 0 {
        return;
    }
    // The room to grow of all idle lanes together is a quarter of the line at most.
    let divisor = LEAST_DIVISOR.max(4 * number);
    for lane in &mut *lanes {
        lane.update_demand(now_ns, window_ns, available_bytes_per_s / divisor);
    }
    let share = available_bytes_per_s / number;
    let (mut level, mut content) = (share, 0);
    loop {
        let below = lanes.iter().map(|lane| lane.demand_bytes_per_s).filter(|&want| want < level);
        let (sum, count, most) = below
            .fold((0u64, 0, 0), |(sum, count, most), want| (sum + want, count + 1, most.max(want)));
        let left = available_bytes_per_s.saturating_sub(sum);
        if count == number {
            level = left.max(share).max(most);
            break;
        }
        if count == content {
            break;
        }
        (level, content) = (left / (number - count), count);
    }
    for lane in lanes {
        lane.set_advice(now_ns, level);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Span, *};
    use proptest::prelude::*;

    const WINDOW_NS: u64 = 30_000;
    /// A multiple of the window.
    const NOW_NS: u64 = 300 * WINDOW_NS;

    /// A lane, long known, that sent `bytes_per_s` in the last window.
    fn lane(bytes_per_s: u64, backlogged: bool) -> LaneArrivals {
        let mut lane = LaneArrivals::new(0);
        let bytes = bytes_per_s * WINDOW_NS / 1_000_000_000;
        lane.set_advice(0, 1);
        lane.arrive(Span::at(NOW_NS - 1), WINDOW_NS, bytes, backlogged);
        lane
    }

    fn advised(lanes: &mut [LaneArrivals], available: u64) -> u64 {
        fill(lanes, available, NOW_NS, WINDOW_NS);
        let level = lanes[0].advice().bytes_per_s();
        assert!(lanes.iter().all(|lane| lane.advice().bytes_per_s() == level));
        level
    }

    /// Water-filling by sorting, in floating point.
    fn reference(mut wants: Vec<f64>, available: f64) -> f64 {
        wants.sort_by(f64::total_cmp);
        let (share, mut left) = (available / wants.len() as f64, available);
        let (mut number, mut most) = (wants.len(), 0.0);
        for want in wants {
            if want >= left / number as f64 {
                return left / number as f64;
            }
            left -= want;
            number -= 1;
            most = want;
        }
        left.max(share).max(most)
    }

    fn lanes() -> impl Strategy<Value = Vec<(u64, bool)>> {
        proptest::collection::vec((0u64..5_000_000_000, any::<bool>()), 1..60)
    }

    proptest! {
        #[test]
        fn fill__is_max_min_fair(of in lanes(), available in 1_000_000u64..50_000_000_000) {
            let mut lanes: Vec<_> = of.iter().map(|(rate, backlog)| lane(*rate, *backlog)).collect();
            let level = advised(&mut lanes, available);
            let wants = lanes.iter().map(|lane| match lane.demand_bytes_per_s {
                u64::MAX => f64::INFINITY,
                want => want as f64,
            });
            let expected = reference(wants.collect(), available as f64);
            let error = (level as f64 - expected).abs();
            prop_assert!(error <= 128.0 + expected * 1e-9, "{level} {expected}");
        }

        // If all lanes send what they are advised, or what they want if that is less, the line is
        // not overloaded. No lane gets less than an equal share.
        #[test]
        fn fill__gives_no_more_than_there_is(of in lanes(), available in 1_000_000u64..50_000_000_000) {
            let mut lanes: Vec<_> = of.iter().map(|(rate, backlog)| lane(*rate, *backlog)).collect();
            let level = advised(&mut lanes, available);
            let share = available / lanes.len() as u64;
            prop_assert!(level + 64 > share && level <= available);
            let is_limited = lanes.iter().any(|lane| lane.demand_bytes_per_s >= level + 64);
            let used = |lane: &LaneArrivals| lane.demand_bytes_per_s.min(level);
            let sum: u64 = lanes.iter().map(used).sum();
            prop_assert!(!is_limited || sum <= available, "{sum} {available}");
            if of.iter().all(|(_, backlog)| *backlog) {
                prop_assert!(level * lanes.len() as u64 <= available);
            }
        }

        // One lane that wants more raises nobody's advice above what it wants.
        #[test]
        fn fill__is_monotone(
            of in lanes(),
            at: prop::sample::Index,
            more in 0u64..1_000_000_000,
            available in 1_000_000u64..50_000_000_000,
        ) {
            let build = |of: &[(u64, bool)]| of.iter().map(|(r, b)| lane(*r, *b)).collect::<Vec<_>>();
            let before = advised(&mut build(&of), available);
            let mut of = of;
            let at = at.index(of.len());
            of[at].0 += more;
            let mut lanes = build(&of);
            let after = advised(&mut lanes, available);
            let limit = before.max(lanes[at].demand_bytes_per_s);
            prop_assert!(after - 64 <= limit, "{before} {after} {limit}");
        }

        // Without a backlog, and with room on the line, nobody is held back.
        #[test]
        fn fill__holds_back_nobody_if_there_is_room(
            of in proptest::collection::vec(0u64..5_000_000_000, 1..60),
            room in 0u64..1_000_000_000,
        ) {
            let mut lanes: Vec<_> = of.iter().map(|&rate| lane(rate, false)).collect();
            // Lanes want a quarter more than they send, and a quarter of the line together.
            let available = (of.iter().sum::<u64>() + room) * 17 / 10 + 1_000_000;
            let level = advised(&mut lanes, available);
            prop_assert!(of.iter().all(|&rate| rate <= level), "{level}");
        }

        // From half of the others' traffic in short queues to nearly all of it in deep ones.
        #[test]
        fn available__leaves_out_more_of_the_others_with_deeper_queues(
            line in 100u64..50_000_000_000,
            others in 0u64..1 << 60,
            depth_packets: u32,
        ) {
            let found = available(line, others, depth_packets);
            prop_assert!(found >= line / 100 && found <= line);
            // Nothing of the others in one queue, where lanes yield by their windows.
            let part = match depth_packets {
                0 => 0.0,
                depth => 1.0 - f64::min(0.5, 6.0 / f64::from(depth)),
            };
            let subtracted = others as f64 * part;
            let expected = (line as f64 - subtracted).max(line as f64 / 100.0);
            let error = (found as f64 - expected).abs();
            prop_assert!(error <= 2.0 + 1e-12 * others as f64, "{found} {expected}");
            prop_assert!(available(line, others, depth_packets.saturating_add(1).max(8)) <= found);
        }
    }

    proptest! {
        // No more than is subtracted for other traffic, and no more than one share of n + 1.
        #[test]
        fn left_beside__is_that_of_others_or_all_shares_but_one(
            unadvised in prop_oneof![0u64..50_000_000_000, any::<u64>()],
            line in 1_000u64..50_000_000_000,
            lanes in 1u64..3_000,
            depth_packets: u32,
        ) {
            let left = left_beside(unadvised, line, lanes, depth_packets);
            let as_others = line.saturating_sub(subtracted(unadvised, depth_packets));
            prop_assert_eq!(left, as_others.max(line - line / (lanes + 1)));
        }
    }

    #[test]
    fn left_beside__a_stranger_that_sends_much_and_one_that_sends_a_packet() {
        let left = |unadvised| left_beside(unadvised, 12_000_000, 2, 96);
        assert_eq!(left(u64::MAX), 8_000_000);
        assert_eq!(left(84 * 100), 12_000_000 - 7_875);
        assert_eq!(left(0), 12_000_000);
    }

    #[test]
    fn available__of_the_paper_s_queues_and_of_deep_ones() {
        let available = |depth| available(25_000_000, 8_000_000, depth);
        assert_eq!(available(0), 25_000_000);
        assert_eq!([1, 7, 12].map(available), [21_000_000; 3]);
        assert_eq!([24, 96].map(available), [19_000_000, 17_500_000]);
        assert_eq!(super::available(25_000_000, u64::MAX, 96), 250_000);
    }

    #[test]
    fn fill__a_backlogged_straggler_keeps_no_share() {
        // Both have a backlog. One takes its advice, and one is held back elsewhere.
        let mut lanes = [lane(4_000_000_000, true), lane(400_000_000, true)];
        advised(&mut lanes, 5_000_000_000);
        let mut again = lanes;
        again[0].arrive(Span::at(NOW_NS + WINDOW_NS), WINDOW_NS, 135_000, true);
        again[1].arrive(Span::at(NOW_NS + WINDOW_NS), WINDOW_NS, 12_000, true);
        fill(&mut again, 5_000_000_000, NOW_NS + 2 * WINDOW_NS - 1, WINDOW_NS);
        let level = again[0].advice().bytes_per_s();
        assert!((4_300_000_000..4_500_000_000).contains(&level), "{level}");
    }

    #[test]
    fn fill__a_new_lane_counts_as_backlogged_for_two_windows() {
        let mut new = LaneArrivals::new(NOW_NS);
        new.arrive(Span::at(NOW_NS), WINDOW_NS, 1_538, false);
        let mut lanes = [lane(5_000_000_000, true), new];
        assert_eq!(advised(&mut lanes, 5_000_000_000) / 1_000_000, 2_500);
        let later_ns = NOW_NS + 2 * WINDOW_NS;
        lanes[0].arrive(Span::at(later_ns - 1), WINDOW_NS, 150_000, true);
        fill(&mut lanes, 5_000_000_000, later_ns, WINDOW_NS);
        assert!(lanes[0].advice().bytes_per_s() > 4_900_000_000, "{lanes:?}");
    }

    #[test]
    fn is_active__for_a_window_or_four_packets() {
        let mut lane = lane(1_000_000, true);
        assert!(lane.is_active(NOW_NS + WINDOW_NS - 2, WINDOW_NS));
        lane.set_advice(NOW_NS, 5_000_000_000);
        assert!(!lane.is_active(NOW_NS + WINDOW_NS - 1, WINDOW_NS));
        lane.set_advice(NOW_NS, 1_538_000);
        assert!(lane.is_active(NOW_NS + 3_990_000, WINDOW_NS));
        assert!(!lane.is_active(NOW_NS + 4_000_000, WINDOW_NS));
    }
}
