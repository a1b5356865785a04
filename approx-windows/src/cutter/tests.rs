//! Windows have each record once, and are the same after a restart.

use super::*;
use crate::{
    accepted::Accepted,
    offsets::Offsets,
    outgoing::OutgoingWindow,
    record::{RecordRef, decode},
    sampling::Group,
    stream::Stream,
};
use proptest::{collection::vec, prelude::*};
use rand::RngExt;
use std::collections::BTreeMap;

const LIMITS: Limits = Limits { window_bytes_max: 1 << 20, record_bytes_max: 1 << 16 };

/// A record's offset, event time, and bytes of value.
type Input = (u64, Option<i64>, usize);

fn push(cutter: &mut Cutter, &(offset, timestamp_ms, bytes): &Input) {
    let value = vec![7; bytes];
    let record = RecordRef { offset, timestamp_ms, value: Some(&value), ..RecordRef::default() };
    cutter.push(&record, GroupId::at(0));
}

fn new(rule: Rule, limits: Limits, position: Position) -> Cutter {
    let group = Group { name: "half".into(), msr: 0.5 };
    let plan = Plan { rule, limits, sampling: Sampling::new(vec![group]).unwrap() };
    Cutter::new(plan, position, position.offset)
}

fn drain(cutter: &mut Cutter) -> Vec<Cut> {
    std::iter::from_fn(|| cutter.pop()).collect()
}

fn cut(rule: Rule, times: &[i64]) -> Vec<(i64, String, u64)> {
    let mut cutter = new(rule, LIMITS, Position::begin(0));
    for (offset, &time_ms) in times.iter().enumerate() {
        push(&mut cutter, &(offset as u64, Some(time_ms), 1));
    }
    let windows = drain(&mut cutter);
    windows.iter().map(|cut| (cut.number, cut.offsets.to_string(), cut.late)).collect()
}

#[test]
fn push__by_number() {
    let windows = cut(Rule::Records(2), &[0, 9, 5, 1, 7]);
    assert_eq!(windows, [(0, "0-1".into(), 0), (1, "2-3".into(), 0)]);
}

#[test]
fn push__by_time_waits_for_late_records() {
    let rule = Rule::Time { length_ms: 10, watermark_delay_ms: 3 };
    // 11 and 12 are in the next window. 13 closes the first one, and 5 is late for it.
    let windows = cut(rule, &[1, 11, 9, 12, 13, 5, 23]);
    assert_eq!(windows, [(0, "0, 2".into(), 0), (1, "1, 3-5".into(), 1)]);
}

#[test]
fn advance__makes_the_last_window_also_without_records() {
    let rule = Rule::Time { length_ms: 10, watermark_delay_ms: Rule::NEVER };
    let mut cutter = new(rule, LIMITS, Position::begin(5));
    let mut cut = |calls: &[Step]| -> Vec<_> {
        calls.iter().for_each(|call| step(&mut cutter, call));
        let cuts = drain(&mut cutter);
        let of = |cut: &Cut| (cut.number, cut.part, cut.offsets.to_string(), cut.position.offset);
        cuts.iter().inspect(|cut| assert!(cut.is_last_part)).map(of).collect()
    };
    let at = |offset, time_ms| Step::Push((offset, Some(time_ms), 1));
    assert_eq!(cut(&[Step::Advance(30), Step::Advance(39)]), [(2, 0, String::new(), 5)]);
    // Window 4 has no record, and window 6 keeps the stream's place.
    let windows = [(3, 0, "5".into(), 6), (4, 0, String::new(), 6)];
    assert_eq!(cut(&[at(5, 31), at(6, 61), Step::Advance(50)]), windows);
    assert_eq!(cut(&[Step::Advance(70)]), [(6, 0, "6".into(), 7)]);
    // The first part of a window was closed, and no record of it follows.
    let mut parts = new(rule, LIMITS, Position::begin(0));
    [at(0, 1), Step::Close, Step::Advance(10)].iter().for_each(|call| step(&mut parts, call));
    let of = |cut: &Cut| (cut.number, cut.part, cut.is_last_part, cut.offsets.to_string());
    let parts: Vec<_> = drain(&mut parts).iter().map(of).collect();
    assert_eq!(parts, [(0, 0, false, "0".into()), (0, 1, true, String::new())]);
}

