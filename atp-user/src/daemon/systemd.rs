//! Talks to systemd, if it started the daemon: takes the socket that systemd listens on, and
//! reports readiness, progress and the end (sd_listen_fds(3), sd_notify(3)).

use anyhow::{Context, Result, bail};
use sd_notify::NotifyState;
use std::{
    os::fd::{FromRawFd, OwnedFd},
    time::Duration,
};

/// The control socket that systemd listens on for this process; `None` without socket activation.
pub fn activated_socket() -> Result<Option<OwnedFd>> {
    let mut passed = sd_notify::listen_fds().context("can't read LISTEN_FDS")?;
    let Some(first) = passed.next() else { return Ok(None) };
    if passed.next().is_some() {
        bail!("systemd passed several sockets: keep one ListenSequentialPacket= in atp.socket");
    }
    // SAFETY: systemd opened it for this process. The daemon calls this function once, and nothing
    // else takes the descriptor.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(first) }))
}

/// Reports that the daemon is attached and serves clients.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the daemon restores the host.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that the control loop runs.
pub fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// How often systemd wants [`alive`], or a day if it doesn't: half the time after which it restarts
/// the daemon.
pub fn alive_interval() -> Duration {
    const DAY: Duration = Duration::from_hours(24);
    sd_notify::watchdog_enabled().map_or(DAY, |longest| longest / 2).max(Duration::from_millis(1))
}

/// Without systemd this does nothing.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "can't notify systemd");
    }
}
