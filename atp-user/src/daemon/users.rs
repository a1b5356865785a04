//! The owners of connections, and the threads that inspect and close the descriptors of clients.
//!
//! Both calls can block as long as a client wants, for example on a lingering TCP socket, a file
//! system in userspace, or a locked socket. So an owner has one such call at a time, and only that
//! owner waits for it. At most [`DESCRIPTOR_THREADS`] owners have one at the same time, and root
//! has a thread of its own: it never waits for others.

use super::{
    internal, passed_descriptors,
    quota::{Budget, CONNECTIONS, Held},
    socket_addresses::{self, NetworkNamespace, UdpEndpoints},
    tenant::Tenant,
};
use approxlib::control::Refusal;
use std::{collections::HashMap, io, mem::ManuallyDrop, os::fd::OwnedFd, rc::Rc, sync::Arc};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::spawn_blocking,
};

/// The most threads that may block on descriptors of owners other than root.
const DESCRIPTOR_THREADS: usize = 64;

/// The threads for all blocking calls: those on descriptors, and eight for calls that end by
/// themselves, such as route lookups.
pub const BLOCKING_THREADS: usize = DESCRIPTOR_THREADS + 1 + 8;

/// The most connections above a limit that get a refusal at the same time. Further ones are closed
/// without a reply.
const CONNECTIONS_REFUSED_MAX: usize = 32;

/// Owners with connections.
pub struct Users {
    users: HashMap<Tenant, Rc<User>>,
    namespace: NetworkNamespace,
    threads: Arc<Semaphore>,
    connections: Budget,
    refused: Arc<Semaphore>,
}

/// An owner with connections.
pub struct User {
    tenant: Tenant,
    namespace: NetworkNamespace,
    /// Serializes the owner's requests. The next one is read when the descriptors of the last one
    /// are closed, so that descriptors can't pile up.
    turn: Arc<Semaphore>,
    /// Free threads.
    threads: Arc<Semaphore>,
    connections: Budget,
    refused: Arc<Semaphore>,
    /// Cloned for every connection that is open or still to be closed.
    open: Arc<()>,
}

/// The right to read a request from one of the owner's connections, and the thread to inspect and
/// close its descriptors.
pub struct RequestPermit {
    _turn: OwnedSemaphorePermit,
    _thread: OwnedSemaphorePermit,
}

/// A connection's place in the budget. Dropping it frees the place.
pub struct ConnectionSlot {
    place: Place,
    _open: Arc<()>,
}

enum Place {
    /// Root needs none: its connections that wait to be closed must not keep it out.
    Roots,
    Served(#[expect(dead_code, reason = "held until it is dropped")] Held),
    /// Over the limit. The client gets this refusal.
    Refused(Refusal, #[expect(dead_code, reason = "as above")] OwnedSemaphorePermit),
    /// Too many are over the limit, or the client's process has ended.
    Surplus,
}

impl ConnectionSlot {
    /// Whether the client gets no reply at all.
    pub const fn is_surplus(&self) -> bool {
        matches!(self.place, Place::Surplus)
    }

    /// Whether the client's requests are handled.
    pub const fn is_served(&self) -> bool {
        matches!(self.place, Place::Roots | Place::Served(_))
    }

    /// The refusal of a client over the limit.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match &self.place {
            Place::Refused(refusal, _) => Some(refusal),
            Place::Roots | Place::Served(_) | Place::Surplus => None,
        }
    }
}

impl Users {
    /// No owners yet. Clients' sockets must be in the network namespace of the calling thread.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            users: HashMap::new(),
            namespace: NetworkNamespace::own()?,
            threads: Arc::new(Semaphore::new(DESCRIPTOR_THREADS)),
            connections: Budget::new("connections", CONNECTIONS),
            refused: Arc::new(Semaphore::new(CONNECTIONS_REFUSED_MAX)),
        })
    }

    /// The owner, created if it is new.
    pub fn of(&mut self, tenant: Tenant) -> Rc<User> {
        // An owner stays until all its descriptors are closed: it gets no second thread while one
        // hangs.
        self.users.retain(|_, user| Arc::strong_count(&user.open) > 1);
        if let Some(user) = self.users.get(&tenant) {
            return user.clone();
        }
        let threads = match tenant {
            Tenant::Root => Arc::new(Semaphore::new(1)),
            _ => self.threads.clone(),
        };
        let user = Rc::new(User {
            tenant,
            namespace: self.namespace,
            turn: Arc::new(Semaphore::new(1)),
            threads,
            connections: self.connections.clone(),
            refused: self.refused.clone(),
            open: Arc::default(),
        });
        self.users.insert(tenant, user.clone());
        user
    }
}

