//! Questions, their answers from the messages that arrived, and the truth.

use approx_answers::{AnswerError, Confidence, Estimate, GroupBy, Quantiles, Sample, Warning};

use crate::data::{KEYS, Message};

/// A question about a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    Sum,
    Mean,
    Ratio,
    /// The number of records with a key.
    CountOf(u32),
    Quantile(f64),
}

/// The answer to a question, at any time of a job.
pub enum Answers {
    Sample(Sample),
    Keys(GroupBy<u32>),
    Quantiles(Quantiles),
}

impl Question {
    /// An answer without messages.
    pub fn answers(self) -> Answers {
        match self {
            Self::Sum | Self::Mean | Self::Ratio => Answers::Sample(Sample::new()),
            Self::CountOf(_) => Answers::Keys(GroupBy::new(KEYS as usize)),
            Self::Quantile(_) => Answers::Quantiles(Quantiles::new(1)),
        }
    }

    /// The answer from all messages.
    pub fn truth(self, messages: &[Message]) -> f64 {
        let records = || messages.iter().flat_map(|message| &message.records);
        let sum = || records().map(|record| record.y).sum::<f64>();
        match self {
            Self::Sum => sum(),
            Self::Mean => sum() / records().count() as f64,
            Self::Ratio => sum() / records().map(|record| record.x).sum::<f64>(),
            Self::CountOf(key) => records().filter(|record| record.key == key).count() as f64,
            Self::Quantile(rank) => {
                let mut values: Vec<f64> = records().map(|record| record.y).collect();
                let position = (rank * values.len() as f64).ceil() as usize - 1;
                *values.select_nth_unstable_by(position, f64::total_cmp).1
            }
        }
    }
}

impl Answers {
    /// Adds a message.
    pub fn push(&mut self, question: Question, stratum: u32, message: &Message) {
        let records = &message.records;
        let total = |number: fn(&crate::data::Record) -> f64| records.iter().map(number).sum();
        let pushed = match self {
            Self::Sample(sample) if question == Question::Ratio => {
                sample.push_pair(stratum, total(|record| record.x), total(|record| record.y))
            }
            Self::Sample(sample) => {
                sample.push(stratum, records.len() as u64, total(|record| record.y))
            }
            Self::Keys(by) => {
                by.push_message(stratum, records.iter().map(|record| (record.key, record.y)))
            }
            Self::Quantiles(quantiles) => {
                quantiles.push_message(stratum, records.iter().map(|record| ((), record.y)))
            }
        };
        pushed.expect("a message of the job");
    }

    /// The number of messages so far.
    pub fn messages(&self) -> u64 {
        match self {
            Self::Sample(sample) => sample.messages(),
            Self::Keys(by) => by.all().messages(),
            Self::Quantiles(quantiles) => quantiles.all().messages(),
        }
    }

    /// The answer so far.
    pub fn answer(
        &self,
        question: Question,
        confidence: Confidence,
    ) -> Result<Estimate, AnswerError> {
        match (self, question) {
            (Self::Sample(sample), Question::Sum) => sample.sum(confidence),
            (Self::Sample(sample), Question::Mean) => sample.mean(confidence),
            (Self::Sample(sample), Question::Ratio) => sample.ratio(confidence),
            (Self::Keys(by), Question::CountOf(key)) => by.count(&key, confidence),
            (Self::Quantiles(of), Question::Quantile(rank)) => of.quantile(&(), rank, confidence),
            _ => panic!("the answers of another question"),
        }
    }

    /// Warnings about the table as a whole.
    pub fn warnings(&self) -> Vec<Warning> {
        match self {
            Self::Sample(_) => Vec::new(),
            Self::Keys(by) => by.warnings(),
            Self::Quantiles(quantiles) => quantiles.warnings(),
        }
    }
}
