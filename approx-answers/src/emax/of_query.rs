//! The plan of a query.

use super::{Action, Planner};
use crate::{AnswerError, Answering, Answers, Confidence, Estimate, Row, Warning};

impl Planner {
    /// Looks at a query, if a look is due: at each of its rows. A query ends once each function
    /// of each key that has arrived meets the error. Bounds have none, and the others decide. For
    /// the answer over all keys alone, leave out `by`.
    ///
    /// # Errors
    /// As [`Planner::look`].
    pub fn look_at(&mut self, answering: &Answering) -> Result<Vec<Action>, AnswerError> {
        if !self.is_look_due(answering.messages()) {
            return Ok(Vec::new());
        }
        self.look(|confidence| {
            let Answers { rows, warnings, .. } = answering.answers(confidence)?;
            let query = answering.query();
            let is_of_bounds = query.check_accepts_error().is_err();
            let has_part = |row: &Row| is_of_bounds || !query.functions[row.function].is_bound();
            let rows = rows.into_iter().filter(has_part);
            let mut rows: Vec<Estimate> = rows.map(|row| row.estimate).collect();
            // The report has the warnings of its rows: doubts about all rows go to the first.
            let doubts = warnings.into_iter().filter(Warning::is_doubt);
            rows.first_mut().into_iter().for_each(|row| row.warnings.extend(doubts.clone()));
            Ok(rows)
        })
    }

    /// The answers of a planned query, with the confidence that was asked for. After the plan's end
    /// their intervals are as much wider as the looks cost.
    ///
    /// # Errors
    /// As [`Answering::answers`].
    pub fn answers(&self, answering: &Answering) -> Result<Answers, AnswerError> {
        let mut answers = answering.answers(self.level())?;
        let confidence = self.confidence();
        answers.rows.iter_mut().for_each(|row| row.estimate.confidence = confidence);
        Ok(answers)
    }

    /// The answer over all keys of a planned query, as [`Answering::overall`], and with the
    /// confidence that was asked for.
    ///
    /// # Errors
    /// As [`Answering::overall`].
    pub fn overall(&self, answering: &Answering) -> Result<Option<Estimate>, AnswerError> {
        let overall = answering.overall(self.level())?;
        let confidence = self.confidence();
        Ok(overall.map(|estimate| Estimate { confidence, ..estimate }))
    }

    /// Looks were paid for by a stricter level: what is left is the asked confidence.
    fn level(&self) -> Confidence {
        self.report().map_or(self.confidence(), |report| report.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AcceptedError, Delivery, Report};

    /// Pushes messages of one row each, with the key of `key`, until the plan ends.
    fn run(query: &str, key: impl Fn(u32) -> &'static str) -> (Planner, Answering) {
        let mut answering = Answering::of_csv(query.parse().unwrap(), b"k,v\n").expect("a query");
        let mut planner = Planner::new(AcceptedError::relative(0.05).unwrap(), Confidence::P95);
        answering.set_messages_sent(0, 10_000).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        planner.source_started(0, 1.0);
        for message in 0..10_000u32 {
            let value = 100 + (message.wrapping_mul(2_654_435_761) >> 24);
            let row = format!("{},{value}\n", key(message));
            answering.push_csv(0, row.as_bytes()).unwrap();
            let actions = planner.look_at(&answering).unwrap();
            if actions.contains(&Action::End) {
                break;
            }
        }
        (planner, answering)
    }

    #[test]
    fn look_at__ends_when_the_query_is_answered() {
        let (planner, answering) =
            run("avg(v) by k", |message| if message % 2 == 0 { "a" } else { "b" });
        let report = planner.report().expect("the error was met");
        assert!(report.is_met() && answering.messages() < 2_000 && report.looks < 9);
        // The rows have paid for the looks as well.
        let answers = planner.answers(&answering).unwrap();
        let plain = answering.answers(Confidence::P95).unwrap();
        let rows = answers.rows.iter().zip(&plain.rows).zip(&report.estimates);
        for ((planned, plain), looked_at) in rows {
            assert_eq!(planned.key, plain.key);
            let (planned, plain) = (&planned.estimate, &plain.estimate);
            assert!(planned.half_width() > plain.half_width());
            assert_eq!((planned.confidence, planned), (Confidence::P95, looked_at));
        }
        assert_eq!(answers.rows.len(), 2);
        let overall = planner.overall(&answering).unwrap().expect("an answer over all keys");
        let plain = answering.overall(Confidence::P95).unwrap().expect("the same");
        assert!(overall.confidence == Confidence::P95 && overall.half_width() > plain.half_width());
    }

    #[test]
    fn look_at__bounds_have_no_part() {
        let (_, answering) = run("avg(v)", |_| "a");
        let messages = answering.messages();
        let (planner, answering) = run("SELECT max(v), avg(v), count(distinct v)", |_| "a");
        let report = planner.report().expect("the error was met");
        assert!(report.is_met() && answering.messages() == messages);
        assert_eq!(planner.answers(&answering).unwrap().rows.len(), 3);
        // Alone, they meet the error once all messages arrived.
        let (planner, answering) = run("max(v)", |_| "a");
        assert!(planner.report().is_none() && answering.messages() == 10_000);
    }

    #[test]
    fn look_at__a_rare_key_must_meet_the_error_too() {
        let key = |message| if message % 50 == 7 { "rare" } else { "usual" };
        let (all, answering) = run("avg(v)", key);
        let messages_of_all = answering.messages();
        assert!(all.report().is_some_and(Report::is_met) && messages_of_all < 1_000);
        let (by_key, answering) = run("avg(v) by k", key);
        let report = by_key.report().expect("the error was met");
        assert!(report.is_met() && answering.messages() > 2 * messages_of_all);
        for row in by_key.answers(&answering).unwrap().rows {
            let (key, row) = (row.key, row.estimate);
            assert!(row.half_width() <= 0.05 * row.value, "{key:?}: {row}");
        }
        // Two messages have no interval to trust, and need all others.
        let (_, answering) =
            run("avg(v) by k", |message| if message % 5_000 == 7 { "rare" } else { "usual" });
        assert_eq!(answering.messages(), 10_000);
    }
}
