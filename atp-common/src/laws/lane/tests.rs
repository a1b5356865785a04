use super::*;
use proptest::prelude::*;

mod advice;
mod backlog;

#[derive(Default)]
pub(super) struct Ring(pub(super) [EpochCount; EPOCHS]);

impl Counters for Ring {
    fn read(&self, epoch: u16) -> EpochCount {
        self.0[usize::from(epoch) % EPOCHS]
    }
    fn open(&mut self, epoch: u16) {
        self.0[usize::from(epoch) % EPOCHS] = EpochCount::default();
    }
}

pub(super) const MS: u64 = 1_000_000;

pub(super) fn settings() -> Settings {
    Settings {
        rate_max: Rate::from_bytes_per_s(25_000_000),
        epoch_ns_min: MS,
        packet_bytes: 1500,
        exact: PodBool::FALSE,
        rules: Rules::default(),
        deep_queues: PodBool::FALSE,
    }
}

pub(super) fn rtt(ns: u64) -> Rtt {
    Rtt::default().observe(ns)
}

/// Runs a lane that sends at its full rate through a port with this capacity, and returns its mean
/// rate over the second half.
fn settle(capacity_bytes_per_s: u64, tlr: Share, epochs: u32) -> f64 {
    let mut lane = Lane::new(settings(), tlr, 0);
    let mut ring = Ring::default();
    let mut sum = 0.0;
    for i in 1..=epochs {
        let now_ns = u64::from(i) * MS;
        let offered = lane.rate().bytes_in(MS);
        let carried = offered.min(capacity_bytes_per_s / 1000);
        let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
        cell.sent_bytes += offered;
        cell.sent_packets += offered;
        cell.acked_packets += carried;
        lane.tick(&View { now_ns, last_departure_ns: 0, rtt: rtt(MS / 5), tlr }, &mut ring);
        if i > epochs / 2 {
            sum += lane.rate().bytes_per_s() as f64;
        }
    }
    sum / f64::from(epochs / 2)
}

#[test]
fn tick__fills_a_port_and_overdrives_it_by_the_slack() {
    // Loss at or below TLR raises the rate, so the rate must hover around capacity / (1 - TLR).
    for (tlr, capacity) in [(0.2, 5e6), (0.5, 5e6), (0.0, 5e6)] {
        let rate = settle(capacity as u64, Share::from_q16((tlr * 65536.0) as u32), 2000);
        let ideal = capacity / (1.0 - tlr);
        assert!(rate > 0.75 * ideal && rate < 1.6 * ideal, "TLR {tlr}: {rate} against {ideal}");
    }
}

#[test]
fn tick__reads_no_epoch_before_its_acks_can_be_back() {
    let mut lane = Lane::new(settings(), Share::ZERO, 0);
    let mut ring = Ring::default();
    ring.0[0] =
        EpochCount { sent_packets: 10, sent_bytes: 15_000, acked_packets: 10, marked_packets: 0 };
    let mut view =
        View { now_ns: 10 * MS, last_departure_ns: 14 * MS, rtt: rtt(10 * MS), tlr: Share::ZERO };
    assert_eq!(lane.tick(&view, &mut ring), None);
    assert_eq!(lane.epoch(), 1);
    // 14 ms + 10 ms smoothed + 5 ms deviation.
    view.now_ns = 28 * MS;
    assert_eq!(lane.tick(&view, &mut ring), None);
    view.now_ns = 29 * MS;
    assert_eq!(lane.tick(&view, &mut ring).map(|j| j.epoch), Some(0));
}

#[test]
fn tick__waits_for_the_first_rtt() {
    let mut lane = Lane::new(settings(), Share::ZERO, 0);
    let mut ring = Ring::default();
    let mut view = View { now_ns: 0, last_departure_ns: 0, rtt: Rtt::default(), tlr: Share::ZERO };
    // No ACK can be back yet, so missing ACKs don't count as loss.
    for ms in 1..100 {
        ring.0[usize::from(lane.epoch()) % EPOCHS].sent_packets += 10;
        view.now_ns = ms * MS;
        assert_eq!(lane.tick(&view, &mut ring), None);
    }
    assert_eq!((lane.rate(), lane.queue()), (settings().rate_max, 1));
    // After a long time without an ACK, all packets count as lost.
    for ms in 100..1_000 {
        view.now_ns = ms * MS;
        lane.tick(&view, &mut ring);
    }
    assert!(lane.rate() < settings().rate_max && lane.epochs_evaluated() > 0);
}

