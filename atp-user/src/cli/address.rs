//! Parses an address and port of the command line.

use std::net::SocketAddr;

/// Parses `10.0.0.2:4747` or `[fe80::1]:4747`.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port, as in 10.0.0.2:4747; host names are not resolved".to_owned()
    })
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
            assert!(parse(text).unwrap_err().contains("as in 10.0.0.2:4747"), "{text}");
        }
    }
}
