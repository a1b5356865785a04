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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open__gives_the_port_of_the_socket() {
        let source = "[fe80::1%3]:9".parse().unwrap();
        let message = [&head(8_125)[..], b"abc"].concat();
        let (sender, datagram) = open(source, &message).unwrap();
        assert_eq!((sender, datagram), ("[fe80::1%3]:8125".parse().unwrap(), &b"abc"[..]));
        assert_eq!(open(source, &head(0)), Some((source, &[][..])));
    }

    #[test]
    fn open__takes_no_message_without_a_head() {
        let source = "10.0.0.1:9".parse().unwrap();
        assert_eq!((open(source, b""), open(source, b"a")), (None, None));
    }
}
