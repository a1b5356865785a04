//! Lanes under advice.

use super::*;
use crate::{laws::RateLaw, wire::Advice};

/// The rate of an exact lane with advice of 10 MB/s after epochs of 100 packets with these losses
/// and marks.
fn exact_rate_with(lost: u64, marked: u64) -> u64 {
    let mut lane = Lane::new(Settings { exact: PodBool::TRUE, ..settings() }, Share::ZERO, 0);
    let mut ring = Ring::default();
    for ms in 1..80 {
        ring.0[usize::from(lane.epoch()) % EPOCHS] = EpochCount {
            sent_packets: 100,
            sent_bytes: 150_000,
            acked_packets: 100 - lost,
            marked_packets: marked,
        };
        lane.advise(Advice::of(10_000_000), ms * MS);
        let view =
            View { now_ns: ms * MS, last_departure_ns: 0, rtt: rtt(MS / 5), tlr: Share::ZERO };
        lane.tick(&view, &mut ring);
    }
    lane.rate().bytes_per_s()
}

#[test]
fn rate__advice_holds_an_exact_lane_up_against_losses_without_marks() {
    let floor = 1_500_000;
    let quarter = exact_rate_with(25, 0);
    assert!((2_450_000..2_500_000).contains(&quarter), "{quarter}");
    // Marks, or a loss of more than half, are congestion.
    assert_eq!((exact_rate_with(25, 1), exact_rate_with(60, 0)), (floor, floor));
    // Advice is no limit to DCTCP.
    assert!(exact_rate_with(0, 0) > 10_000_000);
}

#[test]
fn paced_bytes__are_uneven_for_an_advised_lane_below_an_eighth_of_the_line() {
    let eighth = settings().rate_max.bytes_per_s() / 8;
    // Bytes on the wire: checksum, preamble and gap make the paced rate a little lower.
    let cases =
        [(Advice::NONE, false), (Advice::of(eighth), true), (Advice::of(eighth * 11 / 10), false)];
    for (advice, uneven) in cases {
        let mut lane = Lane::new(settings(), Share::ZERO, 0).at_rate(Rate::from_bytes_per_s(1));
        lane.advise(advice, 0);
        let is_uneven = (0..100).any(|number| lane.paced_bytes(1_474, number) != 1_474);
        assert_eq!((lane.has_uneven_gaps(), is_uneven), (uneven, uneven), "{advice:?}");
    }
    let exact = Settings { exact: PodBool::TRUE, ..settings() };
    let mut lane = Lane::new(exact, Share::ZERO, 0).at_rate(Rate::from_bytes_per_s(1));
    lane.advise(Advice::of(eighth), 0);
    assert!(!lane.has_uneven_gaps(), "an exact lane");
}

fn deep() -> Settings {
    Settings { deep_queues: PodBool::TRUE, ..settings() }
}

#[test]
fn has_uneven_gaps__in_deep_queues_without_advice_at_any_rate() {
    let exact = Settings { exact: PodBool::TRUE, ..deep() };
    for (settings, uneven) in [(deep(), true), (settings(), false), (exact, false)] {
        let mut lane = Lane::new(settings, Share::ZERO, 0);
        assert_eq!(lane.has_uneven_gaps(), uneven, "{settings:?}");
        lane.advise(Advice::of(settings.rate_max.bytes_per_s()), 0);
        assert!(!lane.has_uneven_gaps(), "at the line's rate, with advice");
    }
}

proptest! {
    // Wherever Eq. 1 takes the target: in deep queues, a lane without advice stays where it began.
    #[test]
    fn queue__follows_the_target_unless_advice_lacks_in_deep_queues(
        first in 0..=65_536u32,
        later in 0..=65_536u32,
        is_deep: bool,
        is_advised: bool,
    ) {
        let (first, later) = (Share::from_q16(first), Share::from_q16(later));
        let mut lane = Lane::new(if is_deep { deep() } else { settings() }, first, 0);
        if is_advised {
            lane.advise(Advice::of(1_000_000), 0);
        }
        let view = View { now_ns: MS, last_departure_ns: 0, rtt: rtt(MS / 5), tlr: later };
        lane.tick(&view, &mut Ring::default());
        let target = if is_deep && !is_advised { first } else { later };
        prop_assert_eq!(lane.queue(), queue::of_target_loss_rate(target));
    }
}

