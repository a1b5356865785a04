//! The pace of a carried connection: a program that doesn't read slows its own client, as TCP does.
//!
//! A client sends at most [`ROOM_BYTES`] that the server's program hasn't taken. The server's
//! library reports how much it has taken ([`Taken`]) on a connection of its own: the client's
//! program may leave the replies unread. That connection is there before the programs see the
//! carried one, so no closed port or crowd of strangers stalls that later.

use super::{
    Hello, Join,
    room::{ROOM_BYTES, Room, Taken},
    socket::{begin_private, is_pause},
};
use crate::{framing::Framing, secret::Secret};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::AsRawFd,
    time::Duration,
};

/// The server's library reports at least after so many bytes. A client that waits has sent more.
const REPORTED_BYTES: u64 = ROOM_BYTES / 4;

/// The listening end: reports to the client.
pub struct Reporter {
    reported: Taken,
    /// It doesn't wait. `None`: the client has gone.
    to: Option<TcpStream>,
}

impl Reporter {
    /// Reports to the client that the connection has joined.
    pub fn begin(to: TcpStream) -> io::Result<Self> {
        begin_private(&to)?;
        (&to).write_all(&Taken::default().to_bytes())?;
        Ok(Self { reported: Taken::default(), to: Some(to) })
    }

    /// Reports it if the client may wait for it. `is_idle`: nothing more has come for a while.
    pub fn report_if_due(&mut self, taken: Taken, is_idle: bool) {
        let is_due = is_idle || taken.bytes - self.reported.bytes >= REPORTED_BYTES;
        if is_due && self.has_news(taken) {
            self.report(taken);
        }
    }

    /// Whether the client doesn't know all of it.
    pub fn has_news(&self, taken: Taken) -> bool {
        self.to.is_some() && taken != self.reported
    }

    fn report(&mut self, taken: Taken) {
        match self.to.as_ref().map(|mut to| to.write(&taken.to_bytes())) {
            Some(Ok(Taken::LEN)) => self.reported = taken,
            // The client has read nothing for long. It gets a report later.
            Some(Err(error)) if is_pause(&error) => {}
            _ => self.to = None,
        }
    }
}

/// The connecting end: reads the reports.
pub struct Pace {
    pub room: Room,
    /// It doesn't wait.
    from: TcpStream,
    /// The beginning of a word of the server's library.
    begun: Vec<u8>,
}

impl Pace {
    /// Opens it beside a connection that the server's library has named so. Each step may take
    /// `timeout`.
    pub fn open(
        beside: &TcpStream,
        name: Secret,
        framing: Framing,
        timeout: Duration,
    ) -> io::Result<Self> {
        let (to, mut local) = (beside.peer_addr()?, beside.local_addr()?);
        local.set_port(0);
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&local.into())?;
        socket.connect_timeout(&to.into(), timeout)?;
        let mut from = TcpStream::from(socket);
        begin_private(&from)?;
        from.set_read_timeout(Some(timeout))?;
        Hello::read(&from, framing)?;
        from.write_all(&Join(name).to_bytes())?;
        from.read_exact(&mut [0; Taken::LEN])?;
        from.set_nonblocking(true)?;
        Ok(Self { room: Room::default(), from, begun: Vec::new() })
    }

    /// Waits for `timeout` at most for what the program has taken.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let fd = self.from.as_raw_fd();
        let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&raw mut ready, 1, timeout.as_millis() as i32) };
        self.read_reports()
    }

    /// Reads what was reported. The server's library goes on to report if this is done often
    /// enough.
    pub fn read_reports(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4_096];
        match self.from.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => self.begun.extend_from_slice(&bytes[..len]),
            Err(error) if is_pause(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let (words, rest) = self.begun.as_chunks();
        if let Some(word) = words.last() {
            self.room.note_taken(Taken::of(*word));
            self.begun = rest.to_vec();
        }
        Ok(())
    }
}
