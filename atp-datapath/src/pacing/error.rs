//! Errors of the qdiscs.

use std::io;

/// An error in setting up or changing pacing.
#[derive(Debug, thiserror::Error)]
pub enum PacingError {
    /// The interface has a configured qdisc.
    #[error(
        "the interface {interface} has a configured root qdisc ({kind} {handle:x}:): remove it with `tc qdisc del dev {interface} root`, or leave out this interface"
    )]
    ForeignQdisc {
        /// The interface.
        interface: String,
        /// The qdisc's kind.
        kind: String,
        /// The major number of the qdisc's handle.
        handle: u16,
    },
    /// The kernel has none of the requested qdiscs.
    #[error(
        "this kernel has no qdisc {} for pacing: load the module sch_fq or sch_htb, or choose another --pacing",
        wanted.join(" or ")
    )]
    NoBackend {
        /// The names of the requested qdiscs.
        wanted: Vec<&'static str>,
    },
    /// No such interface.
    #[error("there is no network interface {0:?}: `ip link` lists the interfaces of this host")]
    NoSuchInterface(String),
    /// The kernel returned EPERM or EACCES.
    #[error(
        "no permission to {action}: run as root, or with the capability CAP_NET_ADMIN and, where this kernel's modules aren't listed in /lib/modules, with --pacing fq or --pacing htb"
    )]
    NotPrivileged {
        /// The refused action.
        action: String,
    },
    /// Another error of the kernel.
    #[error("can't {action}: {source}")]
    Kernel {
        /// The failed action.
        action: String,
        /// The kernel's error.
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
