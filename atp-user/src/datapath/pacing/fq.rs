//! Pacing by departure time: the fq qdisc holds each packet until the time that egress sets.

use super::{
    PacingError,
    netlink::Netlink,
    qdisc::{self, Interface, OWN_MAJOR, Options},
};
use netlink_packet_route::tc::TcHandle;

const TCA_FQ_PLIMIT: u16 = 1;
const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TCA_FQ_HORIZON: u16 = 14;
const TCA_FQ_HORIZON_DROP: u16 = 15;

/// Packets in the whole qdisc.
const PACKETS: u32 = 100_000;
/// Packets of one socket. fq's default of 100 would drop small packets before SO_SNDBUF blocks.
pub const PACKETS_PER_FLOW: u32 = 20_000;
/// fq's default horizon, microseconds.
const HORIZON_US_MIN: u64 = 10_000_000;

/// Installs fq at the root. A device with several queues gets mq with one fq per queue, so that
/// processors don't share a lock.
pub fn install(
    netlink: &mut Netlink,
    interface: &Interface,
    multi_queue: bool,
    guard_ns: u64,
) -> Result<(), PacingError> {
    if !multi_queue {
        return qdisc::add(netlink, interface, TcHandle::ROOT, OWN_MAJOR, "fq", options(guard_ns));
    }
    let queues = qdisc::transmit_queues(netlink, interface)?;
    qdisc::add(netlink, interface, TcHandle::ROOT, OWN_MAJOR, "mq", Options::None)?;
    for queue in 1..=queues {
        let parent = TcHandle { major: OWN_MAJOR, minor: queue };
        qdisc::add(netlink, interface, parent, 0, "fq", options(guard_ns))?;
    }
    Ok(())
}

/// The horizon is beyond the runaway guard of egress. Egress drops first, without advancing the
/// lane's clock.
fn options(guard_ns: u64) -> Options {
    let horizon_us = (2 * (guard_ns / 1_000)).max(HORIZON_US_MIN).min(u64::from(u32::MAX)) as u32;
    Options::Attributes(vec![
        (TCA_FQ_PLIMIT, PACKETS.to_ne_bytes().into()),
        (TCA_FQ_FLOW_PLIMIT, PACKETS_PER_FLOW.to_ne_bytes().into()),
        (TCA_FQ_HORIZON, horizon_us.to_ne_bytes().into()),
        (TCA_FQ_HORIZON_DROP, vec![1]),
    ])
}
