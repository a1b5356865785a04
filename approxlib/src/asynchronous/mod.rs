//! Jobs and receivers for tokio (feature `tokio`). Both wait for the descriptors that the library
//! offers every event loop.

mod job;
mod receiver;

pub use job::AsyncJob;
pub use receiver::AsyncReceiver;

use crate::{
    error::Error,
    peer::{Addresses, ToAddresses, resolved},
};
use std::{
    net::SocketAddr,
    os::fd::{BorrowedFd, OwnedFd},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::lookup_host,
    task::{coop::consume_budget, spawn_blocking},
};

/// A descriptor of the library, registered with the runtime.
#[derive(Debug)]
struct Descriptor(AsyncFd<OwnedFd>);

impl Descriptor {
    fn new(fd: BorrowedFd<'_>) -> Result<Self, Error> {
        let own = fd.try_clone_to_owned().map_err(Error::Thread)?;
        // SAFETY: the runtime owns this descriptor, and nothing else can close it.
        let registered = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) };
        registered.map(Self).map_err(|error| Error::Thread(error.into()))
    }

    /// Waits until `attempt` gives a value. It is tried at once, and whenever the descriptor
    /// becomes readable. `attempt` makes the descriptor unreadable before it looks.
    async fn until<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        // A task that never has to wait lets others run now and then.
        consume_budget().await;
        loop {
            if let Some(value) = attempt()? {
                return Ok(value);
            }
            // A change since the attempt has made the descriptor readable again.
            let mut guard = self.0.readable().await.map_err(Error::Thread)?;
            guard.clear_ready();
        }
    }
}

/// The addresses of `name`, as [`peer::resolve`](crate::peer::resolve).
async fn resolve(name: impl ToAddresses) -> Result<Vec<SocketAddr>, Error> {
    let shown = format!("{name:?}");
    match name.to_addresses()? {
        Addresses::Known(known) => resolved(shown, Ok(known.into_iter())),
        // The runtime looks the name up on a thread for blocking calls.
        Addresses::Name(host, port) => resolved(shown, lookup_host((host, port)).await),
    }
}

/// Runs a call that may block, such as one to the daemon, on a thread for such calls.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match spawn_blocking(call).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(canceled) => Err(Error::Thread(canceled.into())),
        },
    }
}
