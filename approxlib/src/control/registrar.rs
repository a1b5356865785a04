//! Registers a socket with a daemon that refused it before, was not there, or is back.

use super::client::ClientError;
use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

/// The first pause between two attempts; it doubles.
pub const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Repeats a registration on a thread of its own (`atp-register`), because a daemon that hangs
/// answers late or never, and the thread that moves packets must not wait for it. Dropping it ends
/// the thread.
#[derive(Debug)]
pub struct Registrar<T> {
    found: Receiver<T>,
    /// Dropping this end of the channel stops the thread.
    _stop: Sender<()>,
}

impl<T: Send + 'static> Registrar<T> {
    /// Makes the first attempt after `pause`. Attempts end with the first that succeeds, or that
    /// fails with an error that can't pass.
    pub fn start(
        pause: Duration,
        attempt: impl FnMut() -> Result<T, ClientError> + Send + 'static,
    ) -> io::Result<Self> {
        let (tell, found) = channel();
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("atp-register".into());
        thread.spawn(move || repeat(pause, attempt, &tell, &stopped))?;
        Ok(Self { found, _stop: stop })
    }

    /// The registration, once it has succeeded. Returns it once.
    pub fn take(&self) -> Option<T> {
        self.found.try_recv().ok()
    }
}

fn repeat<T>(
    first_pause: Duration,
    mut attempt: impl FnMut() -> Result<T, ClientError>,
    found: &Sender<T>,
    stopped: &Receiver<()>,
) {
    let mut pause = first_pause;
    let mut next_pause = PAUSE_MIN;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        match attempt() {
            Ok(registered) => {
                // If nobody waits any more, dropping the registration ends it.
                let _ = found.send(registered);
                return;
            }
            Err(error) if error.may_pass() => {
                tracing::debug!(%error, "registering with the ATP daemon failed: still in userspace");
            }
            Err(error) => {
                tracing::info!(%error, "the ATP daemon won't serve this socket: staying in userspace");
                return;
            }
        }
        // Spread: many sockets lose one daemon at the same time.
        pause = next_pause.mul_f64(rand::random_range(0.75..1.25));
        next_pause = (next_pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Refusal, RefusalKind};
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    };

    fn refused(kind: RefusalKind) -> ClientError {
        ClientError::Refused(Refusal { kind, message: String::new() })
    }

    /// Starts attempts that fail with `errors` in order, then succeed.
    fn attempts(errors: &[RefusalKind]) -> (Registrar<u32>, Arc<AtomicU32>) {
        let (made, errors) = (Arc::new(AtomicU32::new(0)), errors.to_vec());
        let count = made.clone();
        let registrar = Registrar::start(Duration::ZERO, move || {
            let attempt = count.fetch_add(1, SeqCst) as usize;
            errors.get(attempt).map_or(Ok(7), |kind| Err(refused(*kind)))
        });
        (registrar.unwrap(), made)
    }

    #[test]
    fn take__returns_the_first_success_once() {
        let (registrar, made) = attempts(&[RefusalKind::NotCovered, RefusalKind::InUse]);
        assert_eq!(registrar.found.recv_timeout(Duration::from_secs(20)), Ok(7));
        assert_eq!((registrar.take(), made.load(SeqCst)), (None, 3));
    }

    #[test]
    fn start__ends_with_an_error_that_cannot_pass() {
        let (registrar, made) = attempts(&[RefusalKind::BadRequest]);
        assert!(registrar.found.recv_timeout(Duration::from_secs(20)).is_err());
        assert_eq!(made.load(SeqCst), 1);
    }

    #[test]
    fn drop__ends_the_thread() {
        let (registrar, made) = attempts(&[RefusalKind::NotCovered; 100]);
        while made.load(SeqCst) == 0 {
            thread::yield_now();
        }
        drop(registrar);
        let before = made.load(SeqCst);
        thread::sleep(3 * PAUSE_MIN);
        assert!(made.load(SeqCst) <= before + 1);
    }
}
