//! The registered sockets, by their ports: a port belongs to one client.

use super::{
    super::{connection::SessionId, refuse, tenant::Tenant},
    Host, warn_on_error,
};
use approxlib::control::{Refusal, RefusalKind};
use atp_common::maps::PortEntry;
use atp_datapath::UdpSocketId;

/// A registered socket, with its owner.
pub type OwnedSocket = (Tenant, UdpSocketId);

/// A registered socket.
pub struct Registration {
    /// The client that registered it.
    pub session: SessionId,
    /// The flow of a sender; `None` for a receiver.
    pub flow: Option<usize>,
    /// The client's owner.
    pub owner: Tenant,
    /// The socket itself.
    pub socket: UdpSocketId,
}

impl Registration {
    const fn owned_socket(&self) -> OwnedSocket {
        (self.owner, self.socket)
    }
}

impl Host {
    /// All registered sockets.
    pub fn registered_sockets(&self) -> Vec<OwnedSocket> {
        self.registrations.values().map(Registration::owned_socket).collect()
    }

    /// The socket that is registered with a port.
    pub fn registered_socket(&self, port: u16) -> Option<OwnedSocket> {
        self.registrations.get(&port).map(Registration::owned_socket)
    }

    /// Ends the registrations of these sockets, if they still exist. Returns their number.
    pub fn end_registrations(&mut self, sockets: &[UdpSocketId]) -> usize {
        sockets.iter().filter(|socket| self.end_registration(socket)).count()
    }

    fn end_registration(&mut self, socket: &UdpSocketId) -> bool {
        let port = socket.local.port();
        let registered = self.registrations.get(&port);
        let Some(registration) = registered.filter(|found| found.socket == *socket) else {
            return false;
        };
        match (registration.flow, registration.session) {
            (Some(flow), _) => self.close_flow(flow),
            (None, session) => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.receiver_ports.retain(|(kept, _)| *kept != port);
                }
                self.free_port(port);
            }
        }
        true
    }

    /// Refuses a port that another client holds. Frees that of a client that has ended.
    pub(super) fn check_port(&mut self, port: u16) -> Result<(), Refusal> {
        let Some(registration) = self.registrations.get(&port) else { return Ok(()) };
        let holder = registration.session;
        // A client that ended just before this request may not have been noticed yet.
        if self.sessions.get(holder).is_some_and(|session| session.connection.is_closed()) {
            self.close_session(holder);
        }
        if self.registrations.contains_key(&port) {
            return refuse(
                RefusalKind::InUse,
                format!("UDP port {port} is already registered: use another port"),
            );
        }
        Ok(())
    }

    pub(super) fn free_port(&mut self, port: u16) {
        self.registrations.remove(&port);
        if let Some(advice) = &mut self.advice {
            advice.remove_receiver(self.datapath.arrivals(), port);
        }
        warn_on_error(self.datapath.set_port(port, PortEntry::default()));
    }
}
