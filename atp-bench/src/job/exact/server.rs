//! The receiving host's side of the exact traffic: counts bytes, and answers complete requests.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::tcp;
use super::{REQUEST_BYTES, RESPONSE_BYTES};

/// The maximum number of connections. Clients open far fewer.
const CONNECTIONS_MAX: usize = 8_192;

/// Serves until `ended` returns true; calls it at least every 100 ms.
///
/// # Errors
/// The listening socket failed.
pub fn serve(listener: &TcpListener, mut ended: impl FnMut() -> bool) -> Result<()> {
    listener.set_nonblocking(true)?;
    let mut connections: Vec<Connection> = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while !ended() {
        let ready = wait(listener, &connections)?;
        let mut index = 0;
        // Remove ended connections from the list, in step with the flags.
        connections.retain_mut(|connection| {
            index += 1;
            !ready[index] || connection.advance(&mut buffer).is_ok()
        });
        if ready[0] {
            accept_all(listener, &mut connections)?;
        }
    }
    Ok(())
}

/// Whether the listener and each of the connections, in this order, can be read.
fn wait(listener: &TcpListener, connections: &[Connection]) -> Result<Vec<bool>> {
    let sockets = connections.iter().map(|connection| connection.stream.as_fd());
    let mut polled: Vec<PollFd> = [listener.as_fd()]
        .into_iter()
        .chain(sockets)
        .map(|socket| PollFd::new(socket, PollFlags::POLLIN))
        .collect();
    match poll(&mut polled, PollTimeout::from(100u8)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error).context("waiting for requests"),
    }
    Ok(polled.iter().map(|polled| polled.any().unwrap_or(false)).collect())
}

fn accept_all(listener: &TcpListener, connections: &mut Vec<Connection>) -> Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, _)) if connections.len() < CONNECTIONS_MAX => {
                stream.set_nonblocking(true)?;
                tcp::prepare(&stream)?;
                connections.push(Connection { stream, pending_bytes: 0 });
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // The client gave up before the server accepted it.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error).context("accepting a connection"),
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// The received bytes of unanswered requests.
    pending_bytes: usize,
}

impl Connection {
    fn advance(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        match self.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => self.pending_bytes += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        while self.pending_bytes >= REQUEST_BYTES {
            self.pending_bytes -= REQUEST_BYTES;
            // The client waits for this response before its next request, so the socket has room.
            self.stream.write_all(&[0; RESPONSE_BYTES])?;
        }
        Ok(())
    }
}
