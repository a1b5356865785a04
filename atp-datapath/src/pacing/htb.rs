//! Pacing by class: one HTB class per lane, its rate changed through netlink. Packets without a
//! class leave at once, through HTB's direct queue.

use super::{
    LaneClass, PacingError,
    netlink::Netlink,
    qdisc::{self, Interface, OWN_MAJOR, Options, nested},
};
use atp_common::laws::pacing::CATCH_UP_NS;
use bytemuck::{Pod, Zeroable};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    RouteNetlinkMessage,
    tc::{TcAttribute, TcHandle, TcMessage},
};

const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;

/// The first lane's class. Lower numbers are free for administrators.
const FIRST_CLASS: u16 = 0x100;
/// Packets that one class holds: more than a socket buffer, so that a sender blocks before packets
/// are dropped here.
const PACKETS_PER_LANE: u32 = 1024;
/// The shortest burst: two full packets, accurate to 0.1-1 % up to 200 Mbit/s.
const BURST_BYTES_MIN: u64 = 3028;
/// At any rate a burst holds the data of this time, the resolution of the kernel's timers.
const BURST_NS_MIN: u64 = 100_000;
/// The kernel's unit of time in HTB, 64 ns.
const TICK_NS: u64 = 64;
/// Ethernet. Without a link layer the kernel requires a rate table.
const LINKLAYER_ETHERNET: u8 = 1;

/// `struct tc_ratespec`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RateSpec {
    cell_log: u8,
    linklayer: u8,
    overhead: u16,
    cell_align: i16,
    mpu: u16,
    rate: u32,
}

/// `struct tc_htb_opt`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ClassOptions {
    rate: RateSpec,
    ceil: RateSpec,
    buffer: u32,
    cbuffer: u32,
    quantum: u32,
    level: u32,
    prio: u32,
}

/// `struct tc_htb_glob`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Init {
    version: u32,
    rate2quantum: u32,
    defcls: u32,
    debug: u32,
    direct_pkts: u32,
}

/// The class of a lane, as `skb->priority` names it.
pub const fn class_of_lane(lane: u16) -> u32 {
    (OWN_MAJOR as u32) << 16 | (FIRST_CLASS + lane) as u32
}

/// Installs HTB at the root.
pub fn install(netlink: &mut Netlink, interface: &Interface) -> Result<(), PacingError> {
    let init = Init { version: 3, rate2quantum: 10, ..Init::zeroed() };
    let options = Options::Attributes(vec![(TCA_HTB_INIT, bytemuck::bytes_of(&init).into())]);
    qdisc::add(netlink, interface, TcHandle::ROOT, OWN_MAJOR, "htb", options)
}

/// Adds a lane's class with its queue.
pub fn add_class(
    netlink: &mut Netlink,
    interface: &Interface,
    lane: u16,
    to: LaneClass,
) -> Result<(), PacingError> {
    let message = class(interface, lane, to);
    netlink
        .request(RouteNetlinkMessage::NewTrafficClass(message), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|error| error_of("add", lane, interface, error))?;
    let queue = Options::Plain(PACKETS_PER_LANE.to_ne_bytes().into());
    qdisc::add(netlink, interface, handle(lane), 0, "pfifo", queue)
}

/// Removes a lane's class and drops its packets.
pub fn remove_class(
    netlink: &mut Netlink,
    interface: &Interface,
    lane: u16,
) -> Result<(), PacingError> {
    let message = interface.message(TcHandle::UNSPEC, handle(lane));
    netlink
        .request(RouteNetlinkMessage::DelTrafficClass(message), 0)
        .map_err(|error| error_of("remove", lane, interface, error))
}

/// Changes the rates of classes, in batches.
pub fn change_classes(
    netlink: &mut Netlink,
    interface: &Interface,
    changes: &[(u16, LaneClass)],
) -> Result<(), PacingError> {
    let messages = changes
        .iter()
        .map(|&(lane, to)| RouteNetlinkMessage::NewTrafficClass(class(interface, lane, to)))
        .collect();
    netlink
        .request_all(messages)
        .map_err(|error| PacingError::kernel(format!("change rates on {}", interface.name), error))
}

