//! Records without a value: answers are those of the others, and say so.

use approx_answers::{
    AnswerError, Confidence, Delivery, Estimate, GroupBy, Quantiles, Sample, Top, Warning,
};
use proptest::prelude::*;

const P95: Confidence = Confidence::P95;
const SENT: u64 = 100;

type Message = Vec<(u8, Option<f64>)>;

/// Adds messages, and asks.
fn answers(messages: &[Message], missing: bool) -> Result<Vec<Estimate>, AnswerError> {
    let (mut by, mut quantiles, mut top) = (GroupBy::new(9), Quantiles::new(9), Top::new(9));
    let mut sample = Sample::new();
    for message in messages {
        let records = || message.iter().copied().filter(|(_, value)| missing || value.is_some());
        by.push_message(0, records())?;
        quantiles.push_message(0, records())?;
        top.push_message(0, records())?;
        let values: Vec<f64> = message.iter().filter_map(|(_, value)| *value).collect();
        match values.len() {
            0 if missing => sample.push_missing(0, message.len() as u64)?,
            records => sample.push(0, records as u64, values.iter().sum())?,
        }
    }
    by.set_messages_sent(0, SENT)?;
    quantiles.set_messages_sent(0, SENT)?;
    top.set_messages_sent(0, SENT)?;
    sample.set_messages_sent(0, SENT)?;
    sample.set_delivery(0, &Delivery::shuffled())?;
    let mut answers = vec![sample.sum(P95)?, sample.count(P95)?];
    for key in by.keys() {
        answers.extend([by.sum(key, P95)?, by.count(key, P95)?, by.mean(key, P95)?]);
        answers.push(quantiles.quantile(key, 0.5, P95)?);
    }
    let ranking = top.largest(2, P95)?;
    if missing {
        let records = messages.iter().flatten().filter(|(_, value)| value.is_none()).count() as u64;
        assert_eq!([by.missing(), quantiles.missing(), top.missing()], [records; 3]);
        let told = Warning::MissingValues { records };
        let tables = [by.warnings(), quantiles.warnings(), ranking.warnings.clone()];
        let tells = |warnings: &Vec<Warning>| warnings.contains(&told);
        assert!(records == 0 || tables.iter().all(tells));
        assert!(records == 0 || answers[2..].iter().all(|answer| tells(&answer.warnings)));
    }
    answers.extend(ranking.ranks.into_iter().map(|(_, total)| total));
    Ok(answers)
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let value = prop::option::of(prop::sample::select(vec![0.0, 1.0, -2.5, 7.0]));
    let message = prop::collection::vec((0u8..3, value), 0..6);
    prop::collection::vec(message, 1..40)
}

proptest! {
    #[test]
    fn missing__records_are_left_out(messages in messages()) {
        let plain = |answers: Result<Vec<Estimate>, AnswerError>| answers.map(|mut answers| {
            let is_other = |warning: &Warning| !matches!(warning, Warning::MissingValues { .. });
            answers.iter_mut().for_each(|answer| answer.warnings.retain(is_other));
            answers
        });
        prop_assert_eq!(plain(answers(&messages, true)), plain(answers(&messages, false)));
    }
}

#[test]
fn missing__messages_count_among_those_sent() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 1).unwrap();
    sample.push_missing(0, 3).unwrap();
    let error = sample.push_missing(0, 3).unwrap_err();
    assert!(matches!(error, AnswerError::MoreThanSent { arrived: 2, sent: 1, .. }));
    assert_eq!((sample.messages(), sample.missing()), (1, 3));
}
