//! The resources of each client of the control socket: its progress map, flows and ports.

use super::{
    connection::{Connection, Peer, SessionId},
    internal,
    quota::Held,
};
use approxlib::control::Refusal;
use atp_datapath::ProgressMap;
use std::{collections::HashMap, rc::Rc};

/// The resources of one connection.
pub struct Session {
    /// The connection itself.
    pub connection: Rc<Connection>,
    /// The map in which its library reports progress; created with the first flow.
    pub progress: Option<Rc<ProgressMap>>,
    /// Indices of its flows.
    pub flows: Vec<usize>,
    /// Ports registered for receiving, with their places in the budget.
    pub receiver_ports: Vec<(u16, Held)>,
}

/// All sessions, by connection.
#[derive(Default)]
pub struct Sessions(HashMap<SessionId, Session>);

impl Sessions {
    /// Opens a session.
    pub fn open(&mut self, peer: Peer, connection: Rc<Connection>) {
        let session =
            Session { connection, progress: None, flows: Vec::new(), receiver_ports: Vec::new() };
        self.0.insert(peer.session, session);
    }

    /// Removes a session.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        self.0.remove(&id)
    }

    /// The session of a connection.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.0.get(&id)
    }

    /// The session of a connection, to change it.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.0.get_mut(&id)
    }

    /// The sessions whose clients have ended.
    pub fn closed(&self) -> Vec<SessionId> {
        let closed = |session: &Session| session.connection.is_closed();
        self.0.iter().filter(|(_, session)| closed(session)).map(|(id, _)| *id).collect()
    }

    /// The session of a client whose request is being served.
    pub fn of_peer(&mut self, peer: Peer) -> Result<&mut Session, Refusal> {
        self.get_mut(peer.session).ok_or_else(|| internal("the connection has ended"))
    }
}
