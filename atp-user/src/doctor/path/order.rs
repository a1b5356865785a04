//! Whether queues of high priority are served before those of low priority, from two trains.
//!
//! The first train has one class, and measures the rate of the bottleneck. In the second train each
//! of two classes has three quarters of that rate. Both classes together overload the bottleneck,
//! and each alone doesn't. Then a strict scheduler delays and drops low packets only, a fair one
//! delays or drops both, and a single queue treats both alike.

use super::prober::{Planned, Train};
use std::time::Duration;

/// Fewer packets of a class, in the second half of a train, show nothing.
const PACKETS_MIN: usize = 10;
/// The share of the bottleneck's rate that each class gets.
const CLASS_SHARE: f64 = 0.75;
/// Above these, packets wait or are lost. The machines at both ends add less than that to a median.
const DELAY_NS_MIN: u64 = 500_000;
const LOSS_MIN: f64 = 0.05;
/// The differences between two classes that count.
const LOSS_DIFFERENCE_MIN: f64 = 0.25;
const SMALL_LOSS_DIFFERENCE: f64 = 0.10;
const DELAY_RATIO_MIN: u64 = 4;
const SMALL_DELAY_RATIO: u64 = 2;

/// The conclusion from the trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Only low packets wait or are lost.
    Strict,
    /// High packets fare better, but wait or are lost too.
    Preferred,
    /// Packets wait or are lost, alike in both classes.
    Alike,
    /// Low packets fare better.
    Reversed,
    /// Hardly a packet waits or is lost.
    NotCongested,
}

/// How one class fared in the second half of a train.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fate {
    /// The share of packets that did not arrive.
    pub loss: f64,
    /// The median delay beyond the shortest of all packets, nanoseconds; `None` without arrivals.
    pub delay_ns: Option<u64>,
}

/// Packets of one class at a rate.
pub fn one_class(
    class: u8,
    rate_bytes_per_s: f64,
    wire_bytes: usize,
    time: Duration,
) -> Vec<Planned> {
    let interval = wire_bytes as f64 / rate_bytes_per_s.max(1.0);
    let count = (time.as_secs_f64() / interval) as usize;
    let at = |number: usize| Duration::from_secs_f64(number as f64 * interval);
    (0..count.max(1)).map(|number| Planned { at: at(number), traffic_class: class }).collect()
}

/// Packets of two classes, interleaved one by one, with `rate` for both together.
pub fn two_classes(
    (high, low): (u8, u8),
    rate_bytes_per_s: f64,
    wire_bytes: usize,
    time: Duration,
) -> Vec<Planned> {
    let mut plan = one_class(high, rate_bytes_per_s, wire_bytes, time);
    plan.iter_mut().skip(1).step_by(2).for_each(|planned| planned.traffic_class = low);
    plan
}

/// The rate of the second train, both classes together: it overloads the bottleneck if the first
/// train did, and never exceeds the first train's rate.
pub fn overload(bottleneck_bytes_per_s: Option<f64>, rate_bytes_per_s: f64) -> f64 {
    let wanted = bottleneck_bytes_per_s.map(|bottleneck| 2.0 * CLASS_SHARE * bottleneck);
    wanted.unwrap_or(rate_bytes_per_s).min(rate_bytes_per_s)
}

/// The rate at which a train arrived, if it overloaded the path; `None` if it didn't.
pub fn bottleneck_bytes_per_s(train: &Train, wire_bytes: usize) -> Option<f64> {
    let fate = fate(train, |_| true)?;
    if !is_congested(fate) {
        return None;
    }
    // The first quarter may have passed before a queue was full.
    let from = train.sent.len() as u32 / 4;
    let times = || train.arrived.range(from..).map(|(_, arrival)| arrival.at_ns);
    let (first, last, count) = (times().min()?, times().max()?, times().count());
    let seconds = (last - first) as f64 / 1e9;
    (count > 1 && seconds > 0.0).then(|| (count - 1) as f64 * wire_bytes as f64 / seconds)
}

