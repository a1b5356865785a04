//! Checks the qdiscs of an interface, and the programs of others on it.

use super::{
    interface::Link,
    outcome::{Finding, Group},
};
use atp_datapath::{
    EGRESS, INGRESS, XDP,
    netlink_query::Query,
    pacing::{OWN_MAJOR, PACKETS_PER_FLOW, options_of},
};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, loaded_programs};
use netlink_packet_route::{
    RouteNetlinkMessage,
    tc::{TcAttribute, TcHandle, TcMessage, TcStats2, TcXstats},
};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;

const GROUP: Group = Group::Interface;
/// The major number of the ingress and clsact qdiscs, and the parents of clsact's filters.
const CLSACT: u16 = 0xffff;
const CLSACT_INGRESS: TcHandle = TcHandle { major: CLSACT, minor: 0xfff2 };
const CLSACT_EGRESS: TcHandle = TcHandle { major: CLSACT, minor: 0xfff3 };

const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TCA_FQ_HORIZON: u16 = 14;
const TCA_FQ_HORIZON_DROP: u16 = 15;
/// The place of `flows_plimit` in `struct tc_fq_qd_stats`.
const FLOWS_PLIMIT: usize = 32;
/// fq must hold packets as long as the egress program's runaway guard allows.
const HORIZON_US_MIN: u32 = 2_000_000;

/// A qdisc as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Qdisc {
    kind: String,
    handle: TcHandle,
    parent: TcHandle,
    fq: Fq,
}

/// Settings and counters of fq, as far as the kernel states them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fq {
    packets_per_flow: Option<u32>,
    horizon_us: Option<u32>,
    drops_beyond_horizon: Option<bool>,
    flow_limit_drops: Option<u64>,
}

/// The checks of an interface's qdiscs and programs.
pub fn findings(link: &Link) -> Vec<Finding> {
    let mut findings = match qdiscs(link.index) {
        Ok(qdiscs) => {
            let mut findings = vec![root(&link.name, &qdiscs)];
            findings.extend(fq(&link.name, &qdiscs));
            findings.push(classifier(link, &qdiscs));
            findings
        }
        Err(error) => vec![GROUP.not_checked("root qdisc", error.to_string())],
    };
    findings.push(tcx("programs at tc ingress", &link.name, TcAttachType::Ingress, INGRESS));
    findings.push(tcx("programs at tc egress", &link.name, TcAttachType::Egress, EGRESS));
    findings.push(xdp(link));
    findings.into_iter().map(|finding| finding.on(&link.name)).collect()
}

fn qdiscs(ifindex: u32) -> io::Result<Vec<Qdisc>> {
    let question = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::with_index(ifindex as i32));
    let answers = Query::open(NETLINK_ROUTE)?.all(question)?;
    let qdisc = |answer| match answer {
        RouteNetlinkMessage::NewQueueDiscipline(qdisc) if qdisc.header.index == ifindex as i32 => {
            Some(parse(&qdisc))
        }
        _ => None,
    };
    Ok(answers.into_iter().filter_map(qdisc).collect())
}

fn parse(message: &TcMessage) -> Qdisc {
    let mut kind = String::new();
    let mut fq = Fq::default();
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(name) => kind.clone_from(name),
            TcAttribute::Stats2(stats) => {
                fq.flow_limit_drops = stats.iter().find_map(flow_limit_drops);
            }
            _ => {}
        }
    }
    if kind == "fq" {
        read_fq_options(&options_of(message), &mut fq);
    } else {
        fq = Fq::default();
    }
    Qdisc { kind, handle: message.header.handle, parent: message.header.parent, fq }
}

fn read_fq_options(options: &[(u16, Vec<u8>)], fq: &mut Fq) {
    for (kind, value) in options {
        let number = value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        match *kind {
            TCA_FQ_FLOW_PLIMIT => fq.packets_per_flow = number,
            TCA_FQ_HORIZON => fq.horizon_us = number,
            TCA_FQ_HORIZON_DROP => fq.drops_beyond_horizon = value.first().map(|byte| *byte != 0),
            _ => {}
        }
    }
}

