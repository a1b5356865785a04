//! Metrics for Prometheus and its like: OpenMetrics text over HTTP, from the snapshot page.
//!
//! Labels are job id, group and names of fixed lists (event, program, outcome, state, limit), never
//! addresses or names that users choose.

mod families;
mod server;

pub use families::text;
pub use server::{Server, TYPE};
