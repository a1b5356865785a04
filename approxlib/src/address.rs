//! Addresses as text. The one parser of the project: it keeps the interface of a link-local
//! address.

use crate::interface::Interface;
use atp_proto::endpoint::PeerIp;
pub use atp_proto::endpoint::canonical;
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    str::FromStr,
};

/// An IP address, and the interface of a link-local one: `10.0.0.2`, `fe80::1%eth0`, `fe80::1%2`.
///
/// Link-local addresses of IPv6 are those of one link. Several links of a host may have the same,
/// so such an address is complete only with its interface (RFC 4007 calls it the scope). An
/// IPv4-mapped address is that of IPv4.
///
/// Printing gives the interface's index. Parsing takes an index, a name or an alternative name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScopedIp(PeerIp);

/// Why a text is no address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It doesn't have the form of one.
    #[error("{0:?} is no IP address: give one such as 10.0.0.2, fd00::2 or fe80::2%eth0")]
    NoIp(String),
    /// It doesn't have the form of an address with a port.
    #[error(
        "{0:?} is no IP address with a port: give one such as 10.0.0.2:4747, [fd00::2]:4747 or \
         [fe80::2%eth0]:4747"
    )]
    NoSocketAddress(String),
    /// It is a link-local address without its interface.
    #[error("{text} is link-local, so it needs its interface, as in {example}")]
    NoScope {
        /// The address.
        text: String,
        /// An example of such an address with its interface.
        example: String,
    },
    /// It names an interface, but isn't a link-local address.
    #[error(
        "{ip} is not link-local, so it has no interface: leave out {text:?}",
        text = format!("%{scope}")
    )]
    NotLinkLocal {
        /// The address.
        ip: IpAddr,
        /// The interface, as it was given.
        scope: String,
    },
    /// It names an interface that this host doesn't have.
    #[error("{text:?} names an interface that this host doesn't have: `ip link` lists them")]
    NoInterface {
        /// The text.
        text: String,
    },
    /// The kernel couldn't be asked for the interface.
    #[error("{text:?} names an interface that can't be looked up: {source}")]
    Lookup {
        /// The text.
        text: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Parses an address and a port: `10.0.0.2:4747`, `[fd00::2]:4747`, `[fe80::2%eth0]:4747`. Host
/// names are not resolved.
///
/// # Errors
/// [`AddressError`], whose text is a sentence. A link-local address without its interface is one of
/// them: no socket takes it.
///
/// ```
/// use std::net::SocketAddr;
/// let parsed = approxlib::socket_address("[fe80::2%lo]:4747").unwrap();
/// assert!(matches!(parsed, SocketAddr::V6(v6) if v6.scope_id() != 0));
/// assert!(approxlib::socket_address("[fe80::2]:4747").is_err());
/// ```
pub fn socket_address(text: &str) -> Result<SocketAddr, AddressError> {
    let invalid = || AddressError::NoSocketAddress(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
    let port = parse_port(port).ok_or_else(invalid)?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let ip = match bracketed {
        Some(host) => parse_v6(host),
        None if host.contains(':') => return Err(invalid()),
        None => host.parse(),
    };
    let ip = ip.map_err(|error| match error {
        AddressError::NoIp(_) => invalid(),
        other => other,
    })?;
    complete(ip.at(port))
}

/// Returns the address, unless it is a link-local one without its interface.
pub(crate) fn complete(address: SocketAddr) -> Result<SocketAddr, AddressError> {
    match ScopedIp::from(address).lacks_scope() {
        false => Ok(address),
        true => Err(AddressError::NoScope {
            text: address.to_string(),
            example: format!("[{}%eth0]:{}", address.ip(), address.port()),
        }),
    }
}

/// The number of a port, which has no sign.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The address in brackets: IPv6 only, mapped addresses included.
fn parse_v6(text: &str) -> Result<ScopedIp, AddressError> {
    match text.contains(':') {
        true => text.parse(),
        false => Err(AddressError::NoIp(text.to_owned())),
    }
}

impl ScopedIp {
    /// The address without its interface.
    pub const fn ip(&self) -> IpAddr {
        self.0.ip()
    }

    /// The index of its interface; 0 for none.
    pub const fn scope(&self) -> u32 {
        self.0.scope()
    }

    /// Whether it is a link-local address without its interface: no packet can be sent to it.
    pub const fn lacks_scope(&self) -> bool {
        match self.ip() {
            IpAddr::V4(_) => false,
            IpAddr::V6(v6) => self.scope() == 0 && v6.is_unicast_link_local(),
        }
    }

    /// Returns the address, unless it lacks its interface.
    ///
    /// # Errors
    /// [`AddressError::NoScope`] if it [lacks its interface](Self::lacks_scope).
    pub fn complete(self) -> Result<Self, AddressError> {
        match self.lacks_scope() {
            false => Ok(self),
            true => Err(AddressError::NoScope {
                text: self.to_string(),
                example: format!("{self}%eth0"),
            }),
        }
    }

    /// The address with a port.
    pub fn at(&self, port: u16) -> SocketAddr {
        match self.ip() {
            IpAddr::V4(v4) => (v4, port).into(),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, self.scope()).into(),
        }
    }
}

impl From<IpAddr> for ScopedIp {
    fn from(ip: IpAddr) -> Self {
        Self(ip.into())
    }
}

/// The address without its port. An interface is kept only where it means something, as the kernel
/// does: `fd00::1%3` is `fd00::1`.
impl From<SocketAddr> for ScopedIp {
    fn from(address: SocketAddr) -> Self {
        Self(address.into())
    }
}

impl From<ScopedIp> for PeerIp {
    fn from(address: ScopedIp) -> Self {
        address.0
    }
}

impl fmt::Display for ScopedIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope() {
            0 => write!(f, "{}", self.ip()),
            scope => write!(f, "{}%{scope}", self.ip()),
        }
    }
}

