//! The control socket's file, and who comes through it.

use super::{
    connection::{self, Connection, Peer},
    host::Host,
    users::Users,
};
use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};
use std::{
    cell::RefCell,
    fs,
    io::{self, ErrorKind},
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use tokio_seqpacket::UnixSeqpacketListener;

/// How long to wait after a connection could not be taken: what is missing doesn't come back sooner.
const PAUSE: Duration = Duration::from_millis(100);
/// How often at most to say so.
const COMPLAINT: Duration = Duration::from_secs(10);

/// The control socket; its file goes with it.
pub struct Listener {
    socket: UnixSeqpacketListener,
    path: PathBuf,
    file: FileId,
}

/// Which file a path names.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// What is at the path of a control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A socket that nobody listens on: a crashed daemon's.
    Stale,
    /// A socket that somebody listens on.
    Listening,
    /// Another kind of file.
    NoSocket,
}

impl Listener {
    /// Listens at `path`, which must name nothing, or what a crashed daemon left.
    pub fn bind(path: &Path) -> Result<Self> {
        let at = path.display();
        match look_at(path)? {
            Found::Nothing => {}
            Found::Stale => remove(path)?,
            Found::Listening => bail!(
                "a daemon already listens on {at}: stop it with `atp-user stop`, or choose another --socket"
            ),
            Found::NoSocket => {
                bail!("{at} is there already, and is not a socket: choose another --socket")
            }
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        }
        let listening = || format!("listening on {at}");
        let socket = UnixSeqpacketListener::bind(path).with_context(listening)?;
        let file = FileId::of(path).with_context(listening)?;
        // Every user may register jobs; who may command which is decided by peer credentials.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).with_context(listening)?;
        Ok(Self { socket, path: path.into(), file })
    }

    /// Serves whoever comes, for ever. That nobody can come for a while is no reason to end.
    pub async fn serve(&mut self, host: Rc<RefCell<Host>>, mut users: Users, stop: Rc<Notify>) {
        let mut complained: Option<Instant> = None;
        let mut session = 0;
        loop {
            session += 1;
            let admitted = match self.socket.accept().await {
                Ok(socket) => {
                    let (host, stop) = (host.clone(), stop.clone());
                    admit(socket, session, &mut users).map(|admitted| {
                        if let Some((connection, peer)) = admitted {
                            let client = connection::serve(connection, peer, host, stop);
                            tokio::task::spawn_local(client);
                        }
                    })
                }
                Err(error) => Err(error),
            };
            if let Err(error) = admitted {
                if complained.is_none_or(|at| at.elapsed() > COMPLAINT) {
                    complained = Some(Instant::now());
                    tracing::warn!(%error, "a client can't be served");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Only if it is still this one: somebody may have put another there.
        if FileId::of(&self.path).is_ok_and(|file| file == self.file) {
            fs::remove_file(&self.path).ok();
        }
    }
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// The connection of a client, unless its user has far too many.
fn admit(
    socket: tokio_seqpacket::UnixSeqpacket,
    session: u64,
    users: &mut Users,
) -> io::Result<Option<(Rc<Connection>, Peer)>> {
    let credentials = socket.peer_cred()?;
    let uid = credentials.uid();
    let connection = Connection::new(socket, users.with_uid(uid)?);
    let Some(pid) = credentials.pid().filter(|_| !connection.is_surplus()) else {
        tracing::debug!(uid, "a connection too many, or of a process that can't be seen from here");
        return Ok(None);
    };
    Ok(Some((Rc::new(connection), Peer { session, uid, pid })))
}

/// Looks at what is at a control socket's path.
pub fn look_at(path: &Path) -> Result<Found> {
    let looking = || format!("looking at {}", path.display());
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => return Ok(Found::NoSocket),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error).with_context(looking),
    }
    // Whatever the listener's queue and kind, it is asked without waiting.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket =
        socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).with_context(looking)?;
    match connect(socket.as_raw_fd(), &UnixAddr::new(path).with_context(looking)?) {
        Err(Errno::ECONNREFUSED) => Ok(Found::Stale),
        Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE) => Ok(Found::Listening),
        Err(error) => Err(error).with_context(looking),
    }
}

/// Removes a stale socket.
pub fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).with_context(|| format!("removing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn refusal(path: &Path) -> String {
        Listener::bind(path).err().unwrap().to_string()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bind__takes_over_only_what_nobody_listens_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/atp.sock");
        let mut first = Listener::bind(&path).unwrap();
        assert!(refusal(&path).contains("already listens"));
        // As after a crash: the file stays.
        first.file = FileId { device: 0, inode: 0 };
        drop(first);
        assert_eq!(look_at(&path).unwrap(), Found::Stale);
        drop(Listener::bind(&path).unwrap());
        assert_eq!(look_at(&path).unwrap(), Found::Nothing);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bind__leaves_what_is_not_a_daemons() {
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
    async fn drop__leaves_another_ones_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("atp.sock");
        let first = Listener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _second = Listener::bind(&path).unwrap();
        drop(first);
        assert_eq!(look_at(&path).unwrap(), Found::Listening);
    }
}
