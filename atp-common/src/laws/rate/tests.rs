use super::testing::{at, sample, settings};
use super::*;
use crate::laws::sample::EpochCount;
use proptest::prelude::*;

fn laws() -> impl Strategy<Value = RateLaw> {
    (0..RateLaw::ALL.len()).prop_map(|index| RateLaw::ALL[index].0)
}

#[test]
fn all__numbers_and_names_are_unique() {
    for (index, (law, name)) in RateLaw::ALL.into_iter().enumerate() {
        assert_eq!(RateLaw::from_number(law as u32), law, "{name}");
        assert!(RateLaw::ALL[..index].iter().all(|(_, other)| *other != name), "{name}");
        assert!(!law.description().is_empty(), "{name}");
    }
}

proptest! {
    #[test]
    fn on_epoch__idle_lanes_never_rise(
        law in laws(),
        exact: bool,
        epochs in proptest::collection::vec((0u64..20, 0u64..20), 1..60),
    ) {
        // Without a law, the rate is Rmax, also of an idle lane.
        let settings = LawSettings { exact: exact || law == RateLaw::None, ..settings(law) };
        let mut state = LawState::default();
        let mut rate = at(20_000_000);
        for (epoch, (lost, marked)) in (0..).zip(epochs) {
            let sample = EpochSample { idle: true, ..sample(epoch, rate, lost, marked) };
            let next = state.on_epoch(&settings, rate, &sample);
            prop_assert!(next <= rate);
            rate = next.max(at(1_500_000));
        }
    }

    #[test]
    fn on_epoch__never_above_rmax(
        law in laws(),
        exact: bool,
        counts in proptest::collection::vec(any::<[u64; 6]>(), 1..60),
        tlr in 0..=65536u32,
    ) {
        let settings = LawSettings { exact, ..settings(law) };
        let (mut state, mut rate) = (LawState::default(), LawState::first_rate(&settings));
        for (epoch, [sent_packets, sent_bytes, acked_packets, marked_packets, duration_ns, rtt_ns]) in (0..).zip(counts) {
            let sample = EpochSample {
                epoch,
                open_epoch: epoch + 1,
                // The counters may have any value: they lie in memory that programs share.
                count: EpochCount { sent_packets, sent_bytes, acked_packets, marked_packets },
                tlr: Share::from_q16(tlr),
                duration_ns,
                rtt_ns,
                idle: false,
            };
            rate = state.on_epoch(&settings, rate, &sample);
            prop_assert!(rate <= settings.rate_max);
        }
    }
}