impl FromStr for ScopedIp {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let invalid = || AddressError::NoIp(text.to_owned());
        let (ip, scope) = match text.split_once('%') {
            Some((ip, scope)) => (ip, Some(scope)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| invalid())?;
        let Some(scope) = scope else { return Ok(ip.into()) };
        if !PeerIp::has_scope(ip) {
            return Err(AddressError::NotLinkLocal { ip, scope: scope.to_owned() });
        }
        Ok(Self(PeerIp::new(ip, parse_scope(text, scope)?)))
    }
}

/// The index of an interface that is given by index, name or alternative name. Digits are an index,
/// as in printed addresses, also if an interface has such a name.
fn parse_scope(text: &str, scope: &str) -> Result<u32, AddressError> {
    let missing = || AddressError::NoInterface { text: text.to_owned() };
    if scope.bytes().all(|byte| byte.is_ascii_digit()) {
        return scope.parse().ok().filter(|index| Interface::exists(*index)).ok_or_else(missing);
    }
    match Interface::named(scope) {
        Ok(found) => found.map(|interface| interface.index).ok_or_else(missing),
        Err(source) => Err(AddressError::Lookup { text: text.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn loopback() -> u32 {
        nix::net::if_::if_nametoindex("lo").unwrap()
    }

    fn link_local() -> impl Strategy<Value = Ipv6Addr> {
        any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(0xfe80 << 112 | bits >> 10))
    }

    fn multicast(bits: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(0xff << 120 | bits >> 8)
    }

    fn complete_addresses() -> impl Strategy<Value = SocketAddr> {
        let of_link = (link_local(), any::<u16>(), Just(loopback()));
        prop_oneof![
            any::<(Ipv4Addr, u16)>().prop_map(SocketAddr::from),
            any::<(Ipv6Addr, u16)>()
                .prop_map(SocketAddr::from)
                .prop_filter("complete, and not mapped", |address| complete(*address).is_ok()
                    && canonical(*address) == *address),
            of_link.prop_map(|(ip, port, scope)| SocketAddrV6::new(ip, port, 0, scope).into()),
        ]
    }

    proptest! {
        #[test]
        fn socket_address__is_the_inverse_of_printing(address in complete_addresses()) {
            prop_assert_eq!(socket_address(&address.to_string()).unwrap(), address);
            let ip = ScopedIp::from(address);
            prop_assert_eq!(ip.to_string().parse::<ScopedIp>().unwrap(), ip);
            prop_assert_eq!(ip.at(address.port()), address);
        }

        /// So printing gives an address that can be parsed, and equal addresses match.
        #[test]
        fn from__keeps_the_scope_of_link_local_addresses_only(
            ip in prop_oneof![any::<Ipv6Addr>(), link_local(), any::<u128>().prop_map(multicast)],
            port: u16,
        ) {
            let of_link = SocketAddrV6::new(ip, port, 0, loopback());
            let scoped = ScopedIp::from(SocketAddr::from(of_link));
            prop_assert_eq!(scoped.to_string().parse::<ScopedIp>().unwrap(), scoped);
            prop_assert_eq!(scoped.scope() == loopback(), PeerIp::has_scope(ip.into()));
            prop_assert_eq!(scoped == IpAddr::from(ip).into(), !PeerIp::has_scope(ip.into()));
        }

        #[test]
        fn canonical__keeps_the_scope(ip: Ipv6Addr, port: u16, scope: u32) {
            let address = SocketAddr::from(SocketAddrV6::new(ip, port, 0, scope));
            let expected = match ip.to_canonical() {
                IpAddr::V4(v4) => SocketAddr::from((v4, port)),
                IpAddr::V6(_) => address,
            };
            prop_assert_eq!(canonical(address), expected);
        }

        /// No text makes the parsers panic, and a refusal is one sentence.
        #[test]
        fn socket_address__refuses_with_one_sentence(text in "[\\[\\]:%.0-9a-f lo\n]{0,40}|.{0,40}") {
            for error in [socket_address(&text).err(), text.parse::<ScopedIp>().err()] {
                let sentence = error.map(|error| error.to_string()).unwrap_or_default();
                prop_assert!(!sentence.contains('\n'), "{sentence}");
            }
        }
    }

    #[test]
    fn socket_address__takes_names_and_indices_of_interfaces() {
        let lo = loopback();
        for text in ["[fe80::1%lo]:4747".to_owned(), format!("[fe80::1%{lo}]:4747")] {
            let address = socket_address(&text).unwrap();
            assert_eq!(address.to_string(), format!("[fe80::1%{lo}]:4747"));
        }
        assert_eq!(socket_address("[::ffff:10.0.0.2]:9").unwrap().to_string(), "10.0.0.2:9");
    }

    #[test]
    fn socket_address__says_what_is_wrong_and_what_to_do() {
        for (text, words) in [
            ("localhost:4747", "no IP address with a port: give one such as"),
            ("127.0.0.1", "with a port"),
            ("127.0.0.1:+1", "with a port"),
            ("[127.0.0.1]:1", "with a port"),
            ("::1:4747", "with a port"),
            ("fe80::1%lo:4747", "with a port"),
            ("[fe80::1%lo]", "with a port"),
            ("[fe80::1%lo]:65536", "with a port"),
            ("", "with a port"),
            ("[fe80::1]:4747", "link-local, so it needs its interface, as in [fe80::1%eth0]:4747"),
            ("[fe80::1%]:4747", "doesn't have: `ip link` lists them"),
            ("[fe80::1%0]:4747", "doesn't have: `ip link` lists them"),
            ("[fe80::1%4294967295]:4747", "doesn't have: `ip link` lists them"),
            ("[fe80::1%4294967296]:4747", "doesn't have: `ip link` lists them"),
            ("[fe80::1%nowhere7]:4747", "\"fe80::1%nowhere7\" names an interface"),
            ("[fe80::1%an-interface-with-a-long-name]:1", "doesn't have: `ip link` lists them"),
            ("[fd00::1%lo]:4747", "fd00::1 is not link-local, so it has no interface: leave out"),
            ("10.0.0.2%lo:4747", "leave out \"%lo\""),
        ] {
            let error = socket_address(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
