//! ATP: the hosts of atp-proto and the laws of atp-common, unchanged.
//!
//! The receiver runs the library's endpoint, with a port for each flow. The sender runs a
//! `PacedLane` whose memory is that of the kernel's programs. Packets drive the epochs, as with
//! `--epochs kernel`.

mod application;
mod body;
mod reader;
mod receiver;
mod sender;
mod small_job;

pub use application::Application;
pub use body::AtpBody;
pub use receiver::{AtpReceiver, HostAdvice};
pub use sender::{AtpSender, AtpSettings};

use super::{Environment, Packet, Policy, Route, Spec, wire_bytes};
use crate::net::PortQueues;
use atp_common::{
    laws::Variant,
    units::Rate,
    wire::{HEADER_LEN, Header, Kind, arrival},
};
use atp_proto::{GroupConfig, ReceiverConfig};

/// The scheme.
pub static SPEC: Spec = Spec {
    title: "ATP",
    description: "ATP",
    names: &[("atp", Policy::EarlySend)],
    color: [0, 114, 178],
    variant_colors: &[
        (Variant::Full, [136, 204, 238]),
        (Variant::Base, [153, 153, 51]),
        (Variant::Rc, [68, 170, 153]),
        (Variant::Mrdf, [51, 34, 136]),
        (Variant::FixTlr, [17, 119, 51]),
        (Variant::FixPrio, [136, 34, 85]),
    ],
    takes_laws: true,
    features: &[],
    stops_by_itself: true,
    shares_buffer: true,
    sprays: false,
    queues: |environment, choices| {
        let Environment { profile, unit, buffer_bytes, .. } = *environment;
        let queues = PortQueues::of_profile(profile, unit, buffer_bytes);
        match choices.laws.additions.small_jobs {
            true => queues.with_deep(small_job::dscp(profile)),
            false => queues,
        }
    },
    ends: |route, environment, choices, total| {
        let rate_max = Rate::from_bytes_per_s(environment.bits_per_s / 8);
        let group = GroupConfig { total: Some(total), ..GroupConfig::new(0, environment.msr) };
        let laws = choices.laws.on(environment.profile);
        let mut settings = AtpSettings::new(laws, route.flow, group, rate_max, environment.profile);
        settings.config.timer_granularity_ns = environment.timer_granularity_ns;
        settings.clock_ns = CLOCK_NS;
        let receipt_delay_ns = environment.receipt_delay_ns;
        let config = ReceiverConfig { receipt_delay_ns, ..Default::default() };
        let depth_packets = environment.profile.advised_depth_packets();
        let advice = laws.additions.advice_interval_ns;
        let advice = advice.map(|interval_ns| HostAdvice::new(interval_ns, depth_packets));
        let sender = AtpSender::new(route, settings, 0);
        (Box::new(sender), Box::new(AtpReceiver::new(route, config, advice)))
    },
};

/// The hosts' CLOCK_REALTIME at the beginning. `yield` drains for milliseconds at each full second.
/// The clock begins half a second after one, so most jobs see no drain.
const CLOCK_NS: u64 = 500_000_000;

/// The only group of a job.
const GROUP: u8 = 0;
/// IP and UDP headers.
const OVERHEAD_BYTES: u32 = 28;
/// The link's header, which a lane's rate also counts.
const LINK_HEADER_BYTES: u32 = 14;

/// A packet without data from the bytes that the state machine wrote, header and body.
///
/// # Panics
/// If `payload` doesn't begin with a header.
fn control(route: Route, payload: &[u8]) -> Packet {
    let (header, kind) = Header::parse(payload).expect("our own packet");
    let body = &payload[HEADER_LEN..];
    let (arrived, control) = match kind {
        Kind::Ack => (arrival(body), None),
        _ => (None, (!body.is_empty()).then(|| body.into())),
    };
    route.packet(
        wire_bytes(payload.len() as u32 + OVERHEAD_BYTES),
        route.path(header.slot()),
        AtpBody { header, arrived, payload_bytes: 0, members: None, control },
    )
}