/// The watermark is told again behind the position of a part.
#[test]
fn advance__goes_on_with_the_next_part() {
    let rule = Rule::Time { length_ms: 10, watermark_delay_ms: Rule::NEVER };
    let limits = Limits { window_bytes_max: 100, record_bytes_max: 80 };
    let at = |offset, time_ms, bytes| Step::Push((offset, Some(time_ms), bytes));
    let steps = [at(0, 41, 1), Step::Advance(30), at(1, 31, 60), at(2, 32, 60), at(3, 33, 1)];
    let part = |position, steps: &[Step]| {
        let mut cutter = new(rule, limits, position);
        steps.iter().for_each(|call| step(&mut cutter, call));
        let cuts = drain(&mut cutter);
        let last = cuts.last().unwrap();
        (last.number, last.part, last.offsets.to_string(), last.position)
    };
    let (number, first, offsets, position) = part(Position::begin(0), &steps);
    assert_eq!((number, first, &*offsets, position.offset), (3, 0, "1-2", 0));
    let rest = [&steps[..], &[Step::Advance(40)]].concat();
    let (number, second, offsets, _) = part(position, &rest);
    assert_eq!((number, second, &*offsets), (3, 1, "3"));
}

#[test]
fn push__a_large_window_has_parts() {
    let limits = Limits { window_bytes_max: 100, record_bytes_max: 80 };
    let rule = Rule::Time { length_ms: 10, watermark_delay_ms: 0 };
    let mut cutter = new(rule, limits, Position::begin(0));
    for (offset, time_ms, bytes) in [(0, 1, 60), (1, 2, 60), (2, 3, 1), (3, 4, 90), (4, 10, 1)] {
        push(&mut cutter, &(offset, Some(time_ms), bytes));
    }
    let windows = drain(&mut cutter);
    let of = |cut: &Cut| (cut.number, cut.part, cut.is_last_part, cut.offsets.to_string());
    let expected = [(0, 0, false, "0-1".into()), (0, 1, true, "2-3".into())];
    assert_eq!(windows.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!(windows[1].refused.to_string(), "3");
}

/// Windows of exponential numbers: how many are sent, and how far their average is off. Seeds are
/// fixed: this passes always or never.
#[test]
fn push_number__an_accepted_error_is_met_as_often_as_its_confidence_says() {
    const RECORDS: u64 = 1_000;
    const ERROR: f64 = 0.05;
    let group = Group { name: "rest".into(), msr: 0.1 };
    let accepted = Accepted::relative(ERROR, 0.95).unwrap();
    let sampling = Sampling::new(vec![group]).unwrap().accepting(accepted);
    let plan = Plan { rule: Rule::Records(RECORDS), limits: LIMITS, sampling };
    let mut cutter = Cutter::new(plan, Position::begin(0), 1);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut met, mut shares) = (0, Vec::new());
    for window in 0..400u64 {
        let numbers: Vec<f64> = (0..RECORDS).map(|_| -(1.0 - rng.random::<f64>()).ln()).collect();
        for (offset, number) in (window * RECORDS..).zip(&numbers) {
            let value = number.to_be_bytes();
            let record = RecordRef { offset, value: Some(&value), ..RecordRef::default() };
            cutter.push_number(&record, GroupId::at(0), Some(*number));
        }
        let cut = cutter.pop().unwrap();
        let base = cut.header(Stream::default()).base;
        let records = cut.messages.iter().flat_map(|(_, message)| decode(&message[1..], base));
        let number = |record: RecordRef<'_>| record.value.unwrap().try_into().unwrap();
        let sent: Vec<f64> =
            records.map(|record| f64::from_be_bytes(number(record.unwrap()))).collect();
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        met += u32::from((mean(&sent) / mean(&numbers) - 1.0).abs() <= ERROR);
        shares.push(sent.len() as f64 / RECORDS as f64);
    }
    assert!((370..=392).contains(&met), "{met} of 400");
    // 1.96^2 / 0.05^2 of an infinite population are 1,537 records; of a thousand, 606.
    let mean = shares[1..].iter().sum::<f64>() / 399.0;
    assert!(shares[0] > 0.9 && (0.55..0.67).contains(&mean), "{mean}");
}

