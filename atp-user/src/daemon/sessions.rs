//! The resources of each client of the control socket: its progress map, flows and ports.

use super::{
    connection::{Connection, Peer},
    internal,
    jobs::SessionId,
    quota,
};
use approxlib::control::Refusal;
use atp_datapath::ProgressMap;
use std::{collections::HashMap, rc::Rc};

/// The resources of one connection.
pub struct Session {
    /// The connection itself.
    pub connection: Rc<Connection>,
    /// The connection's user.
    pub uid: u32,
    /// The map in which its library reports progress; created with the first flow.
    pub progress: Option<Rc<ProgressMap>>,
    /// Indices of its flows.
    pub flows: Vec<usize>,
    /// Ports registered for receiving.
    pub receiver_ports: Vec<u16>,
}

/// All sessions, by connection.
#[derive(Default)]
pub struct Sessions(HashMap<SessionId, Session>);

impl Sessions {
    /// Opens a session.
    pub fn open(&mut self, peer: Peer, connection: Rc<Connection>) {
        let session = Session {
            connection,
            uid: peer.uid,
            progress: None,
            flows: Vec::new(),
            receiver_ports: Vec::new(),
        };
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

    /// The session of a client whose request is being served.
    pub fn of_peer(&mut self, peer: Peer) -> Result<&mut Session, Refusal> {
        self.get_mut(peer.session).ok_or_else(|| internal("the connection has ended"))
    }

    /// Refuses one more sending socket to a user at the limit.
    pub fn check_flows(&self, uid: u32) -> Result<(), Refusal> {
        let used = self.of_user(uid).map(|session| session.flows.len()).sum();
        quota::check(uid, used, quota::FLOWS_MAX, "sending sockets")
    }

    /// Refuses one more receiving port to a user at the limit.
    pub fn check_receiver_ports(&self, uid: u32) -> Result<(), Refusal> {
        let used = self.of_user(uid).map(|session| session.receiver_ports.len()).sum();
        quota::check(uid, used, quota::RECEIVER_PORTS_MAX, "receiving ports")
    }

    fn of_user(&self, uid: u32) -> impl Iterator<Item = &Session> {
        self.0.values().filter(move |session| session.uid == uid)
    }
}
