//! What a client of the control socket holds: its progress map, its flows, its receiving ports.

use super::{jobs::SessionId, status_page::StatusPage};
use crate::datapath::ProgressMap;
use std::collections::HashMap;

/// What one connection holds.
#[derive(Default)]
pub struct Session {
    /// Where its library writes what it has sent; made with the first flow.
    pub progress: Option<ProgressMap>,
    /// Indices of its flows.
    pub flows: Vec<usize>,
    /// Ports registered for receiving.
    pub receiver_ports: Vec<u16>,
}

/// A registered sending socket.
pub struct FlowRecord {
    /// Whose it is.
    pub session: SessionId,
    /// Its job's index.
    pub job: usize,
    /// What the datapath knows of it.
    pub entry: atp_common::maps::Flow,
    /// What its library may read of its lanes.
    pub status: StatusPage,
}

/// All sessions, by connection.
pub type Sessions = HashMap<SessionId, Session>;
