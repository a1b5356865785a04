//! Fuzzes the requests of the control socket, read as the daemon reads them.

use approxlib::control::{PROTOCOL, REQUEST_BYTES_MAX, Reply, Request};

/// Reads `data` as the packets of one connection, one per line.
pub fn run(data: &[u8]) {
    let mut greeted = false;
    for packet in data.split(|&byte| byte == b'\n') {
        let packet = &packet[..packet.len().min(REQUEST_BYTES_MAX)];
        let before = greeted;
        match Request::parse(packet, &mut greeted) {
            Ok(request) => {
                let is_hello = matches!(request, Request::Hello { .. });
                assert!(greeted && (before || is_hello), "{request:?} before a hello");
                check_round_trip(&request);
            }
            Err(refusal) => {
                assert_eq!(greeted, before, "a refused packet counted as hello");
                // The reply echoes the request, and must be bounded all the same.
                let reply = serde_json::to_vec(&Reply::Refused(refusal)).expect("plain data");
                assert!(reply.len() <= approxlib::control::PACKET_BYTES_MAX, "{}", reply.len());
            }
        }
    }
}

/// Checks that an accepted request is the same after writing and reading it.
fn check_round_trip(request: &Request) {
    assert!(!matches!(request, Request::Hello { protocol } if *protocol != PROTOCOL));
    let written = serde_json::to_vec(request).expect("a request from JSON is written as JSON");
    let mut greeted = true;
    let again = Request::parse(&written, &mut greeted);
    assert_eq!(again.as_ref(), Ok(request));
}
