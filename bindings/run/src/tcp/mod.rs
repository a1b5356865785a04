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
//! | client, if its rule has the same framing and ATP answers | [`GO`] |
//! | server, once it is connected to its program | the job in which the frames arrive, u32, big-endian |
//! | server, then | the program's replies |
//! | client, after its last frame was confirmed | the number of messages delivered, u64, big-endian |
//! | client, then | the bytes that are no frame, and all after them |

pub mod client;
pub mod server;

use crate::framing::Framing;
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpStream},
    time::Duration,
};

const MAGIC: [u8; 8] = *b"atp-run2";
/// The client's library carries the connection: the server's connects to its program. Sooner, the
/// program would see an empty connection beside the plain one.
const GO: u8 = 1;
/// A thread looks so often whether the process is ending.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A process that ends leaves no bytes on the loopback for so long.
const LAST_BYTES_TIMEOUT: Duration = Duration::from_millis(20);
const COPY_BYTES: usize = 65_536;

/// What the server's library says first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hello {
    framing: Framing,
}

impl Hello {
    const LEN: usize = 12;

    fn write(self, mut to: impl Write) -> io::Result<()> {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = self.framing as u8;
        to.write_all(&bytes)
    }

    /// Whether the other end is this library with the same framing.
    fn check(mut from: impl Read, framing: Framing) -> io::Result<()> {
        let mut bytes = [0; Self::LEN];
        from.read_exact(&mut bytes)?;
        if bytes[..8] != MAGIC {
            return Err(io::Error::new(ErrorKind::InvalidData, "it isn't atp-run of this version"));
        }
        if bytes[8] != framing as u8 {
            return Err(io::Error::other("its rule has another framing: give both ends one rule"));
        }
        Ok(())
    }
}

/// The address at which this host reaches a socket that is bound to `local`.
fn reachable(local: IpAddr) -> IpAddr {
    match local {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Copies bytes until `from` ends, then ends `to`. An error is the end of both.
fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut bytes = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return to.shutdown(Shutdown::Write),
            Ok(len) => to.write_all(&bytes[..len])?,
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a read was interrupted, or has waited for its time.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Makes the last close of a socket a reset: the program sees that its connection was broken.
fn reset(socket: &TcpStream) {
    let linger = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO));
    // The other end then sees an end instead of a reset.
    drop(linger);
}
