//! UDP: senders send all messages at line rate, and retransmit nothing.

mod body;
mod receiver;
mod sender;

pub use body::UdpBody;
pub use receiver::UdpReceiver;
pub use sender::UdpSender;

use super::{ECN_THRESHOLD_PACKETS, Policy, Spec};
use crate::net::PortQueues;

/// The scheme.
pub static SPEC: Spec = Spec {
    title: "UDP",
    description: "UDP at line rate",
    names: &[("udp", Policy::EarlySend)],
    color: [120, 120, 120],
    variant_colors: &[],
    takes_laws: false,
    features: &[],
    stops_by_itself: false,
    shares_buffer: true,
    sprays: false,
    queues: |environment, _| PortQueues::single(ECN_THRESHOLD_PACKETS, environment.buffer_bytes),
    ends: |route, _, _, _| (Box::new(UdpSender::new(route)), Box::<UdpReceiver>::default()),
};

/// IP and UDP headers.
const HEADER_BYTES: u32 = 28;
/// Payload of a full Ethernet packet.
const PAYLOAD_BYTES_MAX: u32 = 1_472;
