//! Two hosts and a network between them in virtual time: deterministic, from one seed.

mod channel;
mod hosts;
mod run;
mod scenario;

pub use channel::Path;
pub use run::{End, run};
pub use scenario::{Acks, ClockStep, MsrChange, Request, Scenario};
