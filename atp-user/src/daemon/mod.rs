//! The daemon: attaches the datapath, serves the control socket, and runs the control loop.

mod cgroup;
mod connection;
mod flows;
mod host;
mod instance;
mod jobs;
mod lanes;
mod leftovers;
mod listener;
mod quota;
mod run;
mod sessions;
mod socket_addresses;
mod status_page;
mod users;

pub use leftovers::clean_up;
pub use run::{Epochs, Options, PacingChoice, run};

use approxlib::control::{Refusal, RefusalKind};

/// A refusal, in one sentence.
fn refuse<T>(kind: RefusalKind, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { kind, message: message.into() })
}

/// A failure of ours, as a client is told of it.
fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal { kind: RefusalKind::Internal, message: format!("the daemon failed: {error:#}") }
}
