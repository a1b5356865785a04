//! What can go wrong with qdiscs.

use std::io;

/// Why an interface can't be paced.
#[derive(Debug, thiserror::Error)]
pub enum PacingError {
    /// Somebody configured a qdisc on purpose.
    #[error(
        "{interface} has a root qdisc that isn't the system's default ({kind} {handle:x}:): remove it with `tc qdisc del dev {interface} root`, or leave this interface out"
    )]
    ForeignQdisc {
        /// The interface.
        interface: String,
        /// The qdisc's kind.
        kind: String,
        /// Its handle's major number.
        handle: u16,
    },
    /// None of the wanted qdiscs.
    #[error(
        "this kernel lacks what pacing needs (qdisc {}): load the module sch_fq or sch_htb, or choose another pacing",
        wanted.join(" or ")
    )]
    NoBackend {
        /// The names of those that would have done.
        wanted: Vec<&'static str>,
    },
    /// No such interface.
    #[error("there is no network interface {0:?}")]
    NoSuchInterface(String),
    /// EPERM.
    #[error(
        "not allowed to {action}: run as root, or with CAP_NET_ADMIN (and CAP_SYS_ADMIN to probe)"
    )]
    NotPrivileged {
        /// What was refused.
        action: String,
    },
    /// Anything else that the kernel said.
    #[error("can't {action}: {source}")]
    Kernel {
        /// What was tried.
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl PacingError {
    pub(super) fn kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPrivileged { action },
            _ => Self::Kernel { action, source },
        }
    }
}