#[test]
fn queue__follows_the_target_once_advice_comes_and_until_it_ends() {
    let (first, later) = (Share::from_q16(40_000), Share::from_q16(10_000));
    let (mut lane, mut ring) = (Lane::new(deep(), first, 0), Ring::default());
    let mut queue_at = |lane: &mut Lane, ms: u64| {
        let view = View { now_ns: ms * MS, last_departure_ns: 0, rtt: rtt(MS / 5), tlr: later };
        lane.tick(&view, &mut ring);
        lane.queue()
    };
    assert_eq!(queue_at(&mut lane, 1), 5);
    lane.advise(Advice::of(10_000_000), MS);
    assert_eq!(queue_at(&mut lane, 2), 2);
    assert_eq!(queue_at(&mut lane, 100), 5);
}

#[test]
fn queue__a_starved_lane_without_advice_climbs_in_deep_queues() {
    let (mut lane, mut ring) = (Lane::new(deep(), Share::from_q16(40_000), 0), Ring::default());
    lose(&mut lane, &mut ring, 0, 40);
    assert_eq!(lane.queue(), 1);
}

/// Runs a lane for some epochs in which a tenth of its packets arrives.
fn lose(lane: &mut Lane, ring: &mut Ring, from_ms: u64, epochs: u64) {
    for ms in from_ms..from_ms + epochs {
        let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
        let sent_packets = (lane.rate().bytes_in(MS) / 1_500).max(1);
        *cell = EpochCount {
            sent_packets,
            sent_bytes: sent_packets * 1_500,
            acked_packets: sent_packets / 10,
            marked_packets: 0,
        };
        let now_ns = (ms + 1) * MS;
        let view = View { now_ns, last_departure_ns: 0, rtt: rtt(MS / 5), tlr: Share::ZERO };
        lane.tick(&view, ring);
    }
}

#[test]
fn advise__first_advice_lifts_the_rate_and_no_later_one_does() {
    let mut lane = Lane::new(settings(), Share::ZERO, 0);
    let mut ring = Ring::default();
    lose(&mut lane, &mut ring, 0, 10);
    assert!(lane.rate().bytes_per_s() < 4_000_000, "{:?}", lane.rate());
    let advice = Advice::of(8_000_000);
    lane.advise(advice, 10 * MS);
    let advised = lane.rate().bytes_per_s();
    assert!((7_800_000..8_000_000).contains(&advised), "{advised}");
    // The epoch that was open then is not held against the lane.
    let evaluated = lane.epochs_evaluated();
    lose(&mut lane, &mut ring, 10, 1);
    assert_eq!(lane.rate().bytes_per_s(), advised);
    // Later epochs are.
    lose(&mut lane, &mut ring, 11, 14);
    assert!(lane.epochs_evaluated() > evaluated + 12);
    let low = lane.rate();
    assert!((advised / 8..advised / 4).contains(&low.bytes_per_s()), "{low:?}");
    // No receiver raises the rate again by taking its advice back.
    lane.advise(Advice::NONE, 25 * MS);
    lane.advise(advice, 25 * MS);
    assert_eq!(lane.rate(), low);
}

#[test]
fn advise__raises_no_polite_lane() {
    let polite = Settings { rules: Rules::new(RateLaw::Tfrc), ..settings() };
    let mut lane = Lane::new(polite, Share::ZERO, 0);
    let first = lane.rate();
    lane.advise(Advice::of(20_000_000), 0);
    assert_eq!(lane.rate(), first);
    lane.advise(Advice::of(first.bytes_per_s() / 2), 0);
    assert!(lane.rate().bytes_per_s() <= first.bytes_per_s() / 2);
}