fn flow_limit_drops(stats: &TcStats2) -> Option<u64> {
    let TcStats2::App(TcXstats::Other(bytes)) = stats else { return None };
    bytes.get(FLOWS_PLIMIT..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

fn root(interface: &str, qdiscs: &[Qdisc]) -> Finding {
    let check = "root qdisc";
    let Some(root) = qdiscs.iter().find(|qdisc| qdisc.parent == TcHandle::ROOT) else {
        return GROUP.fine(check, "none");
    };
    let (kind, major) = (&root.kind, root.handle.major);
    match major {
        0 => GROUP.fine(check, format!("{kind}, the system's default: the daemon may replace it")),
        OWN_MAJOR => GROUP.fine(check, format!("{kind} {major:x}:, of an ATP daemon")),
        _ if is_fq(root, qdiscs) => GROUP.fine(check, format!("{kind} {major:x}: paces with fq")),
        _ => GROUP.missing(
            check,
            format!("{kind} {major:x}:, configured by someone else"),
            format!("run `tc qdisc del dev {interface} root`, or leave out this interface"),
        ),
    }
}

/// Whether a root qdisc is fq, or mq with an fq for each queue.
fn is_fq(root: &Qdisc, qdiscs: &[Qdisc]) -> bool {
    let mut children = qdiscs
        .iter()
        .filter(|qdisc| qdisc.parent.major == root.handle.major && qdisc.parent.minor != 0)
        .peekable();
    root.kind == "fq"
        || root.kind == "mq"
            && children.peek().is_some()
            && children.all(|child| child.kind == "fq")
}

/// The strictest settings of all fq qdiscs; `None` without fq.
fn fq(interface: &str, qdiscs: &[Qdisc]) -> Option<Finding> {
    let check = "settings of fq";
    let all: Vec<&Fq> =
        qdiscs.iter().filter(|qdisc| qdisc.kind == "fq").map(|qdisc| &qdisc.fq).collect();
    if all.is_empty() {
        return None;
    }
    let flow_limit = all.iter().filter_map(|fq| fq.packets_per_flow).min();
    let horizon_us = all.iter().filter_map(|fq| fq.horizon_us).min();
    let drops: u64 = all.iter().filter_map(|fq| fq.flow_limit_drops).sum();
    let number = |number: Option<u32>| number.map_or("unknown".into(), |number| number.to_string());
    let observed = format!(
        "flow_limit {}, horizon {} us, {drops} packets dropped at the flow limit",
        number(flow_limit),
        number(horizon_us)
    );
    let mut faults = Vec::new();
    if drops > 0 || flow_limit.is_some_and(|limit| limit < PACKETS_PER_FLOW) {
        faults.push("fq drops packets of a socket before its send buffer is full");
    }
    if horizon_us.is_some_and(|us| us < HORIZON_US_MIN) {
        faults.push("its horizon is shorter than the programs' departures");
    }
    if all.iter().any(|fq| fq.drops_beyond_horizon == Some(false)) {
        faults.push("horizon_cap doesn't keep the rate");
    }
    if faults.is_empty() {
        return Some(GROUP.fine(check, observed));
    }
    let advice = format!(
        "change it: `tc qdisc change dev {interface} handle HANDLE: fq flow_limit {PACKETS_PER_FLOW} horizon 10s horizon_drop`"
    );
    Some(GROUP.degraded(check, observed, faults.join("; "), advice))
}

/// The filters of a clsact or ingress qdisc run after ATP's programs.
fn classifier(link: &Link, qdiscs: &[Qdisc]) -> Finding {
    let check = "tc filters";
    let Some(qdisc) = qdiscs.iter().find(|qdisc| qdisc.handle.major == CLSACT) else {
        return GROUP.fine(check, "no clsact or ingress qdisc");
    };
    let parents = match qdisc.kind.as_str() {
        "clsact" => vec![CLSACT_INGRESS, CLSACT_EGRESS],
        _ => vec![TcHandle { major: CLSACT, minor: 0 }],
    };
    let kinds: io::Result<Vec<Vec<String>>> =
        parents.into_iter().map(|parent| filters(link.index, parent)).collect();
    match kinds.map(|kinds| kinds.concat()) {
        Err(error) => GROUP.not_checked(check, error.to_string()),
        Ok(kinds) if kinds.is_empty() => {
            GROUP.fine(check, format!("{} without filters", qdisc.kind))
        }
        Ok(kinds) => GROUP.degraded(
            check,
            format!("{} with filters ({})", qdisc.kind, kinds.join(", ")),
            "they see ATP's packets after the programs, and can drop or redirect them",
            format!("check them: `tc filter show dev {} ingress` and `egress`", link.name),
        ),
    }
}

/// The names or kinds of the filters below a parent.
fn filters(ifindex: u32, parent: TcHandle) -> io::Result<Vec<String>> {
    let mut question = TcMessage::with_index(ifindex as i32);
    question.header.parent = parent;
    let question = RouteNetlinkMessage::GetTrafficFilter(question);
    let answers = Query::open(NETLINK_ROUTE)?.all(question)?;
    let kind = |answer| {
        let RouteNetlinkMessage::NewTrafficFilter(filter) = answer else { return None };
        // A filter without a handle only announces its priority.
        let is_filter = filter.header.handle != TcHandle::UNSPEC;
        filter.attributes.into_iter().filter(|_| is_filter).find_map(|attribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind),
            _ => None,
        })
    };
    let mut kinds: Vec<String> = answers.into_iter().filter_map(kind).collect();
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}