fn error_of(action: &str, lane: u16, interface: &Interface, error: std::io::Error) -> PacingError {
    PacingError::kernel(format!("{action} the class of lane {lane} on {}", interface.name), error)
}

const fn handle(lane: u16) -> TcHandle {
    TcHandle { major: OWN_MAJOR, minor: FIRST_CLASS + lane }
}

fn class(interface: &Interface, lane: u16, to: LaneClass) -> TcMessage {
    // The kernel refuses a rate of 0.
    let rate = to.rate_bytes_per_s.max(1);
    let mut message = interface.message(TcHandle { major: OWN_MAJOR, minor: 0 }, handle(lane));
    let options = class_options(rate, to.burst_bytes_max);
    let mut attributes = vec![(TCA_HTB_PARMS, bytemuck::bytes_of(&options).into())];
    if rate > u64::from(u32::MAX) {
        attributes.push((TCA_HTB_RATE64, rate.to_ne_bytes().into()));
        attributes.push((TCA_HTB_CEIL64, rate.to_ne_bytes().into()));
    }
    message.attributes.push(TcAttribute::Kind("htb".into()));
    message.attributes.push(nested(attributes));
    message
}

fn class_options(rate_bytes_per_s: u64, burst_bytes_max: u64) -> ClassOptions {
    let spec = RateSpec {
        linklayer: LINKLAYER_ETHERNET,
        rate: u32::try_from(rate_bytes_per_s).unwrap_or(u32::MAX),
        ..RateSpec::zeroed()
    };
    let buffer = burst_ticks(rate_bytes_per_s, burst_bytes_max);
    ClassOptions {
        rate: spec,
        ceil: spec,
        buffer,
        cbuffer: buffer,
        quantum: BURST_BYTES_MIN as u32,
        ..ClassOptions::zeroed()
    }
}

/// The duration of a burst at the rate, in the kernel's ticks.
fn burst_ticks(rate_bytes_per_s: u64, burst_bytes_max: u64) -> u32 {
    let ns_of = |bytes: u64| bytes.saturating_mul(1_000_000_000) / rate_bytes_per_s;
    let least_ns = ns_of(BURST_BYTES_MIN).max(BURST_NS_MIN);
    let ns = CATCH_UP_NS.min(ns_of(burst_bytes_max)).max(least_ns);
    u32::try_from(ns / TICK_NS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_ticks__two_packets_then_100_us() {
        let ticks = |rate| burst_ticks(rate, 0);
        // 3028 bytes at 25 MB/s take 121,120 ns.
        assert_eq!(ticks(25_000_000), 1892);
        assert_eq!([625_000_000, 50_000_000_000].map(ticks), [100_000 / 64; 2]);
        assert_eq!(ticks(1), u32::MAX);
    }

    #[test]
    fn burst_ticks__ten_milliseconds_and_what_queues_hold() {
        let ticks = |rate| burst_ticks(rate, 72_672);
        // 3028 bytes, 10 ms, 72,672 bytes and 100 us.
        assert_eq!(ticks(25_000), 121_120_000 / 64);
        assert_eq!(ticks(2_500_000), 10_000_000 / 64);
        assert_eq!(ticks(25_000_000), 2_906_880 / 64);
        assert_eq!(ticks(50_000_000_000), 100_000 / 64);
        assert_eq!(burst_ticks(25_000_000, u64::MAX), 10_000_000 / 64);
    }

    #[test]
    fn class_of_lane__stays_inside_its_qdisc() {
        let last = class_of_lane(atp_common::maps::LANES as u16 - 1);
        assert_eq!(last >> 16, u32::from(OWN_MAJOR));
        assert_eq!(last & 0xffff, 0x10ff);
    }
}
