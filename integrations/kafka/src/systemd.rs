//! Talks to systemd, if it started the program: readiness, progress and the end (sd_notify(3)).

use sd_notify::NotifyState;
use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// Reports that the program carries windows.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the program ends.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that the program's loop runs, as often as systemd wants to know: at half the time after
/// which it restarts the program.
pub fn alive() {
    static INTERVAL: OnceLock<Option<Duration>> = OnceLock::new();
    static REPORTED: Mutex<Option<Instant>> = Mutex::new(None);
    let Some(interval) = *INTERVAL.get_or_init(|| Some(sd_notify::watchdog_enabled()? / 2)) else {
        return;
    };
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.is_none_or(|reported| reported.elapsed() >= interval) {
        *reported = Some(Instant::now());
        notify(&[NotifyState::Watchdog]);
    }
}

/// Without systemd this does nothing.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "can't notify systemd");
    }
}
