//! Registering the receiving socket with a daemon, and asking one that went away whether it is back.

use crate::{
    control::{Client, ClientError},
    udp::UdpSocket,
};
use std::{
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Registers a bound socket with the daemon at `path`; lasts as long as the client. Takes as long as
/// the daemon takes to answer.
pub fn register(path: &Path, socket: &UdpSocket) -> Result<Client, ClientError> {
    let client = Client::connect(path)?;
    client.receiver_open(socket.as_fd())?;
    Ok(client)
}

/// Asks a daemon again and again, on a thread of its own (`atp-register`): a daemon that hangs
/// answers late or never, and whoever reads the socket must not wait for it. Ends when dropped.
pub struct Registrar {
    pub path: PathBuf,
    clients: Receiver<Client>,
    /// Its end is the thread's.
    _stop: Sender<()>,
}

impl Registrar {
    pub fn start(path: PathBuf, socket: &Arc<UdpSocket>) -> io::Result<Self> {
        let (found, clients) = channel();
        let (stop, stopped) = channel();
        let (asked, socket) = (path.clone(), Arc::downgrade(socket));
        let thread = thread::Builder::new().name("atp-register".into());
        thread.spawn(move || ask(&asked, &socket, &found, &stopped))?;
        Ok(Self { path, clients, _stop: stop })
    }

    /// The daemon that took the socket, once there is one.
    pub fn client(&self) -> Option<Client> {
        self.clients.try_recv().ok()
    }
}

/// The socket may be closed meanwhile: a thread that waits for a daemon must not keep its port.
fn ask(path: &Path, socket: &Weak<UdpSocket>, found: &Sender<Client>, stopped: &Receiver<()>) {
    let mut pause = PAUSE_MIN;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let registered = Client::connect(path).and_then(|client| {
            let socket = socket.upgrade().ok_or(ClientError::Closed)?;
            client.receiver_open(socket.as_fd())?;
            Ok(client)
        });
        match registered {
            Ok(client) => {
                // With nobody there to take it, the registration ends with the client.
                let _ = found.send(client);
                return;
            }
            Err(error) => tracing::debug!(%error, "still acknowledging in userspace"),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