impl User {
    /// Takes a place for another connection.
    pub fn slot(&self) -> ConnectionSlot {
        let place = match self.connections.take(self.tenant, 1) {
            _ if self.tenant == Tenant::Gone => Place::Surplus,
            Ok(held) => Place::Served(held),
            Err(_) if self.tenant == Tenant::Root => Place::Roots,
            Err(refusal) => match self.refused.clone().try_acquire_owned() {
                Ok(permit) => Place::Refused(refusal, permit),
                Err(_) => Place::Surplus,
            },
        };
        ConnectionSlot { place, _open: self.open.clone() }
    }

    /// Waits until the descriptors of the owner's last request are closed, and for a thread.
    pub async fn request_permit(&self) -> io::Result<RequestPermit> {
        permit(self.turn.clone(), self.threads.clone()).await
    }

    /// Inspects the UDP socket of a request, which must be its only descriptor. Closes all of them.
    pub async fn inspect(
        &self,
        fds: Vec<OwnedFd>,
        permit: RequestPermit,
    ) -> Result<UdpEndpoints, Refusal> {
        let (reply, endpoints) = oneshot::channel();
        let namespace = self.namespace;
        spawn_blocking(move || {
            // Fails if the client has disconnected.
            reply.send(socket_addresses::inspect(&fds, namespace)).ok();
            drop(fds);
            drop(permit);
        });
        endpoints.await.unwrap_or_else(|_| Err(internal("its thread for descriptors has ended")))
    }

    /// Closes a connection: at once if it can't have unread descriptors, so that those beyond the
    /// budget don't pile up. Otherwise when it is the owner's turn.
    pub fn close(&self, connection: OwnedFd, slot: ConnectionSlot) {
        if !passed_descriptors::are_allowed(&connection) {
            return;
        }
        // The end of the event loop drops tasks that wait. It must not close descriptors then: the
        // end of the process does that without waiting.
        let connection = ManuallyDrop::new(connection);
        let permit = permit(self.turn.clone(), self.threads.clone());
        tokio::spawn(async move {
            let Ok(permit) = permit.await else { return };
            spawn_blocking(move || {
                drop(ManuallyDrop::into_inner(connection));
                drop(slot);
                drop(permit);
            });
        });
    }
}

/// The owner's turn first: an owner with much work waits for one thread only.
async fn permit(turn: Arc<Semaphore>, threads: Arc<Semaphore>) -> io::Result<RequestPermit> {
    let turn = turn.acquire_owned().await.map_err(io::Error::other)?;
    let thread = threads.acquire_owned().await.map_err(io::Error::other)?;
    Ok(RequestPermit { _turn: turn, _thread: thread })
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
        let (slow, other) = (users.of(Tenant::User(1000)), users.of(Tenant::User(1001)));
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

    /// As many owners as may block do so. Root goes on, and the others when one of those ends.
    #[tokio::test(flavor = "current_thread")]
    async fn request_permit__root_doesn_t_wait_for_hanging_work_of_others() {
        let mut users = Users::new().unwrap();
        let mut listeners = Vec::new();
        for uid in 1..=DESCRIPTOR_THREADS as u32 {
            let user = users.of(Tenant::User(uid));
            let (socket, listener) = slow_to_close();
            user.inspect(vec![socket], user.request_permit().await.unwrap()).await.unwrap_err();
            listeners.push(listener);
        }
        let (root, other) = (users.of(Tenant::Root), users.of(Tenant::User(9_999)));
        let roots = async {
            root.inspect(Vec::new(), root.request_permit().await.unwrap()).await.unwrap_err();
        };
        timeout(SOON, roots).await.expect("root waits for the slow closes of others");
        let waiting = timeout(Duration::from_millis(100), other.request_permit()).await;
        assert!(waiting.is_err(), "more threads than the limit");
        drop(listeners.pop());
        timeout(SOON, other.request_permit()).await.expect("a thread is free").unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn slot__first_over_the_limit_are_refused_then_none_is_left() {
        let mut users = Users::new().unwrap();
        let user = users.of(Tenant::User(1000));
        let mut slots: Vec<_> = (0..CONNECTIONS / 4).map(|_| user.slot()).collect();
        assert!(slots.iter().all(|slot| slot.refusal().is_none() && !slot.is_surplus()));
        slots.extend((0..CONNECTIONS_REFUSED_MAX).map(|_| user.slot()));
        assert!(slots[CONNECTIONS / 4..].iter().all(|slot| slot.refusal().is_some()));
        assert!(user.slot().is_surplus());
        assert!(users.of(Tenant::User(1001)).slot().refusal().is_none(), "another owner's limit");
        slots.clear();
        assert!(user.slot().refusal().is_none());
        assert!(users.of(Tenant::Gone).slot().is_surplus(), "a process that has ended");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn of__forgets_only_owners_with_nothing_open() {
        let mut users = Users::new().unwrap();
        let user = users.of(Tenant::User(1000));
        let slot = user.slot();
        assert!(Rc::ptr_eq(&user, &users.of(Tenant::User(1000))));
        drop(slot);
        assert!(!Rc::ptr_eq(&user, &users.of(Tenant::User(1000))));
    }
}
