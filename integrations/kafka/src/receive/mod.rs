//! `atp-kafka receive`: receives windows, and writes each into a topic in one transaction.
//!
//! The transaction has the records, and a record of the window in the topic of windows, with the
//! offsets that were counted so far. A receiver that is started again reads these, and so counts no
//! window twice; its sender repeats the windows whose transactions didn't commit.

mod metrics;
mod run;
mod store;
mod topics;
mod window_record;

pub use run::{dry_run, run};
