//! Connections whose frames travel as messages.
//!
//! When a program listens at a mapped port, its library listens beside it at the ATP port, for TCP
//! and for ATP. The client's library connects there, and the program's own socket is connected to
//! the client's library over the loopback. The server's library connects to the listening program,
//! over the loopback too:
//!
//! ```text
//! client program ══ client's library ┬── frames: messages of ATP ──────┬ server's library ══ server
//!                 (loopback, TCP)    └── TCP: replies, rest, the end ──┘  (loopback, TCP)
//! ```
//!
//! Both programs therefore have real sockets of the kernel, and a program without the library never
//! sees a byte of this: it doesn't listen at the ATP port.
//!
//! | TCP between the libraries | bytes |
//! |---|---|
//! | server, first | [`Hello`] |
//! | client, if its rule has the same framing and ATP answers, on another connection, after its hello | [`Join`]: the server tells [`room::Taken`] there, at once and later |
//! | client, once the other connection has joined | [`GO`] |
//! | server, once it is connected to its program | the job in which the frames arrive, u32, big-endian; [`NOBODY`] if no program listens or there is no place |
//! | server, after a job | the secret of the connection, 8 bytes |
//! | server, then | [`record::Record`]s: the program's replies, and their end |
//! | client, after its last frame was confirmed | the number of messages delivered, u64, big-endian |
//! | client, then | [`record::Record`]s: the bytes that are no frame, all after them, and their end |
//!
//! A message begins with the secret, and a frame follows. Job ids are public, so the server's
//! library takes frames by the secret, from the IP address of the connection between the libraries,
//! and from the run of the job that has proven to know the secret first.
//!
//! Each program sees an end only after the other library has told one. Anything else that ends a
//! connection is a reset: the death of a process or of a thread, a failed job, a connection that
//! breaks off.
//!
//! The client's library waits for [`record::Record::Confirmed`], also at its process's end. The end
//! of a server's process waits until the client's host has the replies and their end. The receiver
//! of messages ends after that, so the client's last frames are still confirmed.

mod carrier;
pub mod client;
pub mod connection;
mod door;
pub mod life;
mod link;
mod pace;
mod pieces;
pub mod places;
mod record;
mod room;
pub mod server;
mod socket;

use crate::{framing::Framing, secret::Secret};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

const MAGIC: [u8; 8] = *b"atp-run6";
/// The client's library carries the connection: the server's connects to its program. Before, the
/// program would see an empty connection beside the plain one.
const GO: u8 = 1;
/// In place of a job: the connection is plain. The kernel refuses it if no program listens.
const NOBODY: u32 = 0;
/// A thread looks so often whether the process is ending.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long a program may take to read what came before a reset. Then it sees the reset alone.
const RESET_TIMEOUT: Duration = Duration::from_secs(10);

/// The first bytes of the server's library.
#[derive(Clone, Copy)]
struct Hello {
    framing: Framing,
    /// The client names the connection by it on another one. No frame begins with it.
    name: Secret,
}

impl Hello {
    const LEN: usize = 12 + Secret::LEN;

    fn write(self, mut to: impl Write) -> io::Result<()> {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = self.framing as u8;
        bytes[12..].copy_from_slice(&self.name.bytes());
        to.write_all(&bytes)
    }

    /// The connection's name, if the other end is this library with the same framing.
    fn read(mut from: impl Read, framing: Framing) -> io::Result<Secret> {
        // A library of another version sends fewer bytes.
        let (mut bytes, mut name) = ([0; 12], [0; Secret::LEN]);
        from.read_exact(&mut bytes)?;
        if bytes[..8] != MAGIC {
            return Err(io::Error::new(ErrorKind::InvalidData, "it isn't atp-run of this version"));
        }
        if bytes[8] != framing as u8 {
            return Err(io::Error::other("its rule has another framing: give both ends one rule"));
        }
        from.read_exact(&mut name)?;
        Ok(Secret::of(name))
    }
}

/// The first word of the client on the connection that reports the pace: the name of the other one.
struct Join(Secret);

impl Join {
    const WORD: u8 = 2;
    const LEN: usize = 1 + Secret::LEN;

    fn to_bytes(&self) -> Vec<u8> {
        [&[Self::WORD][..], &self.0.bytes()].concat()
    }

    fn of(&[word, name @ ..]: &[u8; Self::LEN]) -> Option<Self> {
        (word == Self::WORD).then(|| Self(Secret::of(name)))
    }
}

/// The address at which this host reaches a socket that is bound to `local`. A link-local one keeps
/// its interface.
fn reachable(mut local: SocketAddr) -> SocketAddr {
    match local.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => local.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => local.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    local
}

/// Sets the port of an address.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}
