//! Questions, their answers from the messages that arrived, and the truth.

use approx_answers::{
    AnswerError, Answering, Confidence, Estimate, GroupBy, Quantiles, Sample, Warning,
};

use crate::data::{KEYS, Message, Record};

/// The columns of a table for queries. The size of a record is that of its denominator.
const COLUMNS: [&str; 4] = ["key", "size", "x", "y"];

/// A question about a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    Sum,
    Mean,
    Ratio,
    /// The number of records with a key.
    CountOf(u32),
    Quantile(f64),
    /// The first function of a query, for the key of these values.
    Query(&'static str, &'static [&'static str]),
}

/// The answer to a question, at any time of a job.
pub enum Answers {
    Sample(Sample),
    Keys(GroupBy<u32>),
    Quantiles(Quantiles),
    Query(Box<Answering>),
}

impl Question {
    /// An answer without messages.
    pub fn answers(self) -> Answers {
        match self {
            Self::Sum | Self::Mean | Self::Ratio => Answers::Sample(Sample::new()),
            Self::CountOf(_) => Answers::Keys(GroupBy::new(KEYS as usize)),
            Self::Quantile(_) => Answers::Quantiles(Quantiles::new(1)),
            Self::Query(query, _) => {
                let query = query.parse().expect("a query");
                Answers::Query(Box::new(Answering::new(query, &COLUMNS).expect("its columns")))
            }
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
            Self::Query(..) => {
                let mut all = self.answers();
                messages.iter().for_each(|message| all.push(self, 0, message));
                let Answers::Query(answering) = &mut all else { panic!("answers of a query") };
                answering.set_messages_sent(0, messages.len() as u64).expect("a whole job");
                all.answer(self, Confidence::P95).expect("an answer").value
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
            Self::Query(answering) => {
                let pushed = answering.push_message(stratum, records.iter().map(row));
                return pushed.expect("a message of the job");
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
            Self::Query(answering) => answering.messages(),
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
            (Self::Query(answering), Question::Query(_, key)) => {
                let mut rows = answering.answers(confidence)?.rows.into_iter();
                let row = rows.find(|row| row.key == key && row.function == 0);
                row.map(|row| row.estimate).ok_or(AnswerError::UnknownKey)
            }
            _ => panic!("the answers of another question"),
        }
    }

    /// Warnings about the table as a whole.
    pub fn warnings(&self) -> Vec<Warning> {
        match self {
            Self::Sample(_) => Vec::new(),
            Self::Keys(by) => by.warnings(),
            Self::Quantiles(quantiles) => quantiles.warnings(),
            Self::Query(answering) => {
                answering.answers(Confidence::P95).map_or(Vec::new(), |answers| answers.warnings)
            }
        }
    }
}

/// A record as a row of text.
fn row(record: &Record) -> [String; 4] {
    let size = if record.x < 2.0 { "small" } else { "large" };
    [record.key.to_string(), size.to_owned(), record.x.to_string(), record.y.to_string()]
}
