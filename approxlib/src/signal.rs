//! A descriptor to poll, for applications that don't wait in a call of this library.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::OnceLock,
};

/// An eventfd that is readable when something has changed. It exists from its first use on: other
/// applications don't pay for it.
#[derive(Debug, Default)]
pub struct Signal(OnceLock<EventFd>);

impl Signal {
    /// The descriptor. At first it is readable, because something may have changed before.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        if self.0.get().is_none() {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            // Another thread may be faster. Its descriptor counts then.
            let _ = self.0.set(EventFd::from_value_and_flags(1, flags)?);
        }
        self.0.get().map(AsFd::as_fd).ok_or_else(|| io::Error::other("no descriptor"))
    }

    /// Makes the descriptor readable.
    pub fn set(&self) {
        if let Some(fd) = self.0.get() {
            // A full counter is readable as well.
            let _ = fd.write(1);
        }
    }

    /// Makes the descriptor unreadable. Call it before looking for changes, so that a later one
    /// counts.
    pub fn clear(&self) {
        if let Some(fd) = self.0.get() {
            // An error only means that the counter is 0 already.
            let _ = fd.read();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, poll};

    fn is_readable(signal: &Signal) -> bool {
        poll(&mut [PollFd::new(signal.fd().unwrap(), PollFlags::POLLIN)], 0u8).unwrap() == 1
    }

    #[test]
    fn fd__is_readable_from_set_to_clear() {
        let signal = Signal::default();
        signal.clear();
        assert!(is_readable(&signal), "something may have changed before");
        signal.clear();
        assert!(!is_readable(&signal));
        (0..3).for_each(|_| signal.set());
        assert!(is_readable(&signal));
        signal.clear();
        assert!(!is_readable(&signal));
    }
}