#[test]
fn tick__catches_up_after_a_delay() {
    let mut lane = Lane::new(settings(), Share::ZERO, 0);
    let mut ring = Ring::default();
    // Departures far ahead delay the evaluation of ten epochs.
    let mut view =
        View { now_ns: 0, last_departure_ns: 20 * MS, rtt: rtt(MS / 5), tlr: Share::ZERO };
    for ms in 1..=10 {
        ring.0[usize::from(lane.epoch()) % EPOCHS] =
            EpochCount { sent_packets: 1, sent_bytes: 1500, acked_packets: 1, marked_packets: 0 };
        view.now_ns = ms * MS;
        assert_eq!(lane.tick(&view, &mut ring), None);
    }
    view.now_ns = 21 * MS;
    assert_eq!(lane.tick(&view, &mut ring).map(|evaluation| evaluation.epoch), Some(9));
    assert_eq!(lane.epochs_evaluated(), 10);
}

#[test]
fn tick__growth_is_no_sign_of_idleness() {
    // Every epoch sends at the full rate of its opening, and the rate grows fast.
    let rate_max = Rate::from_bytes_per_s(1_250_000_000);
    let mut lane = Lane::new(Settings { rate_max, ..settings() }, Share::ZERO, 0);
    lane.rate = Rate::from_bytes_per_s(20_000_000);
    lane.opened_rate = lane.rate;
    let mut ring = Ring::default();
    let mut grown = 0;
    for ms in 1..=6 {
        let sent_bytes = lane.opened_rate.bytes_in(MS);
        ring.0[usize::from(lane.epoch()) % EPOCHS] =
            EpochCount { sent_packets: 2, sent_bytes, acked_packets: 2, marked_packets: 0 };
        let view = View { now_ns: ms * MS, last_departure_ns: 0, rtt: rtt(1000), tlr: Share::ZERO };
        let before = lane.rate();
        lane.tick(&view, &mut ring);
        grown += usize::from(lane.rate() > before);
    }
    assert_eq!(grown, 5, "every evaluated epoch but the first tick's");
}

#[test]
fn tick__an_idle_lane_does_not_grow() {
    let mut lane = Lane::new(settings(), Share::ZERO, 0);
    lane.rate = Rate::from_bytes_per_s(10_000_000);
    let mut ring = Ring::default();
    for i in 1..100u64 {
        let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
        *cell =
            EpochCount { sent_packets: 1, sent_bytes: 1500, acked_packets: 1, marked_packets: 0 };
        let view = View { now_ns: i * MS, last_departure_ns: 0, rtt: rtt(1000), tlr: Share::ZERO };
        lane.tick(&view, &mut ring);
    }
    assert_eq!(lane.rate().bytes_per_s(), 10_000_000);
}

#[test]
fn tick__the_floor_does_not_sink_with_the_hosts_own_queue() {
    // Every packet is lost, and the RTT is the time of six packets at the lane's own rate.
    let mut lane = Lane::new(settings(), Share::ZERO, 0);
    let mut ring = Ring::default();
    let (mut now_ns, mut rtt) = (0, rtt(MS / 5));
    for _ in 0..2000 {
        now_ns += MS;
        let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
        cell.sent_packets += 1;
        rtt = rtt.observe(lane.rate().duration_ns(6 * 1500));
        lane.tick(&View { now_ns, last_departure_ns: 0, rtt, tlr: Share::ZERO }, &mut ring);
    }
    assert_eq!(lane.rate(), rate::floor(1500, MS / 5, MS));
}

#[test]
fn tick__exact_lanes_stay_in_queue_zero() {
    let mut lane = Lane::new(Settings { exact: PodBool::TRUE, ..settings() }, Share::ZERO, 0);
    let mut ring = Ring::default();
    for i in 1..100u64 {
        let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
        *cell = EpochCount {
            sent_packets: 10,
            sent_bytes: 15_000,
            acked_packets: 0,
            marked_packets: 0,
        };
        let view = View { now_ns: i * MS, last_departure_ns: 0, rtt: rtt(1000), tlr: Share::ZERO };
        lane.tick(&view, &mut ring);
        assert_eq!(lane.queue(), queue::EXACT);
    }
}

