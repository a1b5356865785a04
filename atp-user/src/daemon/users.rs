//! The daemon's clients by user. Whatever a client hands over is looked at and closed on a thread of
//! its user's own: both can block as long as the client likes (a lingering TCP socket, a file system
//! of its making, a socket locked by a stuck call), and then only that user waits.

use super::{
    internal,
    quota::{CONNECTIONS_MAX, CONNECTIONS_TOLD_MAX},
    socket_addresses::{self, NetworkNamespace, UdpEnds},
};
use approxlib::control::Refusal;
use std::{
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    rc::Rc,
    sync::{Arc, mpsc},
    thread,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Users with connections.
pub struct Users {
    users: HashMap<u32, Rc<User>>,
    namespace: NetworkNamespace,
}

/// One of them.
pub struct User {
    /// Who, as the kernel says.
    pub uid: u32,
    /// One request at a time is taken from the user's connections, and the next one when all its
    /// descriptors are closed: they can't pile up here.
    turns: Arc<Semaphore>,
    /// Connections that may still be opened.
    places: Arc<Semaphore>,
    /// Held by whatever is open or still to be closed.
    open: Arc<()>,
    work: mpsc::Sender<Work>,
}

/// The right to take a request from a connection.
pub struct Turn(OwnedSemaphorePermit);

/// A connection's place among those of its user, if there was one; free again once it is closed.
pub struct Place {
    permit: Option<OwnedSemaphorePermit>,
    _open: Arc<()>,
}

impl Place {
    /// Whether there was one.
    pub const fn exists(&self) -> bool {
        self.permit.is_some()
    }
}

enum Work {
    Inspect { fds: Vec<OwnedFd>, turn: Turn, reply: oneshot::Sender<Result<UdpEnds, Refusal>> },
    Close { connection: OwnedFd, place: Place },
}

impl Users {
    /// Nobody yet. Sockets must be of the network namespace that this thread is in.
    pub fn new() -> io::Result<Self> {
        Ok(Self { users: HashMap::new(), namespace: NetworkNamespace::own()? })
    }

    /// A user, who may be new.
    pub fn with_uid(&mut self, uid: u32) -> io::Result<Rc<User>> {
        // Not before all is closed: a thread that hangs must not be followed by another one.
        self.users.retain(|_, user| Arc::strong_count(&user.open) > 1);
        if let Some(user) = self.users.get(&uid) {
            return Ok(user.clone());
        }
        let user = Rc::new(User::new(uid, self.namespace)?);
        self.users.insert(uid, user.clone());
        Ok(user)
    }
}

impl User {
    fn new(uid: u32, namespace: NetworkNamespace) -> io::Result<Self> {
        let (work, queue) = mpsc::channel();
        thread::Builder::new()
            .name(format!("atp-user-{uid}"))
            .spawn(move || serve(&queue, namespace))?;
        let places_max = match uid {
            0 => Semaphore::MAX_PERMITS,
            _ => CONNECTIONS_MAX + CONNECTIONS_TOLD_MAX,
        };
        let (turns, places) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(places_max)));
        Ok(Self { uid, turns, places, open: Arc::default(), work })
    }

    /// A place for another connection.
    pub fn place(&self) -> Place {
        let permit = self.places.clone().try_acquire_owned().ok();
        Place { permit, _open: self.open.clone() }
    }

    /// Whether the newest connection is one too many, and is only told so.
    pub fn is_crowded(&self) -> bool {
        self.uid != 0 && self.places.available_permits() < CONNECTIONS_TOLD_MAX
    }

    /// Waits until what the user's last request brought is closed.
    pub async fn turn(&self) -> io::Result<Turn> {
        self.turns.clone().acquire_owned().await.map(Turn).map_err(io::Error::other)
    }

    /// Looks at the one UDP socket that a request has to bring, and closes all that it brought.
    pub async fn inspect(&self, fds: Vec<OwnedFd>, turn: Turn) -> Result<UdpEnds, Refusal> {
        let (reply, ends) = oneshot::channel();
        self.give(Work::Inspect { fds, turn, reply });
        ends.await.unwrap_or_else(|_| Err(internal("its thread for descriptors is gone")))
    }

    /// Closes a connection, with all descriptors that were sent over it and never read.
    pub fn close(&self, connection: OwnedFd, place: Place) {
        self.give(Work::Close { connection, place });
    }

    fn give(&self, work: Work) {
        // The thread ends after `self`, which holds the queue's other end.
        if self.work.send(work).is_err() {
            tracing::error!(uid = self.uid, "the thread that closes descriptors is gone");
        }
    }
}

fn serve(queue: &mpsc::Receiver<Work>, namespace: NetworkNamespace) {
    for work in queue {
        match work {
            Work::Inspect { fds, turn: Turn(turn), reply } => {
                // A client that went away doesn't want to know.
                reply.send(socket_addresses::inspect(&fds, namespace)).ok();
                drop(fds);
                drop(turn);
            }
            Work::Close { connection, place } => {
                drop(connection);
                drop(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    /// A socket whose close waits for a peer that doesn't read.
    fn slow_to_close(linger_s: i32) -> (OwnedFd, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        let linger = libc::linger { l_onoff: 1, l_linger: linger_s };
        nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger).unwrap();
        (stream.into(), listener)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn inspect__slow_close_keeps_only_its_user_waiting() {
        let mut users = Users::new().unwrap();
        let (slow, other) = (users.with_uid(1000).unwrap(), users.with_uid(1001).unwrap());
        let (socket, _listener) = slow_to_close(5);
        let started = Instant::now();
        slow.inspect(vec![socket], slow.turn().await.unwrap()).await.unwrap_err();
        other.inspect(Vec::new(), other.turn().await.unwrap()).await.unwrap_err();
        other.turn().await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
        slow.turn().await.unwrap();
        assert!(started.elapsed() > Duration::from_secs(4), "{:?}", started.elapsed());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn place__one_too_many_is_told_and_then_none_is_left() {
        let mut users = Users::new().unwrap();
        let user = users.with_uid(1000).unwrap();
        let mut places: Vec<_> = (0..CONNECTIONS_MAX).map(|_| user.place()).collect();
        assert!(!user.is_crowded());
        places.push(user.place());
        assert!(user.is_crowded());
        places.extend((1..CONNECTIONS_TOLD_MAX).map(|_| user.place()));
        assert!(places.iter().all(Place::exists) && !user.place().exists());
        places.clear();
        assert!(!user.is_crowded() && user.place().exists());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn with_uid__forgets_only_who_has_nothing_open() {
        let mut users = Users::new().unwrap();
        let user = users.with_uid(1000).unwrap();
        let place = user.place();
        assert!(Rc::ptr_eq(&user, &users.with_uid(1000).unwrap()));
        drop(place);
        assert!(!Rc::ptr_eq(&user, &users.with_uid(1000).unwrap()));
    }
}
