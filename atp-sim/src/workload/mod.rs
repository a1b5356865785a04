//! What applications send: sizes of messages, and when they come.

mod arrivals;
mod sizes;

pub use arrivals::{Arrivals, Gaps, sampled};
pub use sizes::Sizes;