proptest! {
    #[test]
    fn tick__rate_stays_between_floor_and_maximum(
        law in 0..RateLaw::ALL.len(),
        exact: bool,
        steps in proptest::collection::vec((1u64..20 * MS, 0u64..100, 0u64..100, 0u64..5 * MS, 0..=65536u32), 1..400)
    ) {
        let rules = Rules::new(RateLaw::ALL[law].0);
        let mut lane = Lane::new(Settings { rules, exact: exact.into(), ..settings() }, Share::ZERO, 0);
        let mut ring = Ring::default();
        let mut now_ns = 0;
        for (gap, sent, acked, sample, tlr) in steps {
            now_ns += gap;
            let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
            cell.sent_packets += sent;
            cell.acked_packets += acked;
            let tlr = Share::from_q16(tlr);
            let view = View { now_ns, last_departure_ns: 0, rtt: rtt(sample), tlr };
            lane.tick(&view, &mut ring);
            prop_assert!(lane.rate() <= settings().rate_max);
            // Before the first evaluation, a lane in slow start may be below the floor.
            let floor = rate::floor(1500, 5 * MS, MS);
            prop_assert!(lane.rate() >= floor || lane.epochs_evaluated() == 0);
            prop_assert!(lane.queue() <= 7);
            prop_assert_eq!(lane.queue() == queue::EXACT, exact);
        }
    }
}

/// Ticks every millisecond with ten packets an epoch, of which `acked` are acknowledged.
fn run(lane: &mut Lane, epochs: u64, acked: u64, tlr: Share) {
    let mut ring = Ring::default();
    for i in 1..=epochs {
        let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
        *cell = EpochCount {
            sent_packets: 10,
            sent_bytes: 15_000,
            acked_packets: acked,
            marked_packets: 0,
        };
        let view = View { now_ns: i * MS, last_departure_ns: 0, rtt: rtt(MS / 5), tlr };
        lane.tick(&view, &mut ring);
    }
}

#[test]
fn tick__without_dynamic_queue_a_lane_stays_in_its_first_queue() {
    let half = Share::from_q16(1 << 15);
    let queues = |rules| {
        let mut lane = Lane::new(Settings { rules, ..settings() }, half, 0);
        let first = lane.queue();
        run(&mut lane, 50, 10, Share::ZERO);
        (first, lane.queue())
    };
    assert_eq!(queues(Rules::default()), (4, 1));
    assert_eq!(queues(Rules::default().without(Rule::DynamicQueue)), (4, 4));
}

#[test]
fn tick__only_a_starved_lane_climbs() {
    let half = Share::from_q16(1 << 15);
    let queue = |rules| {
        let mut lane = Lane::new(Settings { rules, ..settings() }, half, 0);
        run(&mut lane, 50, 1, half);
        lane.queue()
    };
    assert_eq!(queue(Rules::default()), 1);
    assert_eq!(queue(Rules::default().without(Rule::StarvationRecovery)), 4);
}

#[test]
fn tick__without_evaluate_late_acks_in_flight_count_as_losses() {
    let evaluated = |rules| {
        let mut lane = Lane::new(Settings { rules, ..settings() }, Share::ZERO, 0);
        let mut ring = Ring::default();
        ring.0[0] = EpochCount { sent_packets: 10, sent_bytes: 15_000, ..EpochCount::default() };
        let mut view =
            View { now_ns: MS, last_departure_ns: 0, rtt: rtt(MS / 2), tlr: Share::ZERO };
        lane.tick(&view, &mut ring);
        view.now_ns += MS / 10;
        lane.tick(&view, &mut ring).map(|evaluation| evaluation.loss)
    };
    assert_eq!(evaluated(Rules::default()), None);
    assert_eq!(evaluated(Rules::default().without(Rule::EvaluateLate)), Some(Share::ONE));
}

