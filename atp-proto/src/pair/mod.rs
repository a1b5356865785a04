//! Two hosts and a network between them in virtual time: deterministic, from one seed. For tests.
//!
//! The sending host has a [`Job`](crate::flow::Job) and [`Lanes`](crate::flow::Lanes), the receiving
//! one an [`Endpoint`](crate::endpoint::Endpoint), as they ship. The network loses, delays, reorders,
//! duplicates and marks packets, and may shorten them. [`run`] checks the guarantee after each end.

mod application;
mod channel;
mod everything;
mod probes;
mod receiving;
mod run;
mod scenario;
mod seeds;
mod sending;

pub use channel::Path;
pub use run::{End, run};
pub use scenario::{Acks, ClockStep, MsrChange, Request, Scenario};
pub use seeds::each_seed;
