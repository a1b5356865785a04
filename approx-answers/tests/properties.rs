//! Properties of answers: merging equals one stream, and answers move with the data.

use approx_answers::{Confidence, Delivery, Estimate, Sample};
use proptest::prelude::*;

type Messages = Vec<(u32, u64, f64)>;

fn messages() -> impl Strategy<Value = Messages> {
    prop::collection::vec((0u32..3, 1u64..40, -1e3..1e3), 2..80)
}

fn sample(messages: &[(u32, u64, f64)]) -> Sample {
    let mut sample = Sample::new();
    for stratum in 0..3 {
        let arrived = messages.iter().filter(|message| message.0 == stratum).count() as u64;
        // A stratum of one message has an infinite interval: it is complete here.
        let sent = if arrived < 2 { arrived } else { 2 * arrived };
        sample.set_messages_sent(stratum, sent).unwrap();
        sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
    }
    messages.iter().for_each(|&(stratum, x, y)| sample.push(stratum, x, y).unwrap());
    sample
}

fn assert_close(one: &Estimate, value: f64, half_width: f64) {
    let scale = 1e-6 * (1.0 + value.abs() + half_width);
    assert!((one.value - value).abs() < scale, "{one} instead of {value}");
    assert!((one.half_width() - half_width).abs() < scale, "{one:?}, {half_width}");
}

proptest! {
    #[test]
    fn merge__equals_one_stream(messages in messages(), cut in 0usize..80) {
        let whole = sample(&messages);
        let (left, right) = messages.split_at(cut.min(messages.len()));
        let mut merged = Sample::new();
        for part in [left, right] {
            let mut sample = Sample::new();
            part.iter().for_each(|&(stratum, x, y)| sample.push(stratum, x, y).unwrap());
            merged.merge(&sample).unwrap();
        }
        for stratum in 0..3 {
            let arrived = messages.iter().filter(|message| message.0 == stratum).count() as u64;
            let sent = if arrived < 2 { arrived } else { 2 * arrived };
            merged.set_messages_sent(stratum, sent).unwrap();
            merged.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        }
        for ask in [Sample::sum, Sample::count, Sample::mean] {
            let (one, other) =
                (ask(&whole, Confidence::P95).unwrap(), ask(&merged, Confidence::P95).unwrap());
            assert_close(&one, other.value, other.half_width());
        }
    }

    #[test]
    fn answers__scale_and_shift_with_the_column(
        messages in messages(),
        scale in -5.0f64..5.0,
        shift in -100.0f64..100.0,
    ) {
        let moved: Messages =
            messages.iter().map(|&(s, x, y)| (s, x, scale * y + shift * x as f64)).collect();
        let (before, after) = (sample(&messages), sample(&moved));
        let p95 = Confidence::P95;
        let (mean, moved) = (before.mean(p95).unwrap(), after.mean(p95).unwrap());
        assert_close(&moved, scale * mean.value + shift, scale.abs() * mean.half_width());
        let (sum, count) = (before.sum(p95).unwrap(), before.count(p95).unwrap());
        let moved = after.sum(p95).unwrap();
        prop_assert!(
            (moved.value - (scale * sum.value + shift * count.value)).abs()
                < 1e-6 * (1.0 + moved.value.abs() + count.value * 100.0)
        );
    }

    #[test]
    fn answers__never_panic(
        messages in prop::collection::vec((0u32..3, any::<f64>(), any::<f64>()), 0..8),
        sent in prop::option::of(0u64..10),
        exact in prop::option::of(any::<f64>()),
    ) {
        let mut sample = Sample::new();
        if let Some(sent) = sent {
            let _ = sample.set_messages_sent(0, sent);
        }
        if let Some(exact) = exact {
            let _ = sample.set_exact_records(0, exact);
        }
        for (stratum, x, y) in messages {
            let _ = sample.push_pair(stratum, x, y);
        }
        for ask in [Sample::sum, Sample::count, Sample::mean] {
            if let Ok(estimate) = ask(&sample, Confidence::P95) {
                prop_assert!(estimate.low <= estimate.high, "{estimate:?}");
                let _ = estimate.to_string() + &format!("{:?}", estimate.warnings);
            }
        }
    }
}
