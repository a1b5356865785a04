//! `emax`: the sampling rate from an accepted error.
//!
//! A planner has no clock and no socket. It is told of sources and of arrived messages, and answers
//! with requests for the senders.

mod accepted;
mod allocation;
mod of_query;
mod planner;
mod report;
mod spending;

pub use accepted::AcceptedError;
pub use planner::{Action, Planner};
pub use report::{Reason, Report};
