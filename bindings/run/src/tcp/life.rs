//! How long the receiver beside a listening socket lives: connections outlive the socket.

use super::connection::Connection;
use crate::shared::lock;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Condvar, Mutex},
    time::Instant,
};

/// The connections by their clients' addresses and jobs. A client chooses its jobs' ids freely.
pub type Jobs = Mutex<HashMap<(IpAddr, u32), Arc<Connection>>>;

#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
enum Phase {
    #[default]
    Open,
    /// The program has closed its listening socket.
    Closing,
    /// The process ends.
    Leaving,
    Ended,
}

#[derive(Default)]
pub struct Life {
    phase: Mutex<Phase>,
    pub jobs: Jobs,
    /// Connections that the program may have seen, and that have no job yet.
    beginning: Mutex<usize>,
    changed: Condvar,
}

impl Life {
    pub fn has_ended(&self) -> bool {
        *lock(&self.phase) == Phase::Ended
    }

    /// Whether new connections are another process's.
    pub fn is_closing(&self) -> bool {
        *lock(&self.phase) >= Phase::Closing
    }

    pub fn close(&self) {
        self.pass_to(Phase::Closing);
    }

    /// Refuses new connections.
    pub fn leave(&self) {
        self.pass_to(Phase::Leaving);
    }

    /// No phase comes back, but for [`Self::reopen`].
    fn pass_to(&self, next: Phase) {
        let mut phase = lock(&self.phase);
        if *phase < next {
            *phase = next;
        }
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
        self.pass_to(Phase::Ended);
    }

    /// Ends the connections of a program that reads no more, until `deadline`, and then the
    /// receiver: without it a client's messages fail, before it has read the replies.
    pub fn end_after_connections(&self, deadline: Instant) {
        let connections = self.all_connections(deadline);
        connections.iter().for_each(|connection| connection.end_at_exit(deadline));
        self.end();
    }

    /// Ends after the last connection; whether it has ended.
    pub fn end_without_connections(&self) -> bool {
        let mut phase = lock(&self.phase);
        let is_idle = || *lock(&self.beginning) == 0 && lock(&self.jobs).is_empty();
        if *phase >= Phase::Closing && is_idle() {
            *phase = Phase::Ended;
        }
        *phase == Phase::Ended
    }

    /// Begins a connection, unless the receiver or the process ends.
    pub fn begin_connection(&self) -> Option<Beginning<'_>> {
        let phase = lock(&self.phase);
        (*phase < Phase::Leaving).then(|| {
            *lock(&self.beginning) += 1;
            Beginning(self)
        })
    }

    pub fn connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.jobs).values().cloned().collect()
    }

    /// The connections, with those that the program has just accepted: they are there soon, and
    /// aren't awaited after `deadline`.
    pub fn all_connections(&self, deadline: Instant) -> Vec<Arc<Connection>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waits = |beginning: &mut usize| *beginning > 0;
        drop(self.changed.wait_timeout_while(lock(&self.beginning), left, waits));
        self.connections()
    }
}

/// A connection that begins.
pub struct Beginning<'a>(&'a Life);

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        *lock(&self.0.beginning) -= 1;
        self.0.changed.notify_all();
    }
}
