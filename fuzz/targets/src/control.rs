//! Requests of the control socket, read as the daemon reads them.

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
                assert_eq!(greeted, before, "a refused packet is no hello");
                // The reply is bounded, however the request was made to be echoed in it.
                let reply = serde_json::to_vec(&Reply::Refused(refusal)).expect("plain data");
                assert!(reply.len() <= approxlib::control::PACKET_BYTES_MAX, "{}", reply.len());
            }
        }
    }
}

/// What was accepted says the same once it is written, and is as short as its fields are.
fn check_round_trip(request: &Request) {
    assert!(!matches!(request, Request::Hello { protocol } if *protocol != PROTOCOL));
    let written = serde_json::to_vec(request).expect("what came as JSON goes as JSON");
    let mut greeted = true;
    let again = Request::parse(&written, &mut greeted);
    assert_eq!(again.as_ref(), Ok(request));
}
