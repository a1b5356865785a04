//! The largest keys: the sample that selects them estimates them, too.

use approx_answers::{
    AcceptedError, Action, Answering, Confidence, Delivery, Planner, Top, Warning,
};

use crate::{arrived, jobs, misses_max, percent};

const P95: Confidence = Confidence::P95;

/// A column of keys.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// The number of rows of each key.
    rows: fn() -> Vec<usize>,
    /// Rows of a key that are in one message.
    together: usize,
    msr: f64,
    ranks: usize,
}

const CASES: [Case; 10] = [
    Case { name: "1,000 equal keys", rows: || vec![60; 1_000], together: 1, msr: 0.5, ranks: 5 },
    Case { name: "100 equal keys", rows: || vec![600; 100], together: 1, msr: 0.8, ranks: 5 },
    Case { name: "20 equal keys", rows: || vec![3_000; 20], together: 1, msr: 0.8, ranks: 3 },
    Case { name: "2 equal keys", rows: || vec![7_500; 2], together: 1, msr: 0.5, ranks: 1 },
    Case { name: "5 equal keys of 500", rows: five_of_many, together: 1, msr: 0.5, ranks: 5 },
    Case { name: "100 equal, in fives", rows: || vec![300; 100], together: 5, msr: 0.5, ranks: 5 },
    Case { name: "1,000, rows as 1/rank", rows: zipf, together: 1, msr: 0.5, ranks: 5 },
    Case { name: "1,000, as 1/rank", rows: zipf, together: 1, msr: 0.1, ranks: 15 },
    Case {
        name: "40, rows as 0.8^rank",
        rows: || powers(6_000.0, 0.8, 40),
        together: 1,
        msr: 0.5,
        ranks: 5,
    },
    Case {
        name: "200, as 0.98^rank",
        rows: || powers(1_200.0, 0.98, 200),
        together: 1,
        msr: 0.8,
        ranks: 5,
    },
];

/// Five equal keys far above the others.
fn five_of_many() -> Vec<usize> {
    (0..500).map(|key| if key < 5 { 3_000 } else { 30 }).collect()
}

fn zipf() -> Vec<usize> {
    (1..=1_000).map(|rank| 8_000 / rank).collect()
}

fn powers(first: f64, ratio: f64, keys: i32) -> Vec<usize> {
    (0..keys).map(|key| (first * ratio.powi(key)) as usize + 1).collect()
}

/// The column in the order of its keys.
fn column(rows: &[usize]) -> Vec<u32> {
    let of_key = |(key, rows): (usize, &usize)| std::iter::repeat_n(key as u32, *rows);
    rows.iter().enumerate().flat_map(of_key).collect()
}

/// Jobs that miss.
#[derive(Default)]
struct Misses {
    by_rank: Vec<u64>,
    any: u64,
    gap: u64,
    /// Rankings that are said to be certain, and aren't.
    wrong: u64,
    separated: u64,
    /// The sum of all half-widths, over those of ordinary intervals.
    widths: f64,
}

fn measure(case: Case) -> Misses {
    let rows = (case.rows)();
    let column = column(&rows);
    let truth = |key: u32| rows[key as usize] as f64;
    let mut misses = Misses { by_rank: vec![0; case.ranks], ..Misses::default() };
    for seed in 0..jobs() {
        let (sent, messages) = arrived(&column, case.together, case.msr, seed);
        let mut top = Top::new(10_000);
        top.set_messages_sent(0, sent).unwrap();
        top.set_delivery(0, &Delivery::shuffled()).unwrap();
        for keys in messages {
            top.push_message(0, keys.into_iter().map(|key| (key, 1.0))).unwrap();
        }
        let ranking = top.largest(case.ranks, P95).unwrap();
        let next = top.largest(case.ranks + 1, P95).unwrap().ranks[case.ranks].0;
        let mut any = false;
        for (misses_of_rank, (key, rows)) in misses.by_rank.iter_mut().zip(&ranking.ranks) {
            let is_miss = !rows.contains(truth(*key));
            *misses_of_rank += u64::from(is_miss);
            any |= is_miss;
            let ordinary = P95.student(rows.degrees_of_freedom) * rows.standard_error();
            misses.widths += rows.half_width() / ordinary / case.ranks as f64;
        }
        misses.any += u64::from(any);
        let gap = ranking.gap.unwrap();
        let last = ranking.ranks.last().unwrap().0;
        misses.gap += u64::from(!gap.contains(truth(last) - truth(next)));
        // Keys are in the order of their rows, and equal keys are no wrong choice.
        let least = rows[case.ranks - 1] as f64;
        let is_wrong = ranking.ranks.iter().any(|(key, _)| truth(*key) < least);
        misses.separated += u64::from(ranking.separates);
        misses.wrong += u64::from(ranking.separates && is_wrong);
        assert_eq!(ranking.warnings, [], "{}, seed {seed}", case.name);
    }
    misses
}

