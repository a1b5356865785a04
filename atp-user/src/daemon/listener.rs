//! Listens on the control socket and admits clients.

use super::{
    client,
    connection::{Connection, Peer},
    folder::Folder,
    host::Host,
    passed_descriptors,
    policy::{Identity, groups_of_peer},
    tenant::{Admitted, Tenants},
    users::Users,
};
use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};
use std::{
    cell::RefCell,
    fs,
    io::{self, ErrorKind},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, Mutex, Once, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use tokio_seqpacket::{UnixSeqpacket, UnixSeqpacketListener};

/// The delay after a failed accept. The missing resource, such as descriptors, needs time to
/// return.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The shortest time between two warnings about failed accepts.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The control socket. Dropping it removes its file, if this process made it.
pub struct Listener {
    socket: UnixSeqpacketListener,
    file: Option<OwnFile>,
}

/// The socket's file, made by this process.
struct OwnFile {
    path: PathBuf,
    id: FileId,
}

/// The identity of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// The state of the path of a control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketFile {
    /// There is no file.
    Absent,
    /// A socket without a listener, left by a crashed daemon.
    Stale,
    /// A socket with a listener.
    Listening,
    /// A file of another kind.
    OtherFile,
}

impl Listener {
    /// Listens at `path`, where there must be no file, or the socket of a crashed daemon.
    pub fn bind(path: &Path) -> Result<Self> {
        let at = path.display();
        // Before the look: in another user's folder the name may mean another file after each one.
        let folder = path.parent().map(Folder::create).transpose()?;
        folder.as_ref().map_or(Ok(()), Folder::require_own)?;
        match inspect(path)? {
            SocketFile::Absent => {}
            SocketFile::Stale => remove(path)?,
            SocketFile::Listening => bail!(
                "a daemon already listens on {at}: stop it with `atp-user stop`, or choose another --socket"
            ),
            SocketFile::OtherFile => {
                bail!("{at} exists and is not a socket: choose another --socket")
            }
        }
        let listening = || format!("can't listen on {at}");
        let socket = UnixSeqpacketListener::bind(path).with_context(listening)?;
        passed_descriptors::allow(&socket, false);
        let file = FileId::of(path).with_context(listening)?;
        // Every user may connect. Each request is checked against the credentials of its peer.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).with_context(listening)?;
        Ok(Self { socket, file: Some(OwnFile { path: path.into(), id: file }) })
    }

    /// Listens on a socket that another process made, and which stays when this one ends.
    pub fn inherited(socket: OwnedFd) -> Result<Self> {
        let unusable =
            || "can't use the inherited socket: it must be a listening SOCK_SEQPACKET socket";
        // An accept that blocks would stop the control loop.
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).with_context(unusable)?;
        passed_descriptors::allow(&socket, false);
        let socket = UnixSeqpacketListener::try_from(socket).with_context(unusable)?;
        Ok(Self { socket, file: None })
    }

    /// Serves clients until it is dropped. A failed accept doesn't end it.
    pub async fn serve(
        &mut self,
        host: Rc<RefCell<Host>>,
        (tenants, mut users): (Tenants, Users),
        stop: Rc<Notify>,
    ) {
        let tenants = Arc::new(Mutex::new(tenants));
        // Systemd would start the daemon again with the next client.
        let stop = self.file.is_some().then_some(stop);
        let mut last_warning: Option<Instant> = None;
        let mut session = 0;
        loop {
            session += 1;
            let admitted = match self.socket.accept().await {
                Ok(socket) => {
                    let (host, stop) = (host.clone(), stop.clone());
                    admit(socket, session, &tenants, &mut users).await.map(|admitted| {
                        if let Some((connection, peer)) = admitted {
                            let client = client::serve(connection, peer, host, stop);
                            tokio::task::spawn_local(client);
                        }
                    })
                }
                Err(error) => Err(error),
            };
            if let Err(error) = admitted {
                if last_warning.is_none_or(|at| at.elapsed() > WARNING_INTERVAL) {
                    last_warning = Some(Instant::now());
                    tracing::warn!(%error, "can't accept a client");
                }
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(OwnFile { path, id }) = &self.file else {
            // It stays open, perhaps for a daemon of an earlier version.
            return passed_descriptors::allow(&self.socket, true);
        };
        // Only its own file: another daemon may have replaced it.
        if FileId::of(path).is_ok_and(|present| present == *id) {
            fs::remove_file(path).ok();
        }
    }
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// The connection of a client; `None` if too many connections are over the limit. The files of its
/// process are read on another thread: the kernel may keep them locked for longer than the control
/// loop can wait.
async fn admit(
    socket: UnixSeqpacket,
    session: u64,
    tenants: &Arc<Mutex<Tenants>>,
    users: &mut Users,
) -> io::Result<Option<(Rc<Connection>, Peer)>> {
    let credentials = socket.peer_cred()?;
    let uid = credentials.uid();
    let groups = groups_of_peer(&socket, credentials.gid())?;
    let pid = credentials.pid().unwrap_or(0);
    if pid == 0 {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            tracing::warn!(
                "a client's process isn't visible, and isn't served: run the daemon in the PID \
                 namespace of the host"
            );
        });
    }
    let tenants = tenants.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let mut tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let admitted = tenants.of_peer(&socket, uid, pid);
        (socket, admitted)
    });
    let (socket, admitted) = looked.await.map_err(io::Error::other)?;
    let Admitted { tenant, cgroups, cgroup } = admitted;
    let client = Rc::new(Identity { tenant, groups, cgroup, cgroup_ids: cgroups });
    let connection = Connection::new(socket, users.of(tenant), client);
    if connection.is_surplus() {
        tracing::debug!(uid, "connection closed: over the limit, or its process has ended");
        return Ok(None);
    }
    Ok(Some((Rc::new(connection), Peer { session, uid, pid, tenant })))
}

