//! Pacing by departure time: the fq qdisc holds each packet until the time that egress sets.

use super::{
    PacingError,
    netlink::Netlink,
    qdisc::{self, Interface, OWN_MAJOR, Options, Qdisc},
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
/// The least packets of one socket in an fq that someone else installed, without a warning.
const PACKETS_PER_FLOW_MIN: u32 = 1_000;
/// fq's default horizon, microseconds.
const HORIZON_US_MIN: u64 = 10_000_000;

/// Installs fq at the root. A device with several queues gets mq with one fq per queue, so that
/// processors don't share a lock. Departure times are absolute, so a lane keeps its rate even if
/// its packets take several queues.
pub fn install(
    netlink: &mut Netlink,
    interface: &Interface,
    guard_ns: u64,
) -> Result<(), PacingError> {
    let queues = qdisc::transmit_queues(netlink, interface)?;
    if queues <= 1 {
        return qdisc::add(netlink, interface, TcHandle::ROOT, OWN_MAJOR, "fq", options(guard_ns));
    }
    qdisc::add(netlink, interface, TcHandle::ROOT, OWN_MAJOR, "mq", Options::None)?;
    for queue in 1..=queues {
        let parent = TcHandle { major: OWN_MAJOR, minor: queue };
        qdisc::add(netlink, interface, parent, 0, "fq", options(guard_ns))?;
    }
    Ok(())
}

/// Whether every packet of the interface passes an fq: at the root, or below an mq.
pub fn is_complete(root: &Qdisc, all: &[Qdisc]) -> bool {
    let below = |qdisc: &&Qdisc| qdisc.parent.major == root.major && qdisc.parent.minor != 0;
    let mut children = all.iter().filter(below).peekable();
    match root.kind.as_str() {
        "fq" => true,
        "mq" => children.peek().is_some() && children.all(|child| child.kind == "fq"),
        _ => false,
    }
}

/// The settings of an fq that are too small for ATP, one sentence each.
pub fn complaints(all: &[Qdisc], guard_ns: u64) -> Vec<String> {
    let fqs = || all.iter().filter(|qdisc| qdisc.kind == "fq");
    let least = |attribute| fqs().filter_map(|fq| fq.number(attribute)).min();
    let mut complaints = Vec::new();
    if let Some(packets) = least(TCA_FQ_FLOW_PLIMIT).filter(|n| *n < PACKETS_PER_FLOW_MIN) {
        complaints.push(format!(
            "its flow_limit of {packets} drops packets before a socket's buffer is full: set \
             flow_limit {PACKETS_PER_FLOW}"
        ));
    }
    let guard_us = guard_ns / 1_000;
    if let Some(horizon_us) = least(TCA_FQ_HORIZON).filter(|us| u64::from(*us) <= guard_us) {
        complaints.push(format!(
            "its horizon of {horizon_us} us drops packets of slow lanes: set horizon {} us or more",
            2 * guard_us
        ));
    }
    complaints
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: TcHandle = TcHandle::ROOT;

    fn qdisc(kind: &str, parent: TcHandle, major: u16, numbers: &[(u16, u32)]) -> Qdisc {
        Qdisc { kind: kind.into(), parent, major, numbers: numbers.to_vec() }
    }

    fn below(kind: &str, minor: u16) -> Qdisc {
        qdisc(kind, TcHandle { major: 1, minor }, 10 + minor, &[])
    }

    #[test]
    fn is_complete__every_queue_of_mq_needs_fq() {
        let root = qdisc("mq", ROOT, 1, &[]);
        let complete = |children: &[Qdisc]| {
            let all: Vec<_> = [root.clone()].into_iter().chain(children.iter().cloned()).collect();
            is_complete(&root, &all)
        };
        assert!(complete(&[below("fq", 1), below("fq", 2)]));
        assert!(!complete(&[below("fq", 1), below("fq_codel", 2)]));
        assert!(!complete(&[]));
        let fq = qdisc("fq", ROOT, 1, &[]);
        assert!(is_complete(&fq, std::slice::from_ref(&fq)));
        let htb = qdisc("htb", ROOT, 1, &[]);
        assert!(!is_complete(&htb, &[htb.clone(), below("fq", 1)]));
    }

    #[test]
    fn complaints__about_small_limits_only() {
        let fq = |flow_limit, horizon_us| {
            let numbers = [(TCA_FQ_FLOW_PLIMIT, flow_limit), (TCA_FQ_HORIZON, horizon_us)];
            complaints(&[qdisc("fq", ROOT, 1, &numbers)], 2_000_000_000)
        };
        assert_eq!(fq(20_000, 10_000_000), Vec::<String>::new());
        assert!(fq(100, 10_000_000)[0].contains("flow_limit of 100 "));
        assert!(fq(20_000, 2_000_000)[0].contains("horizon of 2000000 us"));
        assert_eq!(fq(100, 1).len(), 2);
    }
}
