//! What can go wrong between the daemon and the kernel, in sentences for people.

use super::pacing::PacingError;
use std::{io, path::PathBuf};

/// Why the datapath can't be loaded, attached or told something.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// Built without eBPF.
    #[error("this build carries no eBPF programs: build with `cargo xtask build`")]
    NoObject,
    /// The object's file can't be read.
    #[error("can't read the eBPF object {}: {source}", path.display())]
    ObjectFile {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The object isn't what this build expects.
    #[error("the eBPF object doesn't fit this daemon: {what}; build both with `cargo xtask build`")]
    ObjectMismatch {
        /// What is missing or different.
        what: String,
    },
    /// EPERM.
    #[error(
        "not allowed to {action}: run as root, or with the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
    )]
    NotPrivileged {
        /// What was refused.
        action: String,
    },
    /// The kernel lacks a feature.
    #[error("this kernel ({running}) is too old: {feature} needs Linux {needed} or newer")]
    KernelTooOld {
        /// The feature.
        feature: &'static str,
        /// The first kernel that has it.
        needed: &'static str,
        /// The running kernel.
        running: String,
    },
    /// The verifier refused a program.
    #[error("the kernel's verifier refused the program {program}: {reason}")]
    Refused {
        /// Its name.
        program: &'static str,
        /// The last words of the verifier.
        reason: String,
    },
    /// Epochs in the kernel, without fq.
    #[error(
        "epochs in the kernel need pacing by fq, since no eBPF program can change the rate of an HTB class: run with `--epochs daemon`, or on a kernel with sch_fq"
    )]
    LawsNeedFq,
    /// Epochs in the kernel, with a law that isn't for them.
    #[error(
        "epochs in the kernel and the law `polite` don't go together: its equation is too much for an eBPF program; run with `--epochs daemon`"
    )]
    LawNotInPrograms,
    /// No such interface.
    #[error("there is no network interface {0:?}: `ip link` lists those that exist")]
    NoSuchInterface(String),
    /// The interface carries no Ethernet frames.
    #[error("the network interface {0:?} carries no Ethernet frames, which the programs expect")]
    NotEthernet(String),
    /// Another daemon is there.
    #[error(
        "ATP's programs are attached to {0:?} already: stop the other daemon first (`atp-user stop`)"
    )]
    InUse(String),
    /// Attaching failed otherwise.
    #[error("can't attach to {interface:?} at {hook}: {reason}")]
    Attach {
        /// The interface.
        interface: String,
        /// Which hook.
        hook: &'static str,
        /// What the kernel said.
        reason: String,
    },
    /// A qdisc or class.
    #[error(transparent)]
    Pacing(#[from] PacingError),
    /// A map operation failed.
    #[error("can't {action}: {source}")]
    Map {
        /// What was tried.
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Anything else that loading brings.
    #[error("can't load the eBPF programs: {0}")]
    Load(String),
}

impl DatapathError {
    /// A failed map operation; EPERM is told as what it is.
    pub(super) fn map(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        if source.raw_os_error() == Some(libc::EPERM) {
            return Self::NotPrivileged { action };
        }
        Self::Map { action, source }
    }
}