/// Inspects the path of a control socket.
pub fn inspect(path: &Path) -> Result<SocketFile> {
    let inspecting = || format!("can't inspect {}", path.display());
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => return Ok(SocketFile::OtherFile),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SocketFile::Absent),
        Err(error) => return Err(error).with_context(inspecting),
    }
    // Non-blocking: a listener with a full queue counts as listening.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket =
        socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).with_context(inspecting)?;
    match connect(socket.as_raw_fd(), &UnixAddr::new(path).with_context(inspecting)?) {
        Err(Errno::ECONNREFUSED) => Ok(SocketFile::Stale),
        Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE) => Ok(SocketFile::Listening),
        Err(error) => Err(error).with_context(inspecting),
    }
}

/// Removes a stale socket.
pub fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).with_context(|| format!("can't remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::tenant::Tenant;
    use nix::sys::socket::{ControlMessage, MsgFlags, recv, sendmsg};
    use std::{
        io::IoSlice,
        os::unix::net::{UnixListener, UnixStream},
    };

    fn refusal(path: &Path) -> String {
        Listener::bind(path).err().unwrap().to_string()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bind__replaces_only_a_socket_without_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/atp.sock");
        let mut first = Listener::bind(&path).unwrap();
        assert!(refusal(&path).contains("already listens"));
        // Another identity keeps the file, as after a crash.
        first.file.as_mut().unwrap().id = FileId { device: 0, inode: 0 };
        drop(first);
        assert_eq!(inspect(&path).unwrap(), SocketFile::Stale);
        drop(Listener::bind(&path).unwrap());
        assert_eq!(inspect(&path).unwrap(), SocketFile::Absent);
    }

    /// A user whose turn hangs opens connections beyond its budget, with descriptors in them.
    #[tokio::test(flavor = "current_thread")]
    async fn serve__surplus_connections_of_a_hanging_owner_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("atp.sock");
        let mut listener = Listener::bind(&path).unwrap();
        let mut users = Users::new().unwrap();
        let user = users.of(Tenant::User(1000));
        let _hanging = user.request_permit().await.unwrap();
        let _budget: Vec<_> = std::iter::from_fn(|| Some(user.slot()))
            .take_while(|slot| !slot.is_surplus())
            .collect();
        let descriptor = fs::File::open("/dev/null").unwrap();
        let identity = || Rc::new(Identity::of(Tenant::User(1000)));
        for _ in 0..100 {
            let client = UnixSeqpacket::connect(&path).await.unwrap();
            let rights = [ControlMessage::ScmRights(&[descriptor.as_raw_fd()])];
            let text = [IoSlice::new(b"x")];
            let sent = sendmsg::<()>(client.as_raw_fd(), &text, &rights, MsgFlags::empty(), None);
            let socket = listener.socket.accept().await.unwrap();
            // Kernels before 6.16.
            let takes_all = passed_descriptors::are_allowed(&socket);
            assert_eq!(sent.err(), (!takes_all).then_some(Errno::EPERM));
            drop(Connection::new(socket, users.of(Tenant::User(1000)), identity()));
            let closed = recv(client.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT);
            let expected = if takes_all { Err(Errno::EAGAIN) } else { Ok(0) };
            assert_eq!(closed, expected, "the connection waits for the owner's turn");
        }
        // One that is served takes descriptors, and is closed in its turn.
        let client = UnixSeqpacket::connect(&path).await.unwrap();
        let socket = listener.socket.accept().await.unwrap();
        let served = Connection::new(socket, users.of(Tenant::User(1001)), identity());
        let rights = [ControlMessage::ScmRights(&[descriptor.as_raw_fd()])];
        let text = [IoSlice::new(b"x")];
        sendmsg::<()>(client.as_raw_fd(), &text, &rights, MsgFlags::empty(), None).unwrap();
        drop(served);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bind__keeps_files_that_are_not_a_daemons() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert!(refusal(&file).contains("not a socket"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        let stream = folder.path().join("stream");
        let _listener = UnixListener::bind(&stream).unwrap();
        assert!(refusal(&stream).contains("already listens"));
        UnixStream::connect(&stream).unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn drop__keeps_the_socket_of_another_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("atp.sock");
        let first = Listener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _second = Listener::bind(&path).unwrap();
        drop(first);
        assert_eq!(inspect(&path).unwrap(), SocketFile::Listening);
    }
}
