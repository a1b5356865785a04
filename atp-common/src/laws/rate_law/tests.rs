use super::*;
use crate::laws::rules::Rules;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const RTT_NS: u64 = MS;

fn settings(law: RateLaw) -> Settings {
    Settings {
        rate_max: Rate::from_bytes_per_s(25_000_000),
        step: rate::DEFAULT_STEP,
        epoch_ns_min: MS,
        packet_bytes: 1_500,
        exact: PodBool::NO,
        rules: Rules::new(law),
    }
}

fn exact() -> Settings {
    Settings { exact: PodBool::YES, ..settings(RateLaw::Paper) }
}

fn at(bytes_per_s: u64) -> Rate {
    Rate::from_bytes_per_s(bytes_per_s)
}

/// An epoch of one RTT that sent what the rate allows.
fn seen(epoch: u16, rate: Rate, lost: u64, marked: u64) -> EpochSample {
    let sent_bytes = rate.bytes_in(RTT_NS);
    let sent_packets = (sent_bytes / 1_500).max(1);
    let acked_packets = sent_packets.saturating_sub(lost);
    EpochSample {
        epoch,
        // Evaluated while the next but one is open.
        open_epoch: epoch.wrapping_add(2),
        count: EpochCount {
            sent_packets,
            sent_bytes,
            acked_packets,
            marked_packets: marked.min(acked_packets),
        },
        tlr: Share::ZERO,
        duration_ns: RTT_NS,
        rtt_ns: RTT_NS,
        idle: false,
    }
}

#[test]
fn next__paper_at_its_target_rises_by_rule_only() {
    let with = settings(RateLaw::Paper);
    let without = Settings { rules: with.rules.without(Rule::RaiseAtTarget), ..with };
    let rate = at(5_000_000);
    let (mut memory, _) = Memory::new(&with);
    assert!(memory.next(&with, rate, &seen(0, rate, 0, 0)) > rate);
    assert_eq!(memory.next(&without, rate, &seen(0, rate, 0, 0)), rate);
    assert!(memory.next(&without, rate, &seen(0, rate, 1, 0)) < rate);
    let slack = EpochSample { tlr: Share::from_q16(1), ..seen(0, rate, 0, 0) };
    assert!(memory.next(&without, rate, &slack) > rate);
}

#[test]
fn next__without_a_law_rmax_stays() {
    let base = settings(RateLaw::None);
    let (mut memory, rate) = Memory::new(&base);
    assert_eq!(rate, base.rate_max);
    assert_eq!(memory.next(&base, rate, &seen(0, rate, 10, 0)), base.rate_max);
}

#[test]
fn next__pi_waits_for_eight_packets() {
    let pi = settings(RateLaw::Pi);
    let (mut memory, _) = Memory::new(&pi);
    // Three packets an epoch, all lost.
    let rate = at(4_500_000);
    assert_eq!(memory.next(&pi, rate, &seen(0, rate, 3, 0)), rate);
    assert_eq!(memory.next(&pi, rate, &seen(1, rate, 3, 0)), rate);
    assert!(memory.next(&pi, rate, &seen(2, rate, 3, 0)) < rate);
}

#[test]
fn next__exact_starts_with_a_window_and_doubles() {
    let exact = exact();
    let (mut memory, first) = Memory::new(&exact);
    assert_eq!(first, at(1_500_000), "ten packets in 10 ms");
    let rate = memory.first_rtt(&exact, first, RTT_NS);
    assert_eq!(rate, at(15_000_000), "ten packets per RTT");
    assert_eq!(memory.first_rtt(&exact, first, 0), first);
    let rate = at(5_000_000);
    let doubled = memory.next(&exact, rate, &seen(0, rate, 0, 0));
    assert_eq!(doubled, at(10_000_000));
    // The next epoch evaluated was still sent at the old rate: it tells nothing of the new one.
    assert_eq!(memory.next(&exact, doubled, &seen(1, rate, 0, 0)), doubled);
}

