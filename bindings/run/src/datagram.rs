//! The message of a datagram: the port of the program's socket, u16, big-endian, and the bytes.
//!
//! ATP sends from a port of its own. A server answers to the port that it is told.

use std::net::SocketAddr;

/// The bytes before those of the datagram.
pub const HEAD_BYTES: usize = 2;

/// The beginning of a message from the program's socket at `port`.
pub fn head(port: u16) -> [u8; HEAD_BYTES] {
    port.to_be_bytes()
}

/// The sender's address and the datagram, of a message that came from `source`.
pub fn open(mut source: SocketAddr, message: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (head, datagram) = message.split_first_chunk()?;
    match u16::from_be_bytes(*head) {
        // The sender knew none.
        0 => {}
        port => source.set_port(port),
    }
    Some((source, datagram))
}