/// The rate follows windows of a like size: a few records need all of them.
#[test]
fn push_number__a_small_window_decides_no_rate() {
    let group = Group { name: "rest".into(), msr: 0.01 };
    let accepted = Accepted::relative(0.1, 0.95).unwrap();
    let sampling = Sampling::new(vec![group]).unwrap().accepting(accepted);
    let rule = Rule::Time { length_ms: 1, watermark_delay_ms: 0 };
    let mut cutter = Cutter::new(Plan { rule, limits: LIMITS, sampling }, Position::begin(0), 3);
    let mut offset = 0;
    let mut sent = Vec::new();
    for (time_ms, records) in (0..).zip([10_000, 10_000, 20, 10_000, 20, 20, 20, 20, 20, 20, 20]) {
        for _ in 0..records {
            let number = Some((offset % 2) as f64 + 1.0);
            let record = RecordRef { offset, timestamp_ms: Some(time_ms), ..RecordRef::default() };
            cutter.push_number(&record, GroupId::at(0), number);
            offset += 1;
        }
        let cuts = drain(&mut cutter);
        sent.extend(cuts.iter().map(|cut| cut.header(Stream::default()).groups[1].sent));
    }
    // An error of 0.15, and a deviation of 0.5: 45 of 10,000. MSR is more, with a deviation of 10.
    let large = [sent[1], sent[3]];
    assert!(sent[0] > 8_000 && large.iter().all(|sent| (100..165).contains(sent)), "{sent:?}");
    assert_eq!(sent[2], 20);
    assert!(sent[4..].iter().all(|sent| *sent == 20), "{sent:?}");
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (1u64..8).prop_map(Rule::Records),
        (1u64..40, 0u64..30).prop_map(|(length_ms, watermark_delay_ms)| Rule::Time {
            length_ms,
            watermark_delay_ms
        }),
    ]
}

/// Records with gaps between offsets, and event times in rough order.
fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let step =
        (1u64..4, prop_oneof![9 => (-20i64..20).prop_map(Some), 1 => Just(None)], 0usize..60);
    vec(step, 1..80).prop_map(|steps| {
        let (mut next, mut time_ms) = (0, 0);
        let record = |(gap, jitter_ms, bytes): (u64, Option<i64>, usize)| {
            next += gap;
            time_ms += 3;
            (next, jitter_ms.map(|jitter_ms| time_ms + jitter_ms), bytes)
        };
        steps.into_iter().map(record).collect()
    })
}

type Described = (i64, u32, bool, String, u64, u64, u64);

fn describe(cut: &Cut) -> Described {
    let Cut { number, part, is_last_part, offsets, late, from, position, .. } = cut;
    (*number, *part, *is_last_part, offsets.to_string(), *late, *from, position.offset)
}

/// A call of a [`Cutter`].
#[derive(Clone, Debug)]
enum Step {
    Push(Input),
    Advance(i64),
    Close,
}

fn step(cutter: &mut Cutter, step: &Step) {
    match step {
        Step::Push(input) => push(cutter, input),
        Step::Advance(watermark_ms) => cutter.advance(*watermark_ms),
        Step::Close => cutter.close(),
    }
}

/// Records of offsets without gaps, with watermarks and a few closings between them. Watermarks may
/// go back: those of a restarted source do.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let before = prop_oneof![
        6 => Just(None),
        3 => (-25i64..15).prop_map(|lag_ms| Some(Some(lag_ms))),
        1 => Just(Some(None)),
    ];
    vec((vec(before, 0..3), -20i64..20, 0usize..60), 1..80).prop_map(|records| {
        let mut steps = Vec::new();
        for (offset, (before, jitter_ms, bytes)) in (0u64..).zip(records) {
            let time_ms = 3 * offset as i64;
            steps.extend(before.into_iter().flatten().map(|lag_ms| match lag_ms {
                Some(lag_ms) => Step::Advance(time_ms + lag_ms),
                None => Step::Close,
            }));
            steps.push(Step::Push((offset, Some(time_ms + jitter_ms), bytes)));
        }
        steps
    })
}