#[test]
fn tick__without_floor_per_epoch_the_least_rate_is_a_packet_per_rtt() {
    let floor = |rules| {
        let mut lane = Lane::new(Settings { rules, ..settings() }, Share::ZERO, 0);
        run(&mut lane, 500, 0, Share::ZERO);
        lane.rate()
    };
    assert_eq!(floor(Rules::default()), rate::floor(1500, MS / 5, MS));
    let per_rtt = floor(Rules::default().without(Rule::FloorPerEpoch));
    assert_eq!(per_rtt, rate::floor(1500, MS / 5, 0));
}

#[test]
fn tick__the_least_rate_of_a_starved_lane_is_a_thousandth_of_a_fast_line() {
    let least = |rate_max, epoch_ns_min, exact: bool| {
        let rate_max = Rate::from_bytes_per_s(rate_max);
        let settings = Settings { rate_max, epoch_ns_min, exact: exact.into(), ..settings() };
        let mut lane = Lane::new(settings, Share::ZERO, 0);
        run(&mut lane, 500, 0, Share::ZERO);
        lane.rate().bytes_per_s()
    };
    assert_eq!(least(5_000_000_000, MS / 10, false), 5_000_000);
    // A packet per shortest epoch, and per millisecond at most: exact lanes, and slower lines.
    assert_eq!(least(5_000_000_000, 2 * MS, false), 750_000);
    assert_eq!(least(5_000_000_000, MS / 10, true), 1_500_000);
    assert_eq!(least(125_000_000, MS / 10, false), 1_500_000);
}

#[test]
fn tick__exact_and_tfrc_lanes_start_with_a_window_per_rtt() {
    let rates = |settings| {
        let mut lane = Lane::new(settings, Share::ZERO, 0);
        let mut ring = Ring::default();
        let before = lane.rate();
        let view = View { now_ns: MS, last_departure_ns: 0, rtt: rtt(4 * MS), tlr: Share::ZERO };
        lane.tick(&view, &mut ring);
        (before.bytes_per_s(), lane.rate().bytes_per_s())
    };
    let tfrc = Rules::new(RateLaw::Tfrc);
    assert_eq!(rates(Settings { rules: tfrc, ..settings() }), (150_000, 3_750_000));
    assert_eq!(rates(Settings { exact: PodBool::TRUE, ..settings() }), (1_500_000, 3_750_000));
    assert_eq!(rates(settings()), (25_000_000, 25_000_000));
    // A lane that continues at a rate from elsewhere skips slow start.
    let lane = Lane::new(Settings { exact: PodBool::TRUE, ..settings() }, Share::ZERO, 0);
    let rate = Rate::from_bytes_per_s(2_000_000);
    let mut lane = lane.at_rate(rate);
    let view = View { now_ns: MS, last_departure_ns: 0, rtt: rtt(MS), tlr: Share::ZERO };
    lane.tick(&view, &mut Ring::default());
    assert_eq!(lane.rate(), rate);
}

proptest! {
    // Steps packet by packet, as in the eBPF programs, equal one tick in the daemon. Before
    // `idle_until_ns`, on which `due_ns` depends, a step changes neither epoch nor evaluation.
    #[test]
    fn step__again_and_again_is_a_tick(
        law in 0..RateLaw::ALL.len(),
        exact: bool,
        steps in proptest::collection::vec(
            (1u64..20 * MS, 0u64..20, 0u64..20, 0u64..5 * MS, 0..=65536u32, 0u64..10 * MS), 1..200)
    ) {
        let rules = Rules::new(RateLaw::ALL[law].0);
        let start = Lane::new(Settings { rules, exact: exact.into(), ..settings() }, Share::ZERO, 0);
        let (mut ticking, mut stepping) = ((start, Ring::default()), (start, Ring::default()));
        let (mut now_ns, mut rtt) = (0, Rtt::default());
        for (wait_ns, sent, acked, rtt_ns, tlr, ahead_ns) in steps {
            now_ns += wait_ns;
            rtt = rtt.observe(rtt_ns);
            for (lane, ring) in [&mut ticking, &mut stepping] {
                let count = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
                count.sent_packets += sent;
                count.sent_bytes += sent * 1_000;
                count.acked_packets += acked.min(sent);
            }
            let view = View {
                now_ns, last_departure_ns: now_ns + ahead_ns, rtt, tlr: Share::from_q16(tlr) };
            let idle = stepping.0.idle_until_ns(rtt) > now_ns;
            let untouched = stepping.0;
            for _ in 0..=EPOCHS {
                let before = stepping.0;
                stepping.0.step(&view, &mut stepping.1);
                if stepping.0.idle_until_ns(rtt) > now_ns || stepping.0 == before {
                    break;
                }
            }
            let did = (stepping.0.epoch(), stepping.0.unevaluated) != (untouched.epoch(), untouched.unevaluated);
            prop_assert_eq!(did, !idle);
            ticking.0.tick(&view, &mut ticking.1);
            prop_assert_eq!(ticking.0, stepping.0);
        }
    }
}