/// The rate at which a train left. A busy sender is slower than its plan.
pub fn sent_bytes_per_s(train: &Train, wire_bytes: usize) -> f64 {
    let (Some(first), Some(last)) = (train.sent.first(), train.sent.last()) else { return 0.0 };
    let seconds = last.at_ns.saturating_sub(first.at_ns).max(1) as f64 / 1e9;
    (train.sent.len() - 1) as f64 * wire_bytes as f64 / seconds
}

/// The fates of the high and the low class in a train; `None` if the train is too short, or nothing
/// arrived.
pub fn fates(train: &Train, (high, low): (u8, u8)) -> Option<(Fate, Fate)> {
    Some((fate(train, |class| class == high)?, fate(train, |class| class == low)?))
}

fn fate(train: &Train, is_of_class: impl Fn(u8) -> bool) -> Option<Fate> {
    // The clocks of both hosts differ by an unknown constant, so only differences count.
    let delay = |number: u32| {
        let (sent, arrival) = (train.sent.get(number as usize)?, train.arrived.get(&number)?);
        Some(i128::from(arrival.at_ns) - i128::from(sent.at_ns))
    };
    let numbers = 0..train.sent.len() as u32;
    let shortest = numbers.clone().filter_map(delay).min()?;
    let half = numbers.end / 2;
    let own: Vec<u32> = (half..numbers.end)
        .filter(|number| is_of_class(train.sent[*number as usize].traffic_class))
        .collect();
    if own.len() < PACKETS_MIN {
        return None;
    }
    let mut delays: Vec<u64> = own
        .iter()
        .filter_map(|number| delay(*number))
        .map(|delay| u64::try_from(delay - shortest).unwrap_or(u64::MAX))
        .collect();
    delays.sort_unstable();
    let loss = 1.0 - delays.len() as f64 / own.len() as f64;
    Some(Fate { loss, delay_ns: delays.get(delays.len() / 2).copied() })
}

fn is_congested(fate: Fate) -> bool {
    fate.loss >= LOSS_MIN || fate.delay_ns.is_none_or(|delay| delay >= DELAY_NS_MIN)
}

/// The longest median delay of a class that a strict order of queues explains, nanoseconds. A
/// packet waits for the packet that is being sent, and for earlier packets of its own class: a busy
/// sender sends in bursts.
pub fn strict_delay_ns(
    train: &Train,
    class: u8,
    bottleneck_bytes_per_s: Option<f64>,
    wire_bytes: usize,
) -> u64 {
    let service_ns =
        bottleneck_bytes_per_s.map_or(0, |rate| (wire_bytes as f64 / rate.max(1.0) * 1e9) as u64);
    let half = train.sent.len() / 2;
    let (mut waits, mut free_at_ns) = (Vec::new(), 0);
    for (number, sent) in train.sent.iter().enumerate() {
        if sent.traffic_class == class {
            let start_ns = free_at_ns.max(sent.at_ns);
            free_at_ns = start_ns + service_ns;
            waits.extend((number >= half).then_some(start_ns - sent.at_ns));
        }
    }
    waits.sort_unstable();
    let own_ns = waits.get(waits.len() / 2).copied().unwrap_or(0);
    DELAY_NS_MIN.max(2 * service_ns) + 2 * own_ns
}

/// Compares the classes. `strict_delay_ns` is the longest delay of the high class that a strict
/// order explains.
pub fn verdict(high: Fate, low: Fate, strict_delay_ns: u64) -> Verdict {
    let high_is_delayed = high.delay_ns.is_none_or(|delay| delay >= strict_delay_ns);
    let high_suffers = high.loss >= LOSS_MIN || high_is_delayed;
    if !is_congested(high) && !is_congested(low) {
        return Verdict::NotCongested;
    }
    match (fares_better(high, low), fares_better(low, high)) {
        (true, false) if !high_suffers && much_better(high, low) => Verdict::Strict,
        (true, false) => Verdict::Preferred,
        (false, true) => Verdict::Reversed,
        _ => Verdict::Alike,
    }
}

