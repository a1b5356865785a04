//! A sender of windows behind a number.

use super::options::SenderOptions;
use crate::{
    failure::{self, Class, Failure, Outcome},
    table::Table,
};
use approx_windows::{OutboxError, PushError, SenderProgress, SenderState, StreamSender};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

pub static SENDERS: Table<WindowSender> = Table::new("sender of windows");

pub struct WindowSender {
    /// `None` once it is closed. Nobody waits with this lock.
    sender: Mutex<Option<StreamSender>>,
    progress: Arc<SenderProgress>,
}

impl From<OutboxError> for Failure {
    fn from(error: OutboxError) -> Self {
        let text = error.to_string();
        match error {
            OutboxError::Transport { cause, .. } | OutboxError::NoReceiver { cause, .. } => {
                Self::new(class(cause), text)
            }
            OutboxError::EndedByReceiver { .. } => Self::new(failure::ATP, text),
            OutboxError::NoWindows { .. }
            | OutboxError::Rate { .. }
            | OutboxError::GroupName(_)
            | OutboxError::Groups { .. } => Self::argument(text),
        }
    }
}

impl From<PushError> for Failure {
    fn from(error: PushError) -> Self {
        Self::argument(error.to_string())
    }
}

/// The class of a failure, whose text is the stream's.
fn class(cause: approxlib::Error) -> Class {
    match cause.into() {
        Failure::Said(class, _) => class,
        Failure::Short(_) | Failure::Jni(_) => failure::ATP,
    }
}

impl WindowSender {
    /// Starts a sender, and returns its number.
    pub fn open(options: SenderOptions) -> Outcome<i64> {
        let SenderOptions { target, stream, plan, begin } = options;
        let sender = StreamSender::start(target, stream, plan, begin);
        let sender = sender.map_err(approxlib::Error::Thread)?;
        let progress = sender.progress();
        Ok(SENDERS.add(Self { sender: Mutex::new(Some(sender)), progress }))
    }

    /// Uses the sender, unless it has failed or was closed.
    pub fn with<T>(&self, work: impl FnOnce(&mut StreamSender) -> Outcome<T>) -> Outcome<T> {
        self.check()?;
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        work(sender.as_mut().ok_or_else(closed)?)
    }

    /// Waits until `is_done`. Returns whether it is.
    pub fn wait(
        &self,
        timeout_ms: i32,
        is_done: impl Fn(&SenderState) -> bool + Copy,
    ) -> Outcome<bool> {
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        self.progress.wait(timeout, is_done);
        self.check()?;
        Ok(is_done(&self.progress.lock()))
    }

    /// The state of its thread.
    pub fn state<T>(&self, read: impl FnOnce(&SenderState) -> T) -> T {
        read(&self.progress.lock())
    }

    /// Ends it. Windows that aren't confirmed are forgotten.
    pub fn close(&self) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(sender);
    }

    /// The failure of the thread; later calls say that the sender has ended.
    fn check(&self) -> Outcome {
        let mut state = self.progress.lock();
        match (state.failure.take(), state.has_failed) {
            (Some(error), _) => Err(error.into()),
            (None, true) => Err(closed()),
            (None, false) => Ok(()),
        }
    }
}

fn closed() -> Failure {
    Failure::closed("sender of windows")
}
