//! Errors of the datapath: what failed, on what, and what to do.

use super::pacing::PacingError;
use aya::programs::ProgramError;
use std::{error::Error, io, path::PathBuf};

/// An error in loading, attaching or using the datapath.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// The daemon was built without an eBPF object.
    #[error("this build carries no eBPF programs: build with `cargo xtask build`")]
    NoObject,
    /// The object's file can't be read.
    #[error("can't read the eBPF object {}: {source}", path.display())]
    ObjectFile {
        /// The path of the file.
        path: PathBuf,
        /// The error of the read.
        source: io::Error,
    },
    /// The object has other programs or maps than this build expects.
    #[error(
        "the eBPF object doesn't match this daemon: {what}; build both with `cargo xtask build`"
    )]
    ObjectMismatch {
        /// The missing or different part.
        what: String,
    },
    /// The kernel returned EPERM.
    #[error(
        "no permission to {action}: run as root, or with the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
    )]
    NotPrivileged {
        /// The refused action.
        action: String,
    },
    /// The kernel lacks a feature.
    #[error("this kernel ({running}) is too old for {feature}: use Linux {needed} or newer")]
    KernelTooOld {
        /// The feature.
        feature: &'static str,
        /// The first kernel that has it.
        needed: &'static str,
        /// The running kernel.
        running: String,
    },
    /// The verifier refused a program.
    #[error(
        "the kernel's verifier refused the program {program}: {reason}; build the object again with `cargo xtask build`, and report this error if it persists"
    )]
    Refused {
        /// The program's name.
        program: &'static str,
        /// The last message of the verifier.
        reason: String,
    },
    /// Epochs in the kernel need fq.
    #[error(
        "`--epochs kernel` needs the qdisc fq, because no eBPF program can change the rate of an HTB class: use `--epochs daemon`, or a kernel with sch_fq"
    )]
    LawsNeedFq,
    /// No such interface.
    #[error("there is no network interface {0:?}: `ip link` lists the interfaces of this host")]
    NoSuchInterface(String),
    /// The interface carries no Ethernet frames.
    #[error(
        "the network interface {0:?} carries no Ethernet frames, which the programs need: attach to another interface"
    )]
    NotEthernet(String),
    /// Another daemon is attached.
    #[error(
        "another daemon is attached to the interface {0:?}: stop it first with `atp-user stop`"
    )]
    InUse(String),
    /// Attaching failed for another reason.
    #[error("can't attach to the interface {interface:?} at {hook}: {reason}")]
    Attach {
        /// The interface.
        interface: String,
        /// The hook.
        hook: &'static str,
        /// The kernel's error.
        reason: String,
    },
    /// The qdisc was replaced by one that someone else configured.
    #[error(
        "the qdisc {0} has replaced the one that paces ATP's packets: remove it with `tc qdisc del dev DEV root`, and the daemon installs its own again"
    )]
    QdiscReplaced(String),
    /// The thread for the network failed.
    #[error("{0}")]
    Classes(String),
    /// A qdisc or class failed.
    #[error(transparent)]
    Pacing(#[from] PacingError),
    /// A map operation failed.
    #[error("can't {action}: {source}")]
    Map {
        /// The failed action.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Loading failed for another reason.
    #[error("can't load the eBPF programs: {0}")]
    Load(String),
}

impl DatapathError {
    /// The error of a failed map operation; EPERM becomes [`Self::NotPrivileged`].
    pub(super) fn map(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        if source.raw_os_error() == Some(libc::EPERM) {
            return Self::NotPrivileged { action };
        }
        Self::Map { action, source }
    }
}

/// The error of a program that failed to load.
pub(super) fn program_error(program: &'static str, error: ProgramError) -> DatapathError {
    match error {
        ProgramError::LoadError { io_error, .. }
            if io_error.raw_os_error() == Some(libc::EPERM) =>
        {
            DatapathError::NotPrivileged { action: format!("load the program {program}") }
        }
        ProgramError::LoadError { io_error, verifier_log } => DatapathError::Refused {
            program,
            reason: verifier_reason(&verifier_log.to_string(), &io_error),
        },
        error => DatapathError::Load(error_chain(&error)),
    }
}

/// The last message of the verifier is the reason; the lines before it are its trace.
fn verifier_reason(log: &str, error: &io::Error) -> String {
    tracing::debug!(log, "verifier log");
    const STATISTICS: [&str; 3] = ["processed ", "verification time", "stack depth"];
    let is_statistic = |line: &str| STATISTICS.iter().any(|words| line.starts_with(words));
    let mut lines = log.lines().rev().filter(|line| !line.is_empty() && !is_statistic(line));
    lines.next().map_or_else(|| error.to_string(), |line| format!("{line} ({error})"))
}

/// An error and its causes in one line.
pub(super) fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
