//! The plan of a query.

use super::{Action, Planner};
use crate::{AnswerError, Answering, Answers, Confidence, Estimate};

impl Planner {
    /// Looks at a query, if a look is due: at the answer over all keys, or at each row of a
    /// function that has none.
    ///
    /// # Errors
    /// As [`Planner::look`].
    pub fn look_at(&mut self, answering: &Answering) -> Result<Vec<Action>, AnswerError> {
        if !self.is_look_due(answering.messages()) {
            return Ok(Vec::new());
        }
        self.look(|confidence| match answering.overall(confidence)? {
            Some(estimate) => Ok(vec![estimate]),
            None => Ok(answering.answers(confidence)?.rows.into_iter().map(|(_, e)| e).collect()),
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
        answers.rows.iter_mut().for_each(|(_, estimate)| estimate.confidence = confidence);
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
    use crate::AcceptedError;

    #[test]
    fn look_at__ends_when_the_query_is_answered() {
        let mut answering =
            Answering::of_csv("avg(v) by k".parse().unwrap(), b"k,v\n").expect("a query");
        let mut planner = Planner::new(AcceptedError::relative(0.05).unwrap(), Confidence::P95);
        answering.set_messages_sent(0, 10_000).unwrap();
        planner.source_started(0, 1.0);
        let mut looks = 0;
        for message in 0..10_000u32 {
            let value = message.wrapping_mul(2_654_435_761) >> 24;
            let row = format!("k{},{value}\n", message % 2);
            answering.push_csv(0, row.as_bytes()).unwrap();
            let actions = planner.look_at(&answering).unwrap();
            looks += u32::from(!actions.is_empty());
            if actions.contains(&Action::End) {
                break;
            }
        }
        let report = planner.report().expect("the error was met");
        assert!(report.is_met() && answering.messages() < 2_000 && looks == report.looks);
        // The rows have paid for the looks as well.
        let answers = planner.answers(&answering).unwrap();
        let plain = answering.answers(Confidence::P95).unwrap();
        for ((key, planned), (same, plain)) in answers.rows.iter().zip(&plain.rows) {
            assert!(key == same && planned.half_width() > plain.half_width());
            assert_eq!(planned.confidence, Confidence::P95);
        }
        assert_eq!(planner.overall(&answering).unwrap().as_ref(), report.estimates.first());
    }
}
