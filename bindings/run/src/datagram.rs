//! The message of a datagram: a head, and the bytes of the datagram.
//!
//! | bytes | head |
//! |---|---|
//! | 0, 1 | [`MARK`], whose last byte is the version |
//! | 2, 3 | the port of the program's socket, big-endian; 0 if it is unknown |
//! | 4 to 7 | a digest of the IP address from which the sender sends; 0 if that is unknown |
//! | 8 to 15 | the secret of the sending process: it [claims](crate::claims) the port by this |
//!
//! ATP sends from a port of its own, and a server answers to the port in the head. A router
//! that translates addresses (NAT) doesn't know that port. The digest shows whether one is there.

use crate::secret::Secret;
use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
};

/// No text begins with it.
const MARK: [u8; 2] = [0xae, 2];

/// The bytes before those of the datagram.
pub const HEAD_BYTES: usize = 16;

/// Ports that only privileged users may bind, by default. No message claims one.
pub const RESERVED_PORTS: Range<u16> = 1..1_024;

/// A message that was opened.
#[derive(PartialEq)]
pub struct Opened<'a> {
    /// The program's socket, as the sender claims it. `None` if it knows none, or if the address
    /// was translated: another host behind the router may have the port.
    pub claimed: Option<SocketAddr>,
    pub holder: Secret,
    pub datagram: &'a [u8],
    /// A router has translated the sender's address.
    pub is_translated: bool,
}

/// The beginning of a message from the program's socket at `port`, of the process `holder`.
pub fn head(port: u16, holder: Secret) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..2].copy_from_slice(&MARK);
    head[2..4].copy_from_slice(&port.to_be_bytes());
    head[8..].copy_from_slice(&holder.bytes());
    head
}

/// Notes the address from which the message will be sent.
pub fn set_source(message: &mut [u8], source: IpAddr) {
    if let Some(place) = message.get_mut(4..8) {
        place.copy_from_slice(&digest(source));
    }
}

/// The bytes of the datagram in a message of this process.
pub fn bytes(message: &[u8]) -> Option<&[u8]> {
    message.get(HEAD_BYTES..)
}

/// Opens a message that came from `source`. `None`: this version of `atp-run` didn't send it.
pub fn open(source: SocketAddr, message: &[u8]) -> Option<Opened<'_>> {
    let (head, datagram) = message.split_first_chunk::<HEAD_BYTES>()?;
    let &[first, second, high, low, from @ .., _, _, _, _, _, _, _, _] = head;
    if [first, second] != MARK {
        return None;
    }
    let holder = Secret::of(*head.last_chunk()?);
    let is_translated = from != [0; 4] && from != digest(source.ip());
    let port = Some(u16::from_be_bytes([high, low])).filter(|port| *port != 0 && !is_translated);
    let claimed = port.map(|port| {
        let mut claimed = source;
        claimed.set_port(port);
        claimed
    });
    Some(Opened { claimed, holder, datagram, is_translated })
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

    const HOLDER: Secret = Secret::of([7; 8]);

    fn message(port: u16, source: &str, datagram: &[u8]) -> Vec<u8> {
        let mut message = [&head(port, HOLDER)[..], datagram].concat();
        set_source(&mut message, source.parse().unwrap());
        message
    }

    /// Whether the message of `source` claims that, and what is in it.
    fn opens_as(source: &str, message: &[u8], claimed: Option<&str>, is_translated: bool) -> bool {
        let claimed = claimed.map(|claimed| claimed.parse().unwrap());
        let datagram = &message[HEAD_BYTES..];
        let opened = Opened { claimed, holder: HOLDER, datagram, is_translated };
        open(source.parse().unwrap(), message) == Some(opened)
    }

    #[test]
    fn open__gives_the_port_of_the_socket() {
        let (source, known) = ("[fe80::1%3]:9", message(8_125, "fe80::1", b"abc"));
        assert!(opens_as(source, &known, Some("[fe80::1%3]:8125"), false));
        assert!(opens_as(source, &head(0, HOLDER), None, false));
        // A socket of IPv6 that receives IPv4.
        let known = message(7, "10.0.0.1", b"a");
        assert!(opens_as("[::ffff:10.0.0.1]:9", &known, Some("[::ffff:10.0.0.1]:7"), false));
    }

    #[test]
    fn open__leaves_a_translated_address() {
        let known = message(8_125, "10.0.0.1", b"abc");
        assert_eq!((bytes(&known), bytes(b"")), (Some(&b"abc"[..]), None));
        assert!(opens_as("192.0.2.1:9", &known, None, true));
    }

    #[test]
    fn open__takes_no_message_without_a_head() {
        let source = "10.0.0.1:9".parse().unwrap();
        let known = head(7, HOLDER);
        let mut other_version = known;
        other_version[1] += 1;
        for message in [&b""[..], b"a", &known[..15], b"hits:1|c\nhits:1|c", &other_version] {
            assert!(open(source, message).is_none(), "{message:?}");
        }
    }
}