/// The steps behind the last record before an offset: those that an application keeps. Of
/// watermarks that follow each other it keeps the last.
fn kept(steps: &[Step], offset: u64) -> Vec<Step> {
    let is_before = |step: &Step| matches!(step, Step::Push(input) if input.0 < offset);
    let from = steps.iter().rposition(is_before).map_or(0, |last| last + 1);
    let mut kept: Vec<Step> = Vec::new();
    for step in &steps[from..] {
        match (kept.last_mut(), step) {
            (Some(Step::Advance(last)), Step::Advance(next)) => *last = (*last).max(*next),
            _ => kept.push(step.clone()),
        }
    }
    kept
}

proptest! {
    /// The operator may have changed the length of the windows.
    #[test]
    fn push__after_a_change_of_the_rule_misses_no_record(
        rules in (rule(), rule()),
        inputs in inputs(),
        windows in 0usize..20,
    ) {
        let mut first = new(rules.0, LIMITS, Position::begin(0));
        inputs.iter().for_each(|input| push(&mut first, input));
        let sent: Vec<_> = drain(&mut first).into_iter().take(windows).collect();
        let position = sent.last().map_or(Position::begin(0), |cut| cut.position);
        let position = Position::parse(position.offset, &position.to_string()).unwrap();
        let mut second = new(rules.1, LIMITS, position);
        inputs.iter().for_each(|input| push(&mut second, input));
        second.close();
        let mut seen = Offsets::default();
        sent.iter().for_each(|cut| seen.extend(&cut.offsets));
        let rest = drain(&mut second);
        rest.iter().for_each(|cut| seen.extend(&cut.offsets));
        let all: Offsets = inputs.iter().map(|input| input.0).collect();
        prop_assert_eq!(seen, all);
    }

    #[test]
    fn push__each_record_is_in_one_window(rule in rule(), inputs in inputs(), bytes in 40usize..400) {
        let limits = Limits { window_bytes_max: bytes, ..LIMITS };
        let mut cutter = new(rule, limits, Position::begin(0));
        inputs.iter().for_each(|input| push(&mut cutter, input));
        cutter.close();
        let mut seen = BTreeMap::new();
        let mut resume = 0;
        for cut in drain(&mut cutter) {
            prop_assert_eq!(cut.from, resume);
            resume = cut.position.offset;
            prop_assert!(cut.offsets.first() >= Some(cut.from));
            for offset in cut.offsets.ranges().flatten() {
                prop_assert!(seen.insert(offset, cut.number).is_none(), "{} twice", offset);
            }
            // All records of windows so far, and no others, are before the position or known.
            let missed = inputs.iter().filter(|input| input.0 < resume && !seen.contains_key(&input.0));
            prop_assert_eq!(missed.count(), 0);
        }
        prop_assert_eq!(seen.len(), inputs.len());
    }

    /// A batch is of the window that closes next, whichever window a record opens.
    #[test]
    fn take_batch__is_of_the_window_that_closes_next(
        rule in rule(),
        inputs in inputs(),
        bytes in 40usize..4_000,
    ) {
        let limits = Limits { window_bytes_max: bytes, ..LIMITS };
        let mut cutter = new(rule, limits, Position::begin(0));
        let stream = Stream::default();
        let mut open: Option<OutgoingWindow> = None;
        let mut windows = Vec::new();
        let mut take = |cutter: &mut Cutter| {
            while let Some(cut) = cutter.pop() {
                windows.push(match open.take() {
                    // It panics unless the batches are of this window.
                    Some(mut window) => { window.close(cut); window }
                    None => OutgoingWindow::closed(cut, &stream),
                });
            }
            if let Some(batch) = cutter.take_batch() {
                match &mut open {
                    Some(window) => window.add(batch),
                    None => open = Some(OutgoingWindow::open(batch, &stream)),
                }
            }
        };
        for (offset, time_ms, bytes) in &inputs {
            push(&mut cutter, &(*offset, *time_ms, bytes * 20));
            take(&mut cutter);
        }
        cutter.close();
        take(&mut cutter);
        prop_assert!(open.is_none());
        for window in windows {
            let header = window.header().unwrap();
            let mut sent = Offsets::default();
            for (_, message) in &window.messages {
                for record in decode(&message[1..], header.base) {
                    sent.insert(record.unwrap().offset);
                }
            }
            prop_assert_eq!(sent.len(), header.groups.iter().map(|group| group.sent).sum::<u64>());
            prop_assert!(sent.without(&header.offsets).is_empty());
        }
    }

    /// Another cutter goes on behind any window, with the same windows.
    #[test]
    fn new__at_a_position_makes_the_same_windows(
        rule in rule(),
        inputs in inputs(),
        bytes in 40usize..400,
    ) {
        let limits = Limits { window_bytes_max: bytes, ..LIMITS };
        let mut cutter = new(rule, limits, Position::begin(0));
        inputs.iter().for_each(|input| push(&mut cutter, input));
        let windows = drain(&mut cutter);
        let expected: Vec<_> = windows.iter().map(describe).collect();
        for (index, cut) in windows.iter().enumerate() {
            let text = cut.position.to_string();
            let position = Position::parse(cut.position.offset, &text).unwrap();
            let mut again = new(rule, limits, position);
            let rest = inputs.iter().filter(|input| input.0 >= position.offset);
            rest.for_each(|input| push(&mut again, input));
            let found: Vec<_> = drain(&mut again).iter().map(describe).collect();
            prop_assert_eq!(&found[..], &expected[index + 1..], "behind {:?}", cut.position);
        }
    }

    /// Another cutter goes on behind any window that watermarks or the application have closed, if
    /// these calls are repeated.
    #[test]
    fn advance__at_a_position_makes_the_same_windows(
        steps in steps(),
        rule in prop_oneof![
            1 => (1u64..8).prop_map(Rule::Records),
            3 => (1u64..40).prop_map(|length_ms| {
                Rule::Time { length_ms, watermark_delay_ms: Rule::NEVER }
            }),
        ],
        bytes in 40usize..4_000,
    ) {
        let limits = Limits { window_bytes_max: bytes, ..LIMITS };
        let mut cutter = new(rule, limits, Position::begin(0));
        steps.iter().for_each(|call| step(&mut cutter, call));
        cutter.close();
        let windows = drain(&mut cutter);
        // Of watermarks that follow each other the last alone makes fewer empty windows.
        let of_records = |cuts: &[Cut]| -> Vec<Described> {
            cuts.iter().filter(|cut| !cut.offsets.is_empty()).map(describe).collect()
        };
        let begin = [Position::begin(0)].into_iter();
        for (index, position) in begin.chain(windows.iter().map(|cut| cut.position)).enumerate() {
            let position = Position::parse(position.offset, &position.to_string()).unwrap();
            let mut again = new(rule, limits, position);
            kept(&steps, position.offset).iter().for_each(|call| step(&mut again, call));
            again.close();
            let found = of_records(&drain(&mut again));
            prop_assert_eq!(found, of_records(&windows[index..]), "from {:?}", position);
        }
    }

    /// Windows that were closed for want of records are behind the position, too.
    #[test]
    fn close__leaves_each_record_in_one_window_after_a_restart(
        rule in rule(),
        inputs in inputs(),
        closes_at in 0usize..80,
    ) {
        let mut cutter = new(rule, LIMITS, Position::begin(0));
        let (before, after) = inputs.split_at(closes_at.min(inputs.len()));
        before.iter().for_each(|input| push(&mut cutter, input));
        cutter.close();
        after.iter().for_each(|input| push(&mut cutter, input));
        cutter.close();
        let windows = drain(&mut cutter);
        for (index, cut) in windows.iter().enumerate() {
            let mut seen: Vec<u64> = windows[..=index]
                .iter()
                .flat_map(|cut| cut.offsets.ranges().flatten().collect::<Vec<_>>())
                .collect();
            let mut again = new(rule, LIMITS, cut.position);
            let rest = inputs.iter().filter(|input| input.0 >= cut.position.offset);
            rest.for_each(|input| push(&mut again, input));
            again.close();
            for cut in drain(&mut again) {
                seen.extend(cut.offsets.ranges().flatten());
            }
            seen.sort_unstable();
            let all: Vec<u64> = inputs.iter().map(|input| input.0).collect();
            prop_assert_eq!(seen, all);
        }
    }
}
