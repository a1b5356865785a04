//! The users of the control socket, each with a thread of its own.
//!
//! That thread inspects and closes the descriptors that the user's clients send. Both calls can
//! block as long as a client wants, for example on a lingering TCP socket, a file system in
//! userspace, or a locked socket. Then only that user waits.

use super::{
    internal,
    quota::{CONNECTIONS_MAX, CONNECTIONS_REFUSED_MAX},
    socket_addresses::{self, NetworkNamespace, UdpEndpoints},
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

/// A user with connections.
pub struct User {
    /// The user id, from the kernel.
    pub uid: u32,
    /// Serializes the user's requests. The next one is read when the descriptors of the last one
    /// are closed, so that descriptors can't pile up.
    request_permit: Arc<Semaphore>,
    /// Free connection slots.
    slots: Arc<Semaphore>,
    /// Cloned for every connection that is open or still to be closed.
    open: Arc<()>,
    work: mpsc::Sender<Work>,
}

/// The right to read a request from one of the user's connections.
pub struct RequestPermit(OwnedSemaphorePermit);

/// A connection's slot among those of its user, if one was free. Dropping it frees the slot.
pub struct ConnectionSlot {
    permit: Option<OwnedSemaphorePermit>,
    _open: Arc<()>,
}

impl ConnectionSlot {
    /// Whether a slot was free.
    pub const fn is_taken(&self) -> bool {
        self.permit.is_some()
    }
}

enum Work {
    Inspect {
        fds: Vec<OwnedFd>,
        permit: RequestPermit,
        reply: oneshot::Sender<Result<UdpEndpoints, Refusal>>,
    },
    Close {
        connection: OwnedFd,
        slot: ConnectionSlot,
    },
}

impl Users {
    /// No users yet. Clients' sockets must be in the network namespace of the calling thread.
    pub fn new() -> io::Result<Self> {
        Ok(Self { users: HashMap::new(), namespace: NetworkNamespace::own()? })
    }

    /// The user with this id, created if it is new.
    pub fn with_uid(&mut self, uid: u32) -> io::Result<Rc<User>> {
        // A user stays until all its descriptors are closed: it gets no second thread while one
        // hangs.
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
        let slots_max = match uid {
            0 => Semaphore::MAX_PERMITS,
            _ => CONNECTIONS_MAX + CONNECTIONS_REFUSED_MAX,
        };
        let (request_permit, slots) =
            (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(slots_max)));
        Ok(Self { uid, request_permit, slots, open: Arc::default(), work })
    }

    /// Takes a slot for another connection.
    pub fn slot(&self) -> ConnectionSlot {
        let permit = self.slots.clone().try_acquire_owned().ok();
        ConnectionSlot { permit, _open: self.open.clone() }
    }

    /// Whether the user is over its limit of connections. The newest one gets only a refusal.
    pub fn is_over_limit(&self) -> bool {
        self.uid != 0 && self.slots.available_permits() < CONNECTIONS_REFUSED_MAX
    }

    /// Waits until the descriptors of the user's last request are closed.
    pub async fn request_permit(&self) -> io::Result<RequestPermit> {
        let permit = self.request_permit.clone().acquire_owned().await;
        permit.map(RequestPermit).map_err(io::Error::other)
    }

    /// Inspects the UDP socket of a request, which must be its only descriptor. Closes all of them.
    pub async fn inspect(
        &self,
        fds: Vec<OwnedFd>,
        permit: RequestPermit,
    ) -> Result<UdpEndpoints, Refusal> {
        let (reply, endpoints) = oneshot::channel();
        self.queue(Work::Inspect { fds, permit, reply });
        endpoints.await.unwrap_or_else(|_| Err(internal("its thread for descriptors has ended")))
    }

    /// Closes a connection and the unread descriptors in it.
    pub fn close(&self, connection: OwnedFd, slot: ConnectionSlot) {
        self.queue(Work::Close { connection, slot });
    }

    fn queue(&self, work: Work) {
        // The thread outlives `self`, which holds the sending end of the queue.
        if self.work.send(work).is_err() {
            tracing::error!(uid = self.uid, "descriptor thread has ended");
        }
    }
}

fn serve(queue: &mpsc::Receiver<Work>, namespace: NetworkNamespace) {
    for work in queue {
        match work {
            Work::Inspect { fds, permit: RequestPermit(permit), reply } => {
                // Fails if the client has disconnected.
                reply.send(socket_addresses::inspect(&fds, namespace)).ok();
                drop(fds);
                drop(permit);
            }
            Work::Close { connection, slot } => {
                drop(connection);
                drop(slot);
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
        time::Duration,
    };
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(60);

    /// A socket whose close blocks until its peer is gone, because that one doesn't read.
    fn slow_to_close() -> (OwnedFd, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        let linger = libc::linger { l_onoff: 1, l_linger: 3_600 };
        nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger).unwrap();
        (stream.into(), listener)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn inspect__slow_close_blocks_only_its_user() {
        let mut users = Users::new().unwrap();
        let (slow, other) = (users.with_uid(1000).unwrap(), users.with_uid(1001).unwrap());
        let (socket, listener) = slow_to_close();
        slow.inspect(vec![socket], slow.request_permit().await.unwrap()).await.unwrap_err();
        timeout(SOON, async {
            other.inspect(Vec::new(), other.request_permit().await.unwrap()).await.unwrap_err();
            other.request_permit().await.unwrap();
        })
        .await
        .expect("another user waits for the slow close");
        let unended = timeout(Duration::from_millis(100), slow.request_permit()).await;
        assert!(unended.is_err(), "the close isn't slow: the test shows nothing");
        drop(listener);
        timeout(SOON, slow.request_permit()).await.expect("the close has ended").unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn slot__first_over_the_limit_are_refused_then_none_is_left() {
        let mut users = Users::new().unwrap();
        let user = users.with_uid(1000).unwrap();
        let mut slots: Vec<_> = (0..CONNECTIONS_MAX).map(|_| user.slot()).collect();
        assert!(!user.is_over_limit());
        slots.push(user.slot());
        assert!(user.is_over_limit());
        slots.extend((1..CONNECTIONS_REFUSED_MAX).map(|_| user.slot()));
        assert!(slots.iter().all(ConnectionSlot::is_taken) && !user.slot().is_taken());
        slots.clear();
        assert!(!user.is_over_limit() && user.slot().is_taken());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn with_uid__forgets_only_users_with_nothing_open() {
        let mut users = Users::new().unwrap();
        let user = users.with_uid(1000).unwrap();
        let slot = user.slot();
        assert!(Rc::ptr_eq(&user, &users.with_uid(1000).unwrap()));
        drop(slot);
        assert!(!Rc::ptr_eq(&user, &users.with_uid(1000).unwrap()));
    }
}
