//! How long the receiver beside a listening socket lives: connections outlive the socket.

use super::connection::Connection;
use crate::shared::lock;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// The connections by their jobs.
pub type Jobs = Mutex<HashMap<u32, Arc<Connection>>>;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Open,
    /// The program has closed its listening socket.
    Closing,
    Ended,
}

#[derive(Default)]
pub struct Life {
    phase: Mutex<Phase>,
    pub jobs: Jobs,
}

impl Life {
    pub fn has_ended(&self) -> bool {
        *lock(&self.phase) == Phase::Ended
    }

    pub fn is_closing(&self) -> bool {
        *lock(&self.phase) == Phase::Closing
    }

    pub fn close(&self) {
        *lock(&self.phase) = Phase::Closing;
    }

    /// Takes up what is ending; whether it was.
    pub fn reopen(&self) -> bool {
        let mut phase = lock(&self.phase);
        let is_closing = *phase == Phase::Closing;
        if is_closing {
            *phase = Phase::Open;
        }
        is_closing
    }

    /// Ends at once.
    pub fn end(&self) {
        *lock(&self.phase) = Phase::Ended;
    }

    /// Ends after the last connection; whether it has ended.
    pub fn end_without_connections(&self) -> bool {
        let mut phase = lock(&self.phase);
        if *phase == Phase::Closing && lock(&self.jobs).is_empty() {
            *phase = Phase::Ended;
        }
        *phase == Phase::Ended
    }

    /// Runs `register` with the connections, unless the receiver has ended.
    pub fn register<T>(
        &self,
        register: impl FnOnce(&mut HashMap<u32, Arc<Connection>>) -> T,
    ) -> Option<T> {
        let phase = lock(&self.phase);
        (*phase != Phase::Ended).then(|| register(&mut lock(&self.jobs)))
    }

    pub fn connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.jobs).values().cloned().collect()
    }
}