fn much_better(one: Fate, other: Fate) -> bool {
    other.loss - one.loss >= LOSS_DIFFERENCE_MIN || is_shorter(one, other, DELAY_RATIO_MIN)
}

fn fares_better(one: Fate, other: Fate) -> bool {
    other.loss - one.loss >= SMALL_LOSS_DIFFERENCE
        || (other.loss >= one.loss - LOSS_MIN && is_shorter(one, other, SMALL_DELAY_RATIO))
}

/// Whether the delay of one class is so many times shorter, and by a time that counts.
fn is_shorter(one: Fate, other: Fate, ratio: u64) -> bool {
    let (Some(one), Some(other)) = (one.delay_ns, other.delay_ns) else { return false };
    other >= one.saturating_mul(ratio) && other - one >= DELAY_NS_MIN
}

#[cfg(test)]
mod tests {
    use super::{
        super::{prober::Sent, wire::Arrival},
        *,
    };

    const HIGH: u8 = 2;
    const LOW: u8 = 27 << 2;
    const BYTES: usize = 1_250;
    /// The sender's clock is ahead of the answerer's.
    const CLOCK_NS: u64 = 1 << 40;

    /// A bottleneck that serves `per_packet_us` per packet, from one or two queues of `limit`
    /// packets, in steps of a microsecond.
    fn bottleneck(plan: &[Planned], per_packet_us: u64, limit: usize, is_strict: bool) -> Train {
        let mut queues: [Vec<u32>; 2] = Default::default();
        let (mut next, mut train, mut busy_until) = (0, Train::default(), 0);
        for now_us in 0..400_000u64 {
            while plan.get(next).is_some_and(|planned| planned.at.as_micros() as u64 <= now_us) {
                let class = plan[next].traffic_class;
                let at_ns = CLOCK_NS + now_us * 1_000;
                train.sent.push(Sent { traffic_class: class, at_ns });
                let queue = &mut queues[usize::from(is_strict && class == LOW)];
                if queue.len() < limit {
                    queue.push(next as u32);
                }
                next += 1;
            }
            if now_us >= busy_until
                && let Some(queue) = queues.iter_mut().find(|queue| !queue.is_empty())
            {
                let number = queue.remove(0);
                busy_until = now_us + per_packet_us;
                let at_ns = busy_until * 1_000;
                train.arrived.insert(number, Arrival { number, at_ns, traffic_class: 0 });
            }
        }
        train
    }

    /// 20 Mbit/s: 500 us per packet; offered 30 Mbit/s.
    fn second_train() -> Vec<Planned> {
        two_classes((HIGH, LOW), 3_750_000.0, BYTES, Duration::from_millis(200))
    }

    fn verdict_of(train: &Train) -> Verdict {
        let (high, low) = fates(train, (HIGH, LOW)).unwrap();
        let bottleneck = Some(BYTES as f64 / 500e-6);
        verdict(high, low, strict_delay_ns(train, HIGH, bottleneck, BYTES))
    }

    #[test]
    fn verdict__strict_with_deep_and_with_tiny_queues() {
        for limit in [1_000, 2] {
            let train = bottleneck(&second_train(), 500, limit, true);
            assert_eq!(verdict_of(&train), Verdict::Strict, "{limit}");
        }
    }

    #[test]
    fn verdict__one_queue_is_alike() {
        for limit in [1_000, 20] {
            let train = bottleneck(&second_train(), 500, limit, false);
            assert_eq!(verdict_of(&train), Verdict::Alike, "{limit}");
        }
    }

