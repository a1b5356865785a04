//! A plan for senders that have handed over their last message: no request raises their MSR any
//! more, and they end there.

use approx_answers::{AcceptedError, Action, Confidence, Delivery, Planner, Sample};
use rand::{RngExt, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const SEEDS: u64 = 200;
/// A sender has handed over its last message when this share of them has arrived.
const HANDED_OVER: f64 = 0.02;

/// The messages that arrived, and whether the error was met.
fn plan(own_msr: f64, values: &mut [f64], error: f64, seed: u64) -> (usize, bool) {
    values.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let sent = values.len();
    let mut sample = Sample::new();
    sample.set_messages_sent(0, sent as u64).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    let accepted = AcceptedError::relative(error).unwrap();
    let mut planner = Planner::new(accepted, Confidence::P95);
    let mut actions: Vec<Action> = planner.source_started(0, own_msr).into_iter().collect();
    let (mut msr, mut is_end) = (own_msr, false);
    let mut arrived = 0;
    loop {
        let is_ending = arrived as f64 >= HANDED_OVER * sent as f64;
        for action in actions {
            match action {
                Action::Raise { msr: asked, .. } if !is_ending => msr = asked,
                Action::Lower { msr: asked, .. } => msr = asked.min(msr),
                Action::End => is_end = true,
                _ => {}
            }
        }
        if is_end || is_ending && arrived as f64 >= msr * sent as f64 {
            break;
        }
        sample.push(0, 1, values[arrived]).unwrap();
        arrived += 1;
        actions = Vec::new();
        if planner.is_look_due(sample.messages()) {
            actions = planner.look(|level| Ok(vec![sample.mean(level)?])).unwrap();
        }
    }
    planner.source_ended(0);
    planner.look(|level| Ok(vec![sample.mean(level)?])).unwrap();
    (arrived, planner.report().unwrap().is_met())
}

/// Enough of the messages suffice for each of these errors.
#[test]
fn look__no_sender_ends_before_the_error_is_met() {
    let mut draws = ChaCha8Rng::seed_from_u64(11);
    let mut uniform = || draws.random_range(f64::EPSILON..1.0f64);
    let mut draw = |sent: usize, value: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        (0..sent).map(|_| value(uniform(), uniform())).collect()
    };
    let gamma = draw(20_000, &|a, b| -(a.ln() + b.ln()));
    let rare = draw(20_000, &|a, _| f64::from(u8::from(a < 0.05)));
    let heavy = draw(20_000, &|a, _| a.powf(-0.3));
    let rows = [
        (0.9, "gamma", gamma.clone(), 0.02),
        (0.3, "gamma", gamma.clone(), 0.02),
        (0.9, "gamma", gamma.clone(), 0.05),
        (0.9, "gamma", gamma, 0.1),
        (0.9, "even", draw(20_000, &|a, _| 1.0 + a), 0.05),
        (0.9, "rare", rare.clone(), 0.1),
        (0.5, "rare", rare, 0.1),
        (0.9, "heavy", heavy.clone(), 0.05),
        (0.1, "heavy", heavy, 0.05),
        (0.5, "heavier", draw(5_000, &|a, _| a.powf(-0.45)), 0.05),
        (0.9, "few", draw(120, &|a, _| 1.0 + a), 0.02),
    ];
    for (own_msr, kind, mut values, error) in rows {
        let mut messages = 0;
        for seed in 0..SEEDS {
            let (arrived, is_met) = plan(own_msr, &mut values, error, seed);
            let row = format!("{kind}, MSR {own_msr}, {error}");
            assert!(is_met, "{row}: seed {seed} ended after {arrived} messages");
            messages += arrived;
        }
        let share = messages as f64 / (SEEDS as usize * values.len()) as f64;
        println!("{kind}, MSR {own_msr}, {error}: {:.1} % of the messages", 100.0 * share);
        assert!(share < 0.98);
    }
}
