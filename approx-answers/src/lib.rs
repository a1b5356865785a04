//! Answers with confidence intervals, from the messages of a lossy job that arrived.
//!
//! A job sends N messages in each stratum (one sender's part of one group), and m of them arrive.
//! Messages are clusters of records: records of one message resemble each other, so the intervals
//! here compare messages, never records.
//!
//! ```
//! use approx_answers::{Confidence, Delivery, Sample};
//!
//! let mut sample = Sample::new();
//! sample.set_messages_sent(0, 100)?;
//! sample.set_delivery(0, &Delivery::shuffled())?;
//! for message in 0..80 {
//!     let delays_min = [4.0, 7.0, f64::from(message % 10)];
//!     sample.push(0, delays_min.len() as u64, delays_min.iter().sum())?;
//! }
//! let mean = sample.mean(Confidence::P95)?;
//! println!("mean delay: {mean} minutes"); // 5.17 (5.07 to 5.26, 95 %)
//! assert!(mean.contains(5.1667) && mean.half_width() < 0.1);
//! assert!(mean.warnings.is_empty());
//! # Ok::<(), approx_answers::AnswerError>(())
//! ```
//!
//! Each part of a job may be summed up on its own and merged later. Memory has a
//! bound, however many messages arrive.

mod agreement;
mod candidates;
mod check;
mod confidence;
mod csv_text;
mod delivery;
mod deviations;
mod digits;
pub mod division;
mod emax;
mod error;
mod estimate;
mod expansion;
mod group_by;
mod groups;
mod keyed;
mod moments;
mod part;
mod position;
mod quantiles;
mod query;
mod ratio;
mod room;
mod sample;
mod skewness;
mod spread;
mod strata_methods;
mod stratum;
mod students;
mod table;
mod table_totals;
mod top;
mod total;
mod uncounted;
mod values;
mod warning;
mod wire;
mod with_value;

pub use confidence::Confidence;
pub use delivery::{Delivery, Order};
pub use digits::Digits;
pub use emax::{AcceptedError, Action, Planner, Reason, Report};
pub use error::{AnswerError, QueryError};
pub use estimate::{Bound, Estimate};
pub use group_by::GroupBy;
pub use moments::Moments;
pub use position::Gap;
pub use quantiles::Quantiles;
pub use query::{
    Answering, Answers, Comparison, Condition, CsvQuotes, Function, InputRow, Literal, Query,
    QuoteError, Row, Value, is_missing,
};
pub use sample::Sample;
pub use table::{LongRecords, RecordOrder, Table, TableError};
pub use table_totals::Totals;
pub use top::{Ranking, Top};
pub use warning::{MESSAGES_MIN, Warning};

/// Compiles and runs the samples of the book's page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/src/guide/answers.md")]
struct Guide;