#[test]
fn due_ns__looks_again_soon_while_the_rtt_is_unknown() {
    let unknown = Rtt::default();
    let mut lane = Lane::new(settings(), Share::ZERO, 0);
    let mut ring = Ring::default();
    let view = |now_ns| View { now_ns, last_departure_ns: now_ns, rtt: unknown, tlr: Share::ZERO };
    // The ring of epochs fills up, because the oldest is evaluated only after 200 ms.
    for i in 0..100 {
        lane.step(&view(i * 10 * MS), &mut ring);
        let wait_ns = lane.due_ns(i * 10 * MS, unknown) - i * 10 * MS;
        assert!(wait_ns <= settings().epoch_ns_min, "{wait_ns}");
    }
}

#[test]
fn tick__total_loss_before_any_rtt_never_raises_the_rate() {
    for (law, _) in RateLaw::ALL {
        for exact in [PodBool::FALSE, PodBool::TRUE] {
            let rules = Rules::new(law);
            let settings = Settings { rules, exact, epoch_ns_min: 10_000, ..settings() };
            let mut lane = Lane::new(settings, Share::ZERO, 0);
            let mut ring = Ring::default();
            let mut rate = lane.rate();
            for now_ns in (0..400 * MS).step_by(100_000) {
                let count = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
                count.sent_packets += 1;
                count.sent_bytes += 1_000;
                let rtt = Rtt::default();
                lane.tick(
                    &View { now_ns, last_departure_ns: now_ns, rtt, tlr: Share::ZERO },
                    &mut ring,
                );
                assert!(lane.rate() <= rate, "{law:?}: {rate:?}, then {:?}", lane.rate());
                rate = lane.rate();
            }
            assert!(lane.epochs_evaluated() > 0);
        }
    }
}

/// An exact lane that is past its start, at 10 MB/s with an RTT of 2 ms.
fn exact_lane(last_departure_ns: u64) -> (Lane, Ring, View) {
    let lane = Lane::new(Settings { exact: PodBool::TRUE, ..settings() }, Share::ZERO, 0);
    let mut lane = lane.at_rate(Rate::from_bytes_per_s(10_000_000));
    let mut ring = Ring::default();
    let view = View { now_ns: MS, last_departure_ns, rtt: rtt(2 * MS), tlr: Share::ZERO };
    lane.tick(&view, &mut ring);
    (lane, ring, view)
}

#[test]
fn tick__an_exact_lane_keeps_its_window_when_the_rtt_grows() {
    let after = |last_departure_ns, rtt_ns| {
        let (mut lane, mut ring, view) = exact_lane(last_departure_ns);
        lane.tick(&View { rtt: rtt(rtt_ns), ..view }, &mut ring);
        lane.rate().bytes_per_s()
    };
    assert_eq!(after(MS, 2 * MS), 10_000_000);
    assert_eq!(after(MS, 4 * MS), 5_000_000);
    // No epoch is shorter than 1 ms, so a shorter RTT counts as 1 ms.
    assert_eq!(after(MS, MS / 10), 20_000_000);
    // Where departures aren't known, the host's own queue is part of the RTT.
    assert_eq!(after(0, 4 * MS), 10_000_000);
}

#[test]
fn tick__a_mark_ends_slow_start_before_its_epoch_is_evaluated() {
    let mut lane = Lane::new(Settings { exact: PodBool::TRUE, ..settings() }, Share::ZERO, 0);
    let mut ring = Ring::default();
    let view = View { now_ns: MS / 2, last_departure_ns: MS, rtt: rtt(MS), tlr: Share::ZERO };
    lane.tick(&view, &mut ring);
    let rate = lane.rate();
    ring.0[0] =
        EpochCount { sent_packets: 9, sent_bytes: 9_000, acked_packets: 1, marked_packets: 1 };
    assert_eq!(lane.tick(&view, &mut ring), None);
    assert_eq!(lane.rate().bytes_per_s(), rate.bytes_per_s() / 2);
}

