//! Wakes the control loop for lanes that arrive, when a receiving library asks for it.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    time::Duration,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
    task::JoinHandle,
};

/// Whether the control loop was woken.
#[derive(Clone)]
pub struct Wake {
    is_set: Rc<Cell<bool>>,
    /// Ends the control loop's long tick.
    notify: Rc<Notify>,
}

/// The task that listens to a library. Dropping it ends the task.
pub struct Waker(JoinHandle<()>);

impl Wake {
    pub fn new(notify: Rc<Notify>) -> Self {
        Self { is_set: Rc::default(), notify }
    }

    pub fn set(&self) {
        self.is_set.set(true);
        self.notify.notify_one();
    }

    /// Whether it was set since the last call.
    pub fn take(&self) -> bool {
        self.is_set.take()
    }

    /// Listens to a library, to which the returned eventfd goes. However many wakeups it sends,
    /// they have an effect once in each `pause`.
    pub fn listen(&self, pause: Duration) -> io::Result<(OwnedFd, Waker)> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let theirs = event.as_fd().try_clone_to_owned()?;
        // SAFETY: the value keeps its descriptor open, and the same one, until it is dropped.
        let event = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE)? };
        let wake = self.clone();
        let task = tokio::task::spawn_local(async move {
            // The count isn't read: the library shares the descriptor's flags, and could make a
            // read block. Each write is an edge, and edges are all that epoll tells here.
            while let Ok(mut ready) = event.readable().await {
                ready.clear_ready();
                wake.set();
                tokio::time::sleep(pause).await;
            }
        });
        Ok((theirs, Waker(task)))
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::time::Instant;
    use tokio::{task::LocalSet, time::timeout};

    fn ring(fd: &OwnedFd) {
        nix::unistd::write(fd, &1u64.to_ne_bytes()).unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn listen__wakes_once_in_each_pause() {
        const PAUSE: Duration = Duration::from_millis(50);
        const SOON: Duration = Duration::from_secs(20);
        let notify = Rc::<Notify>::default();
        let wake = Wake::new(notify.clone());
        let listening = async {
            let (theirs, waker) = wake.listen(PAUSE).unwrap();
            // A pause is never shorter than it should be, however slow the machine is.
            let began = Instant::now();
            for _ in 0..4 {
                (0..1_000).for_each(|_| ring(&theirs));
                timeout(SOON, notify.notified()).await.unwrap();
                assert!(wake.take() && !wake.take());
            }
            assert!(began.elapsed() >= 3 * PAUSE, "the pause is not kept: {:?}", began.elapsed());
            // A library that makes its descriptor block stops nobody but itself.
            fcntl(&theirs, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
            for _ in 0..3 {
                ring(&theirs);
                timeout(SOON, notify.notified()).await.unwrap();
                assert!(wake.take());
                nix::unistd::read(&theirs, &mut [0; 8]).unwrap();
            }
            drop(waker);
        };
        LocalSet::new().run_until(listening).await;
    }
}
