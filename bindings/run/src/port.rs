//! The port at which ATP receives for a program's socket.

use approxlib::{Error, Receiver};
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// How long receipts are repeated after the end.
const LINGER: Duration = Duration::from_millis(500);
/// The receiver of an earlier socket may hold the port for so long.
const IN_USE_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

pub fn bind(at: SocketAddr) -> io::Result<Receiver> {
    Receiver::builder().linger(LINGER).bind(at).map_err(|error| {
        let kind = match &error {
            Error::Socket { source, .. } => source.kind(),
            _ => ErrorKind::Other,
        };
        io::Error::new(kind, error)
    })
}

/// What `open` returns; `None` if it has to be repeated, because an earlier socket's receiver holds
/// the port.
pub fn try_open<T>(open: impl FnOnce() -> io::Result<T>) -> io::Result<Option<T>> {
    match open() {
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
        opened => opened.map(Some),
    }
}

/// Repeats `open` while an earlier socket's receiver holds the port. `None`: it isn't wanted now.
pub fn open_later<T>(
    open: impl Fn() -> io::Result<T>,
    is_wanted: impl Fn() -> bool,
) -> io::Result<Option<T>> {
    let deadline = Instant::now() + IN_USE_TIMEOUT;
    while is_wanted() {
        thread::sleep(RETRY_INTERVAL);
        match open() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {}
            opened => return opened.map(Some),
        }
    }
    Ok(None)
}