#[test]
fn next__exact_halves_once_for_a_loss() {
    let exact = exact();
    let (mut memory, _) = Memory::new(&exact);
    let rate = at(20_000_000);
    let cut = memory.next(&exact, rate, &seen(10, rate, 1, 0));
    assert_eq!(cut, at(10_000_000));
    // Epochs 11 and 12 were open before the cut.
    assert_eq!(memory.next(&exact, cut, &seen(11, rate, 4, 0)), cut);
    assert_eq!(memory.next(&exact, cut, &seen(12, rate, 4, 0)), cut);
    assert_eq!(memory.next(&exact, cut, &seen(13, cut, 1, 0)), at(5_000_000));
    // A packet per RTT from then on.
    let slow = at(5_000_000);
    assert_eq!(memory.next(&exact, slow, &seen(16, slow, 0, 0)), at(6_500_000));
}

#[test]
fn next__exact_gives_way_by_the_share_of_marks() {
    let exact = exact();
    let (mut memory, _) = Memory::new(&exact);
    let rate = at(24_000_000);
    // Sixteen packets an epoch; every epoch one mark, long enough for alpha to settle at 1/16.
    for epoch in 0..400 {
        memory.next(&exact, rate, &seen(epoch, rate, 0, 1));
    }
    memory.cut = NO_CUT;
    let next = memory.next(&exact, rate, &seen(400, rate, 0, 1));
    let share = next.bytes_per_s() as f64 / rate.bytes_per_s() as f64;
    assert!((share - (1.0 - 1.0 / 32.0)).abs() < 0.001, "{share}");
}

/// Mean rate of a polite lane over 4,000 RTTs in which each `every`-th packet is lost.
fn settled(every: u64) -> f64 {
    let polite = settings(RateLaw::Polite);
    let (mut memory, first) = Memory::new(&polite);
    let mut rate = memory.first_rtt(&polite, first, RTT_NS);
    let (mut sent, mut sum) = (0, 0.0);
    for epoch in 0..4_000u16 {
        let mut seen = seen(epoch, rate, 0, 0);
        let lost = (sent + seen.count.sent_packets) / every - sent / every;
        sent += seen.count.sent_packets;
        seen.count.acked_packets -= lost;
        rate = memory.next(&polite, rate, &seen);
        sum += if epoch >= 2_000 { rate.bytes_per_s() as f64 / 2_000.0 } else { 0.0 };
    }
    sum
}

#[test]
fn next__polite_settles_at_the_equation() {
    // RFC 5348 §3.1 at one loss in a hundred: 11.2 packets per RTT; in four hundred: 24.
    for (every, window) in [(100, 11.2), (400, 24.0)] {
        let expected = f64::min(window * 1_500.0 * 1e3, 25e6);
        let found = settled(every);
        assert!((found / expected - 1.0).abs() < 0.12, "{every}: {found} {expected}");
    }
}

#[test]
fn next__polite_lanes_share_a_queue_evenly() {
    // A port of 20 packets per RTT without a queue: what is too much is lost in proportion.
    let polite = settings(RateLaw::Polite);
    let mut lanes = [0; 2].map(|_| Memory::new(&polite));
    lanes[1].1 = at(20_000_000);
    let mut means = [0.0; 2];
    for epoch in 0..20_000u16 {
        let offered = lanes.iter().map(|(_, rate)| rate.bytes_per_s()).sum::<u64>() as f64;
        let kept = (30_000_000.0 / offered).min(1.0);
        for ((memory, rate), mean) in lanes.iter_mut().zip(&mut means) {
            let mut seen = seen(epoch, *rate, 0, 0);
            let count = &mut seen.count;
            count.acked_packets = (count.sent_packets as f64 * kept) as u64;
            *rate = memory.next(&polite, *rate, &seen).max(at(1_500_000));
            *mean += if epoch >= 10_000 { rate.bytes_per_s() as f64 / 10_000.0 } else { 0.0 };
        }
    }
    let ratio = means[0] / means[1];
    assert!((0.8..1.25).contains(&ratio), "{means:?}");
}

#[test]
fn next__polite_takes_a_mark_for_a_loss() {
    let polite = settings(RateLaw::Polite);
    let outcome = |lost, marked| {
        let (mut memory, _) = Memory::new(&polite);
        let rate = at(15_000_000);
        let once = memory.next(&polite, rate, &seen(0, rate, lost, marked));
        (once < rate, memory.history.is_clean())
    };
    assert_eq!(outcome(0, 0), (false, true));
    assert!(!outcome(0, 1).1);
    assert!(!outcome(1, 0).1);
}

