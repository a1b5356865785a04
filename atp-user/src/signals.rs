//! Signals of this process.

/// Whether a signal is ignored, as under `nohup`.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zero is a valid action. The call below only writes to it.
    let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut present) };
    result == 0 && present.sa_sigaction == libc::SIG_IGN
}
