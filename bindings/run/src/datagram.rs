//! The message of a datagram: a head, and the bytes of the datagram.
//!
//! | bytes | head |
//! |---|---|
//! | 0, 1 | [`MARK`], whose last byte is the version |
//! | 2, 3 | the port of the program's socket, big-endian; 0 if it is unknown |
//! | 4 to 7 | a digest of the IP address from which the sender sends; 0 if that is unknown |
//!
//! ATP sends from a port of its own, and a server answers to the port that it is told. A router
//! that translates addresses (NAT) doesn't know that port. The digest tells whether one is there.

use std::net::{IpAddr, SocketAddr};

/// No text begins with it.
const MARK: [u8; 2] = [0xae, 1];

/// The bytes before those of the datagram.
pub const HEAD_BYTES: usize = 8;

/// A message that was opened.
#[derive(Debug, PartialEq)]
pub struct Opened<'a> {
    /// The program's socket; ATP's own if the address was translated.
    pub sender: SocketAddr,
    pub datagram: &'a [u8],
    /// A router has translated the sender's address.
    pub is_translated: bool,
}

/// The beginning of a message from the program's socket at `port`.
pub fn head(port: u16) -> [u8; HEAD_BYTES] {
    let [high, low] = port.to_be_bytes();
    [MARK[0], MARK[1], high, low, 0, 0, 0, 0]
}

/// Notes the address from which the message will be sent.
pub fn set_source(message: &mut [u8], source: IpAddr) {
    if let Some(place) = message.get_mut(4..HEAD_BYTES) {
        place.copy_from_slice(&digest(source));
    }
}

/// The bytes of the datagram in a message of this process.
pub fn bytes(message: &[u8]) -> Option<&[u8]> {
    message.get(HEAD_BYTES..)
}

/// Opens a message that came from `source`. `None`: this version of `atp-run` didn't send it.
pub fn open(mut source: SocketAddr, message: &[u8]) -> Option<Opened<'_>> {
    let (head, datagram) = message.split_first_chunk::<HEAD_BYTES>()?;
    let &[first, second, high, low, ref from @ ..] = head;
    if [first, second] != MARK {
        return None;
    }
    let is_translated = *from != [0; 4] && *from != digest(source.ip());
    match u16::from_be_bytes([high, low]) {
        // The sender knew none.
        0 => {}
        // Another host behind the router may have it.
        _ if is_translated => {}
        port => source.set_port(port),
    }
    Some(Opened { sender: source, datagram, is_translated })
}

/// Four bytes of an IP address: of IPv4 all.
fn digest(ip: IpAddr) -> [u8; 4] {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(ip) => {
            let words = [0, 32, 64, 96].map(|shift| (ip.to_bits() >> shift) as u32);
            words.into_iter().fold(0, |all, word| all ^ word).to_be_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(port: u16, source: &str, datagram: &[u8]) -> Vec<u8> {
        let mut message = [&head(port)[..], datagram].concat();
        set_source(&mut message, source.parse().unwrap());
        message
    }

    fn opened<'a>(sender: &str, datagram: &'a [u8], is_translated: bool) -> Option<Opened<'a>> {
        Some(Opened { sender: sender.parse().unwrap(), datagram, is_translated })
    }

    #[test]
    fn open__gives_the_port_of_the_socket() {
        let source = "[fe80::1%3]:9".parse().unwrap();
        let known = message(8_125, "fe80::1", b"abc");
        assert_eq!(open(source, &known), opened("[fe80::1%3]:8125", b"abc", false));
        assert_eq!(open(source, &head(0)), opened("[fe80::1%3]:9", b"", false));
        // A socket of IPv6 that hears IPv4.
        let mapped = "[::ffff:10.0.0.1]:9".parse().unwrap();
        let known = message(7, "10.0.0.1", b"a");
        assert_eq!(open(mapped, &known), opened("[::ffff:10.0.0.1]:7", b"a", false));
    }

    #[test]
    fn open__leaves_a_translated_address() {
        let source = "192.0.2.1:9".parse().unwrap();
        let known = message(8_125, "10.0.0.1", b"abc");
        assert_eq!((bytes(&known), bytes(b"")), (Some(&b"abc"[..]), None));
        assert_eq!(open(source, &known), opened("192.0.2.1:9", b"abc", true));
    }

    #[test]
    fn open__takes_no_message_without_a_head() {
        let source = "10.0.0.1:9".parse().unwrap();
        let mut other_version = head(7);
        other_version[1] += 1;
        for message in [&b""[..], b"a", &head(7)[..7], b"hits:1|c\nhits:1|c", &other_version] {
            assert_eq!(open(source, message), None, "{message:?}");
        }
    }
}
