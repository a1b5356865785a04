//! The pace of a carried connection: a program that doesn't read slows its own client, as TCP does.
//!
//! A client sends at most [`ROOM_BYTES`] that the server's program hasn't taken. Once it has sent
//! so many, it opens another connection to the ATP port ([`Ask`]), on which the server's library
//! tells how much the program has taken ([`Taken`]). The connection of the replies can't tell it:
//! the client's program may leave its replies unread.

use super::{
    Hello,
    room::{ROOM_BYTES, Room, Taken},
    socket::is_pause,
};
use crate::{framing::Framing, secret::Secret};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

/// The server's library tells at least after so many bytes. A client that waits has sent more.
const TOLD_BYTES: u64 = ROOM_BYTES / 4;

/// The client's first words on the connection that tells its pace.
#[derive(PartialEq)]
pub struct Ask {
    pub job: u32,
    pub secret: Secret,
}

impl Ask {
    pub const WORD: u8 = 2;
    pub const LEN: usize = 1 + 4 + Secret::LEN;

    fn to_bytes(&self) -> Vec<u8> {
        [&[Self::WORD][..], &self.job.to_be_bytes(), &self.secret.bytes()].concat()
    }

    pub fn of(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let &[Self::WORD, a, b, c, d, secret @ ..] = bytes else { return None };
        Some(Self { job: u32::from_be_bytes([a, b, c, d]), secret: Secret::of(secret) })
    }
}

/// The listening end: tells the client.
#[derive(Default)]
pub struct Teller {
    told: Taken,
    to: Option<TcpStream>,
}

impl Teller {
    /// Tells it from now on to this connection, which doesn't wait.
    pub fn begin(&mut self, to: TcpStream, taken: Taken) {
        self.to = Some(to);
        self.tell(taken);
    }

    /// Tells it if the client may wait for it. `is_idle`: nothing more has come for a while.
    pub fn tell_if_due(&mut self, taken: Taken, is_idle: bool) {
        let is_due = is_idle || taken.bytes - self.told.bytes >= TOLD_BYTES;
        if is_due && self.has_news(taken) {
            self.tell(taken);
        }
    }

    /// Whether the client doesn't know all of it.
    pub fn has_news(&self, taken: Taken) -> bool {
        self.to.is_some() && taken != self.told
    }

    fn tell(&mut self, taken: Taken) {
        match self.to.as_ref().map(|mut to| to.write(&taken.to_bytes())) {
            Some(Ok(Taken::LEN)) => self.told = taken,
            // The client has read nothing for long. It is told later.
            Some(Err(error)) if is_pause(&error) => {}
            // A client that is there asks again.
            _ => self.to = None,
        }
    }
}

/// The connecting end: hears it.
pub struct Pace {
    at: SocketAddr,
    framing: Framing,
    ask: Ask,
    pub room: Room,
    from: Option<TcpStream>,
    /// The beginning of a word of the server's library.
    begun: Vec<u8>,
}

impl Pace {
    pub fn new(at: SocketAddr, framing: Framing, ask: Ask) -> Self {
        Self { at, framing, ask, room: Room::default(), from: None, begun: Vec::new() }
    }

    /// Hears for `timeout` at most what the program has taken.
    pub fn listen(&mut self, timeout: Duration) {
        if self.from.is_none() {
            self.begun.clear();
            self.from = self.open(timeout).ok();
        }
        let mut bytes = [0; 4_096];
        match self.from.as_ref().map(|mut from| from.read(&mut bytes)) {
            Some(Ok(len)) if len > 0 => self.hear(&bytes[..len]),
            Some(Err(error)) if is_pause(&error) => {}
            // There was no place. The connection to the other library says whether it has gone.
            _ => {
                self.from = None;
                thread::sleep(timeout);
            }
        }
    }

    fn open(&self, timeout: Duration) -> io::Result<TcpStream> {
        let from = TcpStream::connect_timeout(&self.at, timeout)?;
        from.set_read_timeout(Some(timeout))?;
        Hello::check(&from, self.framing)?;
        match (&from).write(&self.ask.to_bytes())? {
            Ask::LEN => Ok(from),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        let (words, rest) = self.begun.as_chunks();
        if let Some(word) = words.last() {
            self.room.note_taken(Taken::of(*word));
            self.begun = rest.to_vec();
        }
    }
}