fn tcx(check: &str, interface: &str, at: TcAttachType, own: &str) -> Finding {
    match SchedClassifier::query_tcx(interface, at) {
        Err(error) => GROUP.not_checked(check, why_not_queried(&error)),
        Ok((_, programs)) => {
            let names: Vec<String> = programs
                .iter()
                .map(|program| program.name_as_str().unwrap_or("unnamed").to_owned())
                .collect();
            in_chain(check, &names, own)
        }
    }
}

fn why_not_queried(error: &ProgramError) -> String {
    match error {
        ProgramError::SyscallError(call)
            if call.io_error.kind() == io::ErrorKind::PermissionDenied =>
        {
            "this needs privileges: run as root".into()
        }
        ProgramError::SyscallError(call) => format!("{}: {}", call.call, call.io_error),
        error => error.to_string(),
    }
}

/// Evaluates the order of a TCX chain: a program ahead of ours can end it with its verdict.
fn in_chain(check: &str, names: &[String], own: &str) -> Finding {
    let observed = match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let foreign = names.iter().position(|name| name != own);
    let ours = names.iter().position(|name| name == own);
    match (foreign, ours) {
        (Some(first), Some(ours)) if first < ours => GROUP.degraded(
            check,
            observed,
            "a program ahead of ATP's can end the chain, so that ATP's doesn't see the packet",
            "the daemon moves ahead within a second; if this repeats, attach it after ATP's program",
        ),
        (Some(_), None) => GROUP.fine(check, observed + "; the daemon attaches ahead of them"),
        _ => GROUP.fine(check, observed),
    }
}

