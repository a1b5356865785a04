//! Writes to standard output, without the standard library's buffer. That buffer is flushed at the
//! end of a program, when nobody sees the error, and it takes EBADF for success.

use nix::{
    errno::Errno,
    libc::{F_GETFD, F_SETFD, FD_CLOEXEC, STDOUT_FILENO, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    fmt,
    io::{self, Write},
    os::fd::AsFd,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Bytes for standard output are lost.
#[derive(Debug)]
pub struct OutputError(io::Error);

impl OutputError {
    /// Whether the reader, such as `head`, has exited. That needs no message.
    pub fn is_broken_pipe(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }

    /// The loss that `error` reports, if it reports one.
    pub(crate) fn find(error: &anyhow::Error) -> Option<&Self> {
        error.chain().find_map(|cause| match cause.downcast_ref::<io::Error>() {
            Some(error) => error.get_ref()?.downcast_ref(),
            None => cause.downcast_ref(),
        })
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't write to standard output: {}", self.0)
    }
}

/// The text contains the cause, so `source` isn't there.
impl std::error::Error for OutputError {}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(lost) => lost,
            Err(error) => Self(error),
        }
    }
}

/// Whether the program was started with standard input, output or error closed. `main` can't see
/// that: before it Rust's runtime opens /dev/null in their place.
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

// SAFETY: the loader calls each function of this section once, before `main`. This one needs
// nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look_at_streams;

extern "C" fn look_at_streams() {
    for (stream, was_closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: the call takes no pointer, and may be given a closed descriptor.
        was_closed.store(unsafe { fcntl(stream, F_GETFD) } == -1, Relaxed);
    }
}

/// Lets a program that takes this one's place by exec have the standard streams that this one was
/// started with: those that were closed are closed again.
pub fn close_again_on_exec() {
    for (stream, _) in (0..).zip(&WAS_CLOSED).filter(|(_, was_closed)| was_closed.load(Relaxed)) {
        // SAFETY: the call takes no pointer. It fails for a descriptor that isn't open.
        unsafe { fcntl(stream, F_SETFD, FD_CLOEXEC) };
    }
}

/// Standard output. Its errors are [`OutputError`]s, inside of an [`io::Error`].
///
/// It has no buffer: put it into a [`io::BufWriter`] for many small writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if WAS_CLOSED[STDOUT_FILENO as usize].load(Relaxed) {
            return Err(io::Error::other(OutputError(Errno::EBADF.into())));
        }
        match nix::unistd::write(io::stdout(), bytes) {
            Err(Errno::EINTR) => Err(io::ErrorKind::Interrupted.into()),
            // Another program of the same pipe or terminal may have made it non-blocking. Callers
            // repeat interrupted writes.
            Err(Errno::EAGAIN) => {
                let out = io::stdout();
                let _ =
                    poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE);
                Err(io::ErrorKind::Interrupted.into())
            }
            Err(error) => Err(io::Error::other(OutputError(error.into()))),
            Ok(written) => Ok(written),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes text to standard output.
///
/// # Errors
/// If standard output doesn't take all of it.
pub fn write(text: impl AsRef<str>) -> Result<(), OutputError> {
    Ok(Stdout.write_all(text.as_ref().as_bytes())?)
}

/// The first loss of [`note`].
static LOST: Mutex<Option<OutputError>> = Mutex::new(None);

/// Writes text to standard output. Remembers the first loss for [`check`].
pub fn note(text: impl AsRef<str>) {
    if let Err(error) = write(text) {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Reports the first loss of [`note`], once. Long work calls it between its steps.
///
/// # Errors
/// If there was one.
pub fn check() -> Result<(), OutputError> {
    match LOST.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(lost) => Err(lost),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn find__sees_through_contexts_and_buffers() {
        let lost = || OutputError(Errno::EPIPE.into());
        let inside = || io::Error::other(lost());
        let is_found = |error: &anyhow::Error| {
            OutputError::find(error).is_some_and(OutputError::is_broken_pipe)
        };
        assert!(is_found(&anyhow!(lost()).context("listing jobs")));
        assert!(is_found(&Err::<(), _>(inside()).context("listing jobs").unwrap_err()));
        assert!(OutputError::from(inside()).is_broken_pipe());
        // A socket's broken pipe is an error like any other.
        assert!(!is_found(&anyhow!(io::Error::from(Errno::EPIPE))));
        assert_eq!(format!("{:#}", anyhow!(inside())), lost().to_string());
    }
}
