//! DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) with selective acknowledgments. Each flow is one
//! byte stream of consecutive messages.
//!
//! **Reordering.** If every packet takes its own path, three later acknowledgments don't mean a
//! loss. Senders then follow RACK (RFC 8985, §6.2) with the largest reordering window that it
//! permits, a smoothed RTT: a transmission is lost if a later one is acknowledged, and its own
//! acknowledgment doesn't come within a smoothed RTT more. Their windows grow with every
//! acknowledgment of new data, as Linux's do after reordering (`tcp_may_raise_cwnd`).
//!
//! **Features.** With `low-priority`, data has a queue of its own below queue 0, with the same ECN
//! threshold. Acknowledgments stay in queue 0, as ATP's do. With `persistent`, a sender never
//! restarts its window after an idle time (RFC 5681, §4.1).

mod body;
mod receiver;
mod sender;
mod window;

pub use body::DctcpBody;
pub use receiver::DctcpReceiver;
pub use sender::{DctcpSender, DctcpSettings};

use super::{ECN_THRESHOLD_PACKETS, Feature, Policy, Spec};
use crate::net::PortQueues;

/// The scheme.
pub static SPEC: Spec = Spec {
    title: "DCTCP",
    description: "DCTCP",
    names: &[("dctcp-es", Policy::EarlySend), ("dctcp-ss", Policy::SampleSend)],
    color: [213, 94, 0],
    variant_colors: &[],
    takes_laws: false,
    features: &[Feature::ShortestFirst, Feature::LowPriority, Feature::Persistent],
    stops_by_itself: false,
    shares_buffer: true,
    sprays: false,
    queues: |environment, _| {
        PortQueues::single(ECN_THRESHOLD_PACKETS, environment.buffer_bytes)
            .with_lower(LOWER_EFFORT_DSCP)
    },
    ends: |route, _, choices, _| {
        let is_lower = choices.features.has(Feature::LowPriority);
        let sender = DctcpSender::new(
            route,
            DctcpSettings {
                order: choices.features.order(),
                dscp: if is_lower { LOWER_EFFORT_DSCP } else { 0 },
                ..DctcpSettings::default()
            },
        );
        (Box::new(sender), Box::new(DctcpReceiver::new(route)))
    },
};

/// The DSCP of RFC 8622's lower-effort traffic.
const LOWER_EFFORT_DSCP: u8 = 1;
/// IP and TCP headers, with the timestamp option.
const HEADER_BYTES: u32 = 20 + 32;
/// Bytes of the stream in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_448;