/// The loss that a lane sees in an epoch of 100 packets, 60 of which have an ACK.
fn loss_with(acks_lost: Share, exact: bool) -> f64 {
    let settings = Settings { exact: exact.into(), ..settings() };
    let mut lane = Lane::new(settings, Share::ZERO, 0);
    lane.set_acks_lost(acks_lost);
    let mut ring = Ring::default();
    let view = |now_ns| View { now_ns, last_departure_ns: 0, rtt: rtt(MS / 5), tlr: Share::ZERO };
    ring.0[0] =
        EpochCount { sent_packets: 100, sent_bytes: 150_000, acked_packets: 60, marked_packets: 0 };
    lane.tick(&view(MS), &mut ring);
    lane.tick(&view(2 * MS), &mut ring);
    f64::from(lane.loss().q16()) / 65_536.0
}

#[test]
fn set_acks_lost__takes_lost_acks_for_what_they_are() {
    let share = |percent| Share::of(percent, 100);
    for (percent, loss) in [(0, 0.4), (20, 0.25), (30, 0.14), (40, 0.0), (50, 0.0), (100, 0.0)] {
        let found = loss_with(share(percent), false);
        assert!((found - loss).abs() < 0.006, "{percent} %: {found} instead of {loss}");
    }
}

#[test]
fn set_acks_lost__hides_half_of_the_losses_at_most() {
    let settings = settings();
    let mut lane = Lane::new(settings, Share::ZERO, 0);
    lane.set_acks_lost(Share::ONE);
    let count = EpochCount { sent_packets: 100, acked_packets: 10, ..EpochCount::default() };
    assert_eq!(count.with_acks_lost(lane.acks_lost).acked_packets, 20);
}

#[test]
fn set_acks_lost__exact_lanes_hide_nothing() {
    assert!((loss_with(Share::of(1, 2), true) - 0.4).abs() < 0.001);
}

#[test]
fn with_first_window__exact_lane_sends_at_rmax_until_it_receives_or_loses_something() {
    let exact = Settings { exact: PodBool::TRUE, ..settings() };
    let new = |settings| Lane::new(settings, Share::ZERO, 0).with_first_window();
    assert_eq!(new(settings()), Lane::new(settings(), Share::ZERO, 0), "an approximate lane");
    let first = Lane::new(exact, Share::ZERO, 0).rate();
    let view = |now_ns, rtt| View { now_ns, last_departure_ns: 0, rtt, tlr: Share::ZERO };
    let (mut known, mut silent) = (new(exact), new(exact));
    assert!(first < exact.rate_max && known.rate() == exact.rate_max);
    let mut ring = Ring::default();
    ring.0[0].sent_packets = 16;
    silent.tick(&view(MS, Rtt::default()), &mut ring);
    assert_eq!(silent.rate(), exact.rate_max);
    for ms in 2..1_000 {
        silent.tick(&view(ms * MS, Rtt::default()), &mut ring);
    }
    assert!(silent.epochs_evaluated() > 0 && silent.rate() <= first, "all ACKs are missing");
    known.tick(&view(MS, rtt(MS)), &mut Ring::default());
    assert!(known.rate() < exact.rate_max);
}

#[test]
fn set_draining__quarters_the_rate_of_lanes_with_a_window() {
    let quarter = |law, exact: bool| {
        let settings = Settings { rules: Rules::new(law), exact: exact.into(), ..settings() };
        let mut lane = Lane::new(settings, Share::ZERO, 0);
        let before = lane.rate().bytes_per_s();
        lane.set_draining(true);
        let during = lane.rate().bytes_per_s();
        lane.set_draining(false);
        assert_eq!(lane.rate().bytes_per_s(), before);
        during < before && during == before / 4
    };
    for (law, _) in RateLaw::ALL {
        assert_eq!(quarter(law, false), law == RateLaw::Yield);
        assert!(!quarter(law, true));
    }
}
