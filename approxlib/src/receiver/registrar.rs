//! Registers the receiving socket with a daemon that was not there before, or is back.

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

/// Registers a bound socket with the daemon at `path`, for the lifetime of the client. Blocks until
/// the daemon answers.
pub fn register(path: &Path, socket: &UdpSocket) -> Result<Client, ClientError> {
    let client = Client::connect(path)?;
    client.receiver_open(socket.as_fd())?;
    Ok(client)
}

/// Retries the registration on a thread of its own (`atp-register`), because a daemon that hangs
/// answers late or never, and the receiver thread must not wait for it. Dropping it ends the
/// thread.
pub struct Registrar {
    pub path: PathBuf,
    clients: Receiver<Client>,
    /// Dropping this end of the channel stops the thread.
    _stop: Sender<()>,
}

impl Registrar {
    pub fn start(path: PathBuf, socket: &Arc<UdpSocket>) -> io::Result<Self> {
        let (found, clients) = channel();
        let (stop, stopped) = channel();
        let (daemon, socket) = (path.clone(), Arc::downgrade(socket));
        let thread = thread::Builder::new().name("atp-register".into());
        thread.spawn(move || retry(&daemon, &socket, &found, &stopped))?;
        Ok(Self { path, clients, _stop: stop })
    }

    /// The connection to the daemon that registered the socket; `None` until then.
    pub fn client(&self) -> Option<Client> {
        self.clients.try_recv().ok()
    }
}

/// Registers the socket as soon as a daemon takes it. Holds no strong reference to the socket: a
/// thread that waits for a daemon must not keep its port in use.
fn retry(path: &Path, socket: &Weak<UdpSocket>, found: &Sender<Client>, stopped: &Receiver<()>) {
    let mut pause = PAUSE_MIN;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let registered = Client::connect(path).and_then(|client| {
            let socket = socket.upgrade().ok_or(ClientError::Closed)?;
            client.receiver_open(socket.as_fd())?;
            Ok(client)
        });
        match registered {
            Ok(client) => {
                // If the receiver is gone, dropping the client ends the registration.
                let _ = found.send(client);
                return;
            }
            Err(error) => tracing::debug!(
                daemon = %path.display(),
                %error,
                "registering with the ATP daemon failed: still acknowledging in userspace"
            ),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
