//! The daemon: attaches the datapath, serves the control socket and runs the control loop.

mod advice;
mod batcher;
mod cgroup;
mod client;
mod clock;
mod closed_sockets;
mod connection;
mod flows;
mod folder;
mod host;
mod interface_lock;
mod interface_page;
mod jobs;
mod known_paths;
mod lanes;
mod leftovers;
mod listener;
mod passed_descriptors;
mod policy;
mod quota;
mod run;
mod sealed_page;
mod sessions;
mod snapshot;
pub(crate) mod socket_addresses;
mod stalls;
mod status_page;
pub(crate) mod subordinate_ids;
mod systemd;
mod telemetry;
mod tenant;
mod ticks;
mod user_namespace;
mod users;

pub(crate) use cgroup::mount_point as cgroup_mount_point;
pub use leftovers::{Leftovers, clean_up};
pub use policy::{Policy, PolicyError};
pub use run::{Epochs, Options, PacingChoice, Switch, run};
pub use users::BLOCKING_THREADS;

use approxlib::control::{Refusal, RefusalKind};

/// Refuses a request with one sentence.
fn refuse<T>(kind: RefusalKind, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { kind, message: message.into() })
}

/// Reports a failure of the daemon to a client.
fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal { kind: RefusalKind::Internal, message: format!("the daemon failed: {error:#}") }
}