fn xdp(link: &Link) -> Finding {
    let check = "XDP program";
    let Some(id) = link.xdp_program else { return GROUP.fine(check, "none") };
    let name = loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id)
        .and_then(|program| program.name_as_str().map(str::to_owned));
    let name = name.unwrap_or_else(|| format!("number {id}"));
    if name == XDP {
        return GROUP.fine(check, format!("{name}, of an ATP daemon"));
    }
    GROUP.degraded(
        check,
        format!("{name}, of someone else"),
        "tc ingress consumes ACKs, and sees only the packets that this program passes",
        format!("remove it with `ip link set {} xdp off`, if it isn't needed", link.name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::{DefaultNla, Emitable, Parseable};
    use netlink_packet_route::tc::TcOption;

    const ROOT_1: TcHandle = TcHandle { major: 1, minor: 0 };

    fn qdisc(kind: &str, handle: TcHandle, parent: TcHandle) -> Qdisc {
        Qdisc { kind: kind.into(), handle, parent, fq: Fq::default() }
    }

    /// The kernel's message, as the parser reads it.
    fn fq_message(stats: Vec<u8>) -> TcMessage {
        let option = |kind, value: &[u8]| TcOption::Other(DefaultNla::new(kind, value.into()));
        let mut message = TcMessage::with_index(2);
        message.header.handle = ROOT_1;
        message.header.parent = TcHandle::ROOT;
        message.attributes = vec![
            TcAttribute::Kind("fq".into()),
            TcAttribute::Options(vec![
                option(TCA_FQ_FLOW_PLIMIT, &100u32.to_ne_bytes()),
                option(TCA_FQ_HORIZON, &10_000_000u32.to_ne_bytes()),
                option(TCA_FQ_HORIZON_DROP, &[1]),
            ]),
            TcAttribute::Stats2(vec![TcStats2::App(TcXstats::Other(stats))]),
        ];
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        TcMessage::parse(&bytes).unwrap()
    }

    #[test]
    fn parse__settings_and_drops_of_fq() {
        let mut stats = vec![0; 100];
        stats[FLOWS_PLIMIT] = 7;
        let parsed = parse(&fq_message(stats));
        let expected = Fq {
            packets_per_flow: Some(100),
            horizon_us: Some(10_000_000),
            drops_beyond_horizon: Some(true),
            flow_limit_drops: Some(7),
        };
        assert_eq!((parsed.kind.as_str(), &parsed.fq), ("fq", &expected));
        assert_eq!(parse(&fq_message(vec![0; 12])).fq.flow_limit_drops, None);
    }

    #[test]
    fn fq__the_flow_limit_and_the_horizon() {
        let with = |fq| [Qdisc { fq, ..qdisc("fq", ROOT_1, TcHandle::ROOT) }];
        let word = |fq| self::fq("eth0", &with(fq)).unwrap().outcome.word();
        let good = Fq {
            packets_per_flow: Some(PACKETS_PER_FLOW),
            horizon_us: Some(10_000_000),
            drops_beyond_horizon: Some(true),
            flow_limit_drops: Some(0),
        };
        assert_eq!(word(good.clone()), "fine");
        assert_eq!(word(Fq { packets_per_flow: Some(100), ..good.clone() }), "degraded");
        assert_eq!(word(Fq { flow_limit_drops: Some(1), ..good.clone() }), "degraded");
        assert_eq!(word(Fq { horizon_us: Some(500_000), ..good.clone() }), "degraded");
        assert_eq!(word(Fq { drops_beyond_horizon: Some(false), ..good }), "degraded");
        assert_eq!(self::fq("eth0", &[qdisc("htb", ROOT_1, TcHandle::ROOT)]), None);
    }

    #[test]
    fn root__only_a_foreign_qdisc_without_fq_is_in_the_way() {
        let word = |qdiscs: &[Qdisc]| root("eth0", qdiscs).outcome.word();
        let own = TcHandle { major: OWN_MAJOR, minor: 0 };
        assert_eq!(word(&[]), "fine");
        assert_eq!(word(&[qdisc("pfifo_fast", TcHandle::UNSPEC, TcHandle::ROOT)]), "fine");
        assert_eq!(word(&[qdisc("htb", own, TcHandle::ROOT)]), "fine");
        assert_eq!(word(&[qdisc("htb", ROOT_1, TcHandle::ROOT)]), "missing");
        assert_eq!(word(&[qdisc("fq", ROOT_1, TcHandle::ROOT)]), "fine");
        let child = |kind, minor| qdisc(kind, TcHandle::UNSPEC, TcHandle { major: 1, minor });
        let mq = qdisc("mq", ROOT_1, TcHandle::ROOT);
        assert_eq!(word(&[mq.clone(), child("fq", 1), child("fq", 2)]), "fine");
        assert_eq!(word(&[mq.clone(), child("fq", 1), child("pfifo", 2)]), "missing");
        assert_eq!(word(&[mq]), "missing");
    }

    #[test]
    fn in_chain__the_order_counts() {
        let word = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            in_chain("programs", &names, EGRESS).outcome.word()
        };
        assert_eq!(word(&[]), "fine");
        assert_eq!(word(&[EGRESS]), "fine");
        assert_eq!(word(&[EGRESS, "other"]), "fine");
        assert_eq!(word(&["other", EGRESS]), "degraded");
        assert_eq!(word(&["other"]), "fine");
    }
}