fn laws() -> impl Strategy<Value = RateLaw> {
    (0..RateLaw::ALL.len()).prop_map(|index| RateLaw::ALL[index].0)
}

proptest! {
    #[test]
    fn next__idle_lanes_never_rise(
        law in laws(),
        exact: bool,
        epochs in proptest::collection::vec((0u64..20, 0u64..20), 1..60),
    ) {
        // Without a law there is nothing to hold.
        let settings = Settings { exact: (exact || law == RateLaw::None).into(), ..settings(law) };
        let (mut memory, _) = Memory::new(&settings);
        let mut rate = at(20_000_000);
        for (epoch, (lost, marked)) in (0..).zip(epochs) {
            let seen = EpochSample { idle: true, ..seen(epoch, rate, lost, marked) };
            let next = memory.next(&settings, rate, &seen);
            prop_assert!(next <= rate);
            rate = next.max(at(1_500_000));
        }
    }

    #[test]
    fn next__never_above_rmax(
        law in laws(),
        exact: bool,
        counts in proptest::collection::vec(any::<[u64; 6]>(), 1..60),
        tlr in 0..=65536u32,
    ) {
        let settings = Settings { exact: exact.into(), ..settings(law) };
        let (mut memory, mut rate) = Memory::new(&settings);
        for (epoch, [sent_packets, sent_bytes, acked_packets, marked_packets, duration_ns, rtt_ns]) in (0..).zip(counts) {
            let seen = EpochSample {
                epoch,
                open_epoch: epoch + 1,
                // Whatever the memory that programs count in says.
                count: EpochCount { sent_packets, sent_bytes, acked_packets, marked_packets },
                tlr: Share::from_q16(tlr),
                duration_ns,
                rtt_ns,
                idle: false,
            };
            rate = memory.next(&settings, rate, &seen);
            prop_assert!(rate <= settings.rate_max);
        }
    }
}

proptest! {
    // Against floating point: what is in flight is the same, within what Q16 cuts off of the ratio and
    // a byte/s, and never more than Rmax has.
    #[test]
    fn same_window__keeps_what_is_in_flight(
        rate in 100_000u64..=24_000_000,
        before_ns in 1_000u64..100_000_000,
        change in 0.01f64..200.0,
    ) {
        let exact = exact();
        let (mut memory, _) = Memory::new(&exact);
        let same = |memory: &mut Memory, rate, rtt_ns| {
            memory.same_window(&exact, rate, rtt_ns, at(1_000))
        };
        prop_assert_eq!(same(&mut memory, at(rate), before_ns), at(rate));
        let rtt_ns = (before_ns as f64 / change).max(1.0) as u64;
        let next = same(&mut memory, at(rate), rtt_ns);
        let ratio = before_ns as f64 / rtt_ns as f64;
        let expected = (rate as f64 * ratio).clamp(1_000.0, exact.rate_max.bytes_per_s() as f64);
        let error = (next.bytes_per_s() as f64 - expected).abs();
        prop_assert!(error <= 1.0 + rate as f64 / 65536.0, "{next:?}, {expected}");
        prop_assert!(next <= exact.rate_max);
        // And back again, whatever bound it met: the same, less what is cut off.
        let back = same(&mut memory, next, before_ns).bytes_per_s() as f64;
        let lost = 4.0 + rate as f64 * 0.001 + 65_536.0 * change.recip().max(change) * 0.01;
        prop_assert!(back <= rate as f64 + 4.0 && back >= rate as f64 - lost, "{rate} {back}");
    }
}

#[test]
fn end_start__cuts_once_for_the_marks_of_a_round_trip() {
    let exact = exact();
    let (mut memory, _) = Memory::new(&exact);
    assert!(memory.is_starting());
    let rate = memory.end_start(at(20_000_000), 5);
    assert_eq!((rate, memory.is_starting()), (at(10_000_000), false));
    // The epoch that the marks were seen in, and one that left after the cut.
    assert_eq!(memory.next(&exact, rate, &seen(5, rate, 0, 4)), rate);
    assert!(memory.next(&exact, rate, &seen(6, rate, 0, 4)) < rate);
}
