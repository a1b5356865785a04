//! Fuzzes the requests of the control socket, read as the daemon reads them.

use approxlib::control::{PROTOCOL, PROTOCOL_MIN, REQUEST_BYTES_MAX, Reply, Request};

/// Reads `data` as the packets of one connection, one per line.
pub fn run(data: &[u8]) {
    let mut version = None;
    for packet in data.split(|&byte| byte == b'\n') {
        let packet = &packet[..packet.len().min(REQUEST_BYTES_MAX)];
        let before = version;
        match Request::parse(packet, &mut version) {
            Ok(request) => {
                let is_hello = matches!(request, Request::Hello { .. });
                assert!(
                    version.is_some() && (before.is_some() || is_hello),
                    "{request:?} before a hello"
                );
                let spoken = PROTOCOL_MIN..=PROTOCOL;
                assert!(version.is_some_and(|version| spoken.contains(&version)), "{version:?}");
                check_round_trip(&request);
            }
            Err(refusal) => {
                assert_eq!(version, before, "a refused packet counted as hello");
                // The reply echoes the request, and must be bounded all the same.
                let reply = serde_json::to_vec(&Reply::Refused(refusal)).expect("plain data");
                assert!(reply.len() <= approxlib::control::PACKET_BYTES_MAX, "{}", reply.len());
            }
        }
    }
}

/// Checks that an accepted request is the same after writing and reading it.
fn check_round_trip(request: &Request) {
    let written = serde_json::to_vec(request).expect("a request from JSON is written as JSON");
    let mut version = Some(PROTOCOL);
    let again = Request::parse(&written, &mut version);
    assert_eq!(again.as_ref(), Ok(request));
}