#[test]
fn largest__intervals_hold_after_the_selection() {
    println!("| keys | MSR | misses by rank | any rank | gap | certain, wrongly | width |");
    println!("|---|---|---|---|---|---|---|");
    let jobs = jobs();
    let mut failures = Vec::new();
    for case in CASES {
        let Misses { by_rank, any, gap, wrong, separated, widths } = measure(case);
        let each: Vec<String> = by_rank.iter().map(|misses| percent(*misses, jobs)).collect();
        let (name, msr, width) = (case.name, case.msr, widths / jobs as f64);
        let certain = format!("{}, {}", percent(separated, jobs), percent(wrong, jobs));
        let [of_any, of_gap] = [any, gap].map(|misses| percent(misses, jobs));
        println!(
            "| {name} | {msr} | {} | {of_any} | {of_gap} | {certain} | {width:.2} |",
            each.join(", ")
        );
        let most = by_rank.into_iter().chain([any, gap, wrong]).max().unwrap();
        if most > misses_max(jobs) {
            failures.push(format!("{name}: {most} of {jobs}"));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// The planner takes the same intervals: of the jobs that say "met", at most 5 % miss a rank.
#[test]
fn look_at__of_equal_keys_is_met_by_few_misses() {
    println!("| keys | accepted | met | misses that say met | messages |");
    println!("|---|---|---|---|---|");
    let jobs = jobs() / 2;
    let mut failures = Vec::new();
    for (keys, accepted) in [(20, 0.05), (100, 0.1)] {
        let rows = vec![60_000 / keys; keys];
        let truth = rows[0] as f64;
        let column = column(&rows);
        let (mut met, mut misses, mut messages) = (0, 0, 0);
        for seed in 0..jobs {
            let (sent, all) = arrived(&column, 1, 1.0, seed);
            let mut answering = Answering::new("top(3, key)".parse().unwrap(), &["key"]).unwrap();
            answering.set_messages_sent(0, sent).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            let accepted = AcceptedError::relative(accepted).unwrap();
            let mut planner = Planner::new(accepted, P95);
            planner.source_started(0, 1.0);
            for keys in all {
                answering.push_message(0, keys.iter().map(|key| [key.to_string()])).unwrap();
                if answering.messages() == sent {
                    planner.source_ended(0);
                }
                if planner.look_at(&answering).unwrap().contains(&Action::End) {
                    break;
                }
            }
            let report = planner.report().expect("all messages meet any error");
            let is_miss = report.estimates.iter().any(|rows| !rows.contains(truth));
            assert!(!report.warnings().into_iter().any(Warning::is_doubt), "{report}");
            messages += answering.messages();
            met += u64::from(report.is_met());
            misses += u64::from(report.is_met() && is_miss);
        }
        let [met, missed] = [met, misses].map(|count| percent(count, jobs));
        println!("| {keys} equal | {accepted} | {met} | {missed} | {} |", messages / jobs);
        if misses > misses_max(jobs) {
            failures.push(format!("{keys} keys: {misses} of {jobs}"));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}
