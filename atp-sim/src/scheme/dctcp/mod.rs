//! DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) with selective acknowledgments. Each flow is one
//! byte stream of consecutive messages.

mod body;
mod receiver;
mod sender;
mod window;

pub use body::DctcpBody;
pub use receiver::DctcpReceiver;
pub use sender::{DctcpSender, DctcpSettings};

use super::{ECN_THRESHOLD_PACKETS, Policy, Spec};
use crate::net::PortQueues;

/// The scheme.
pub static SPEC: Spec = Spec {
    title: "DCTCP",
    description: "DCTCP",
    names: &[("dctcp-es", Policy::EarlySend), ("dctcp-ss", Policy::SampleSend)],
    color: [213, 94, 0],
    variant_colors: &[],
    takes_laws: false,
    stops_by_itself: false,
    shares_buffer: true,
    always_sprays: false,
    queues: |environment| PortQueues::single(ECN_THRESHOLD_PACKETS, environment.buffer_bytes),
    ends: |route, _, _, _| {
        let sender = DctcpSender::new(route, DctcpSettings::default());
        (Box::new(sender), Box::new(DctcpReceiver::new(route)))
    },
};

/// IP and TCP headers, with the timestamp option.
const HEADER_BYTES: u32 = 20 + 32;
/// Bytes of the stream in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_448;
