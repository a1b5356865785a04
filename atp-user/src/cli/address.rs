//! Parses addresses of the command line.

use approxlib::{AddressError, ScopedIp, socket_address};
use std::net::SocketAddr;

/// Parses an address and a port: `10.0.0.2:4747` or `[fe80::1%eth0]:4747`.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    socket_address(text).map_err(|error| match error {
        AddressError::NoSocketAddress(_) => format!("{error}; host names are not resolved"),
        error => error.to_string(),
    })
}

/// Parses the address of a host to which packets are sent: `10.0.0.2` or `fe80::1%eth0`.
pub fn destination(text: &str) -> Result<ScopedIp, AddressError> {
    text.parse::<ScopedIp>()?.complete()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse__takes_an_address_with_a_port_only() {
        for text in ["10.0.0.2:4747", "[::1]:4747"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for text in ["localhost:4747", "127.0.0.1", "::1:4747x", ""] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("such as 10.0.0.2:4747"), "{text}: {error}");
            assert!(error.ends_with("host names are not resolved"), "{text}: {error}");
        }
        assert!(parse("[fe80::1]:4747").unwrap_err().ends_with("as in [fe80::1%eth0]:4747"));
    }

    #[test]
    fn destination__needs_the_interface_of_a_link_local_address() {
        assert!(destination("fe80::1%lo").is_ok() && destination("10.0.0.2").is_ok());
        let error = destination("fe80::1").unwrap_err().to_string();
        assert!(error.ends_with("needs its interface, as in fe80::1%eth0"), "{error}");
    }
}