    #[test]
    fn verdict__an_idle_path_shows_nothing() {
        for is_strict in [false, true] {
            let train = bottleneck(&second_train(), 20, 1_000, is_strict);
            assert_eq!(verdict_of(&train), Verdict::NotCongested);
        }
    }

    #[test]
    fn fates__of_a_train_that_is_too_short() {
        let plan = two_classes((HIGH, LOW), 3_750_000.0, BYTES, Duration::from_millis(10));
        assert_eq!(fates(&bottleneck(&plan, 500, 256, true), (HIGH, LOW)), None);
    }

    #[test]
    fn verdict__of_fates() {
        let fate = |loss, us: u64| Fate { loss, delay_ns: Some(us * 1_000) };
        assert_eq!(verdict(fate(0.33, 3_000), fate(0.0, 100), DELAY_NS_MIN), Verdict::Reversed);
        // Two fair queues: the high class has more than its share, too.
        assert_eq!(verdict(fate(0.33, 3_000), fate(0.33, 3_000), DELAY_NS_MIN), Verdict::Alike);
        assert_eq!(verdict(fate(0.10, 2_000), fate(0.50, 9_000), DELAY_NS_MIN), Verdict::Preferred);
        let starved = Fate { loss: 1.0, delay_ns: None };
        assert_eq!(verdict(fate(0.0, 50), starved, DELAY_NS_MIN), Verdict::Strict);
        assert_eq!(verdict(starved, starved, DELAY_NS_MIN), Verdict::Alike);
        // A slow link: a high packet waits for the low packet that is being sent.
        assert_eq!(verdict(fate(0.0, 2_000), fate(0.0, 90_000), 4_000_000), Verdict::Strict);
        assert_eq!(verdict(fate(0.0, 2_000), fate(0.0, 90_000), DELAY_NS_MIN), Verdict::Preferred);
    }

    #[test]
    fn verdict__a_bursty_sender_delays_itself() {
        // Forty packets leave at once, twenty of each class.
        let mut plan = second_train();
        for burst in plan.chunks_mut(40) {
            let at = burst[0].at;
            burst.iter_mut().for_each(|planned| planned.at = at);
        }
        let train = bottleneck(&plan, 500, 257, true);
        let (high, _) = fates(&train, (HIGH, LOW)).unwrap();
        assert!(high.delay_ns.unwrap() > 4 * DELAY_NS_MIN, "{high:?}");
        assert_eq!(verdict_of(&train), Verdict::Strict);
        assert_eq!(verdict_of(&bottleneck(&plan, 500, 257, false)), Verdict::Alike);
    }

    #[test]
    fn bottleneck_bytes_per_s__only_if_the_train_overloads_it() {
        let plan = one_class(HIGH, 5_000_000.0, BYTES, Duration::from_millis(100));
        let measured =
            bottleneck_bytes_per_s(&bottleneck(&plan, 500, 256, false), BYTES).expect("overloaded");
        assert!((measured / 2_500_000.0 - 1.0).abs() < 0.05, "{measured}");
        assert_eq!(bottleneck_bytes_per_s(&bottleneck(&plan, 100, 256, false), BYTES), None);
        assert_eq!(bottleneck_bytes_per_s(&Train::default(), BYTES), None);
    }

    #[test]
    fn overload__stays_below_the_probe_rate() {
        assert_eq!(overload(None, 10.0), 10.0);
        assert_eq!(overload(Some(4.0), 10.0), 6.0);
        assert_eq!(overload(Some(9.0), 10.0), 10.0);
    }

    #[test]
    fn two_classes__alternate_at_the_rate() {
        let plan = two_classes((HIGH, LOW), 1e6, 1_000, Duration::from_millis(10));
        assert_eq!(plan.len(), 10);
        assert!(plan.iter().step_by(2).all(|planned| planned.traffic_class == HIGH));
        assert!(plan.iter().skip(1).step_by(2).all(|planned| planned.traffic_class == LOW));
        assert_eq!(plan[9].at, Duration::from_millis(9));
    }
}
