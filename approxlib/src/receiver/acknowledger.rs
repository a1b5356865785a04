//! Decides who acknowledges a packet: the daemon's programs or this process.

use super::{advice::OwnAdvice, arriving::ArrivingLanes, own_addresses::ArrivalLines};
use crate::{
    control::{Client, ClientError, Registrar},
    datapath::InterfacePage,
    udp::UdpSocket,
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The pause before the first attempt to register.
const PAUSE: Duration = Duration::from_millis(250);

/// A receiving socket that a daemon serves, as long as the connection lasts.
pub struct Registration {
    client: Client,
    interfaces: InterfacePage,
    /// The lanes to which the daemon gives advice, if it gives any.
    arriving: Option<ArrivingLanes>,
    lines: ArrivalLines,
}

impl Registration {
    /// Registers a bound socket. Blocks until the daemon answers.
    fn new(client: Client, socket: &UdpSocket) -> Result<Self, ClientError> {
        // The options come first: from the registration on, the interface decides.
        socket.tell_interfaces()?;
        let (page, lanes) = client.receiver_open(socket.as_fd())?;
        let arriving = match lanes {
            Some([map, wake]) => Some(ArrivingLanes::new(&map, wake)?),
            None => None,
        };
        let interfaces = InterfacePage::map(&page)?;
        Ok(Self { client, interfaces, arriving, lines: ArrivalLines::new() })
    }

    /// Whether the programs see packets of `source` that arrive over `interface`. In doubt they
    /// don't: two ACKs do less harm than none.
    fn covers(&self, interface: u32, source: SocketAddr) -> bool {
        self.lines.over(interface, source).is_some_and(|over| self.interfaces.covers(over))
    }
}

/// The adviser of the lanes that arrive.
pub enum Advising<'a> {
    /// The daemon, to the lanes that its programs see.
    Daemon(&'a ArrivingLanes),
    /// This library.
    Here(&'a mut OwnAdvice),
    /// The daemon gives none.
    Nobody,
}

impl Advising<'_> {
    /// Whether lanes get advice.
    pub fn gives_advice(&self) -> bool {
        match self {
            Self::Daemon(_) => true,
            Self::Here(own) => own.gives_advice(),
            Self::Nobody => false,
        }
    }
}

/// Where ACKs are made.
pub enum Acknowledger {
    /// In the daemon's programs, for packets that arrive over the interfaces that they cover. This
    /// process acknowledges the others.
    Kernel { registration: Registration, path: PathBuf },
    /// In this process. With a registrar: until a daemon registers the socket.
    Userspace { registrar: Option<(Registrar<Registration>, PathBuf)> },
}

impl Acknowledger {
    /// In this process, whatever happens.
    pub const USERSPACE: Self = Self::Userspace { registrar: None };

    /// Registers the socket with the daemon at `path`.
    pub fn register(path: &Path, socket: &UdpSocket) -> Result<Self, ClientError> {
        let registration = Registration::new(Client::connect(path)?, socket)?;
        Ok(Self::Kernel { registration, path: path.to_owned() })
    }

    /// In this process, until the daemon at `path` registers the socket.
    pub fn register_later(path: PathBuf, socket: &Arc<UdpSocket>) -> io::Result<Self> {
        let (daemon, socket) = (path.clone(), Arc::downgrade(socket));
        let registrar = Registrar::start(PAUSE, move || {
            // Holds no strong reference while it waits: a thread that waits for a daemon must not
            // keep the port in use.
            let client = Client::connect(&daemon)?;
            let socket = socket.upgrade().ok_or(ClientError::Closed)?;
            Registration::new(client, &socket)
        })?;
        Ok(Self::Userspace { registrar: Some((registrar, path)) })
    }

    /// The name in reports: `ebpf` or `userspace`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kernel { .. } => "ebpf",
            Self::Userspace { .. } => "userspace",
        }
    }

    /// Whether this process acknowledges packets of `source` that arrive over `interface`. Those of
    /// an unknown interface (0) came before the socket's option.
    pub fn is_here(&self, interface: u32, source: SocketAddr) -> bool {
        match self {
            Self::Kernel { registration, .. } => {
                interface == 0 || !registration.covers(interface, source)
            }
            Self::Userspace { .. } => true,
        }
    }

    /// The adviser: the daemon, if it serves the receiver and gives advice, or else `own`.
    pub fn advising<'a>(&'a self, own: &'a mut OwnAdvice) -> Advising<'a> {
        match self {
            Self::Kernel { registration, .. } => {
                registration.arriving.as_ref().map_or(Advising::Nobody, Advising::Daemon)
            }
            Self::Userspace { .. } => Advising::Here(own),
        }
    }

    /// Looks at the addresses of this host again: they may have changed.
    pub fn refresh(&mut self) {
        if let Self::Kernel { registration, .. } = self {
            registration.lines.forget();
        }
    }

    /// Takes a new registration into use. Returns the daemon's path if there was one.
    pub fn take_registration(&mut self) -> Option<&Path> {
        let Self::Userspace { registrar: Some((registrar, path)) } = self else { return None };
        let registration = registrar.take()?;
        let path = std::mem::take(path);
        *self = Self::Kernel { registration, path };
        self.path()
    }

    /// The daemon's path, if it serves the socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Kernel { path, .. } => Some(path),
            Self::Userspace { .. } => None,
        }
    }

    /// The connection to the daemon.
    pub fn control(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel { registration, .. } => Some(registration.client.as_fd()),
            Self::Userspace { .. } => None,
        }
    }
}
