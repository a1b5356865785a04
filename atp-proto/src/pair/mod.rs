//! Two hosts and a network between them in virtual time: deterministic, from one seed. For tests.
//!
//! The sending host has a [`Sender`](crate::Sender), the receiving one an
//! [`Endpoint`](crate::endpoint::Endpoint), as it ships. The network loses, delays, reorders and
//! duplicates packets, marks them, and may cut them. [`run`] checks the guarantee after each end.

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
