//! Checks the path to a peer by an active probe: which DSCPs survive, and which queue is served
//! first.

mod answerer;
mod order;
mod prober;
mod wire;

pub use answerer::Answerer;

use super::outcome::{Finding, Group};
use approxlib::ScopedIp;
use order::{Fate, Verdict};
use prober::{Planned, Prober, Train};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use switch_profiles::Profile;

const GROUP: Group = Group::Path;
/// The trains of a session.
const MARKS: u8 = 0;
const CAPACITY: u8 = 1;
const ORDER: u8 = 2;

/// Packets of each DSCP, their distance, and the length of each.
const MARKS_EACH: usize = 10;
const MARKS_INTERVAL: Duration = Duration::from_millis(1);
const MARKS_BYTES: usize = 64;
/// The length of the packets that fill the path, and their length on the wire with the headers of
/// UDP, IPv6 and Ethernet.
const ORDER_BYTES: usize = 1_200;
const ORDER_WIRE_BYTES: usize = ORDER_BYTES + 8 + 40 + 14;

const ORDER_CHECK: &str = "queue order";
const NO_ORDER: &str = "the profile has one queue for all traffic, and so no order";

const ECN_BITS: u8 = 0b11;
/// ECN-capable transport, ECT(0) (RFC 3168).
const ECT_0: u8 = 0b10;
const CONGESTION_EXPERIENCED: u8 = 0b11;

/// The highest rate of a probe: 1 Gbit/s.
pub const RATE_BYTES_PER_S_MAX: u64 = 125_000_000;
/// The longest time of the train that fills the path.
pub const TIME_MAX: Duration = Duration::from_secs(2);

/// The path to probe, and how.
pub struct ProbeOptions {
    /// The answerer's address.
    pub peer: SocketAddr,
    /// The token that the answerer printed.
    pub token: u64,
    /// The rate of the packets that fill the path, at most [`RATE_BYTES_PER_S_MAX`].
    pub rate_bytes_per_s: u64,
    /// How long they fill it, at most [`TIME_MAX`].
    pub time: Duration,
}

/// Probes the path.
pub fn findings(options: &ProbeOptions, profile: &Profile) -> Vec<Finding> {
    match probe(options, profile) {
        Ok(findings) => findings,
        Err(error) => {
            let advice = "start the answerer first, and check address, token and firewall (UDP)";
            vec![GROUP.missing("answerer", format!("{error:#}"), advice)]
        }
    }
}

fn probe(options: &ProbeOptions, profile: &Profile) -> anyhow::Result<Vec<Finding>> {
    let prober = Prober::connect(options.peer, options.token)?;
    let marks = prober.train(MARKS, &marks_plan(profile), MARKS_BYTES)?;
    let mut findings = marks_findings(&marks, profile);
    findings.push(order_finding(&prober, options, profile)?);
    Ok(findings)
}

/// An address of this link as another host writes it: a link-local one with an interface of its
/// own.
pub fn from_another_host(address: SocketAddr) -> String {
    let ip = ScopedIp::from(address);
    match ip.scope() {
        0 => ip.at(address.port()).to_string(),
        _ => format!("[{}%INTERFACE-THERE]:{}", ip.ip(), address.port()),
    }
}

/// Packets of every queue's DSCP in turn, so that a moment of loss doesn't hit one DSCP only.
fn marks_plan(profile: &Profile) -> Vec<Planned> {
    let queues = profile.queues().len();
    let class = |number: usize| traffic_class(profile, (number % queues) as u8);
    let at = |number: usize| MARKS_INTERVAL * number as u32;
    let numbers = 0..queues * MARKS_EACH;
    numbers.map(|number| Planned { at: at(number), traffic_class: class(number) }).collect()
}

fn traffic_class(profile: &Profile, queue: u8) -> u8 {
    profile.dscp_of_queue(queue) << 2 | ECT_0
}

fn marks_findings(train: &Train, profile: &Profile) -> Vec<Finding> {
    let queues = 0..profile.queues().len() as u8;
    let mut findings: Vec<Finding> =
        queues.map(|queue| dscp_finding(train, profile, queue)).collect();
    findings.push(ecn_finding(train));
    findings
}

fn dscp_finding(train: &Train, profile: &Profile, queue: u8) -> Finding {
    let dscp = profile.dscp_of_queue(queue);
    let check = match profile.is_one_queue() {
        true => format!("DSCP {dscp} (one queue for all traffic)"),
        false => format!("DSCP {dscp} (queue {queue})"),
    };
    let class = traffic_class(profile, queue);
    let sent = train.sent.iter().filter(|sent| sent.traffic_class == class).count();
    let mut arrived: BTreeMap<u8, usize> = BTreeMap::new();
    for (number, arrival) in &train.arrived {
        if train.sent[*number as usize].traffic_class == class {
            *arrived.entry(arrival.traffic_class >> 2).or_default() += 1;
        }
    }
    let total: usize = arrived.values().sum();
    let observed = format!("{total} of {sent} packets arrived");
    if total == 0 {
        let advice = "find the device that drops this DSCP, and let it pass";
        return GROUP.missing(check, observed, advice);
    }
    let changes: Vec<(u8, usize)> = arrived.into_iter().filter(|(seen, _)| *seen != dscp).collect();
    let [(first, _), ..] = changes[..] else { return GROUP.fine(check, observed + ", kept") };
    let words: Vec<String> =
        changes.iter().map(|(seen, count)| format!("{count} as DSCP {seen}")).collect();
    let observed = format!("{observed}, {}", words.join(", "));
    if profile.is_one_queue() {
        return GROUP.fine(check, observed + ", which the one queue takes as well");
    }
    GROUP.degraded(
        check,
        observed,
        format!(
            "switches behind the change put these packets into queue {}",
            queue_of(profile, first)
        ),
        "find the device that changes DSCPs, and let it trust those of this host",
    )
}

/// The queue of a DSCP: queue 0 takes those that no queue lists.
fn queue_of(profile: &Profile, dscp: u8) -> usize {
    profile.queues().iter().position(|queue| queue.dscp.contains(&dscp)).unwrap_or(0)
}

fn ecn_finding(train: &Train) -> Finding {
    let ecn: Vec<u8> =
        train.arrived.values().map(|arrival| arrival.traffic_class & ECN_BITS).collect();
    let count = |bits: u8| ecn.iter().filter(|seen| **seen == bits).count();
    let marked = count(CONGESTION_EXPERIENCED);
    let kept = count(ECT_0) + marked;
    let observed = format!("{kept} of {} packets arrived as ECN-capable", ecn.len());
    if ecn.is_empty() {
        return GROUP.not_checked("ECN bits", "no packet arrived");
    }
    if kept < ecn.len() {
        return GROUP.degraded(
            "ECN bits",
            observed,
            "switches behind the change drop exact traffic where they would mark it",
            "find the device that clears the ECN bits",
        );
    }
    let marks = if marked > 0 { format!(", {marked} of them marked") } else { String::new() };
    GROUP.fine("ECN bits", observed + &marks)
}

fn order_finding(
    prober: &Prober,
    options: &ProbeOptions,
    profile: &Profile,
) -> anyhow::Result<Finding> {
    let lowest = match profile.queues().len() as u8 {
        1 => return Ok(GROUP.not_checked(ORDER_CHECK, NO_ORDER)),
        queues => queues - 1,
    };
    let classes = (traffic_class(profile, 0), traffic_class(profile, lowest));
    let rate = options.rate_bytes_per_s as f64;
    let plan = order::one_class(classes.0, rate, ORDER_WIRE_BYTES, options.time / 2);
    let capacity = prober.train(CAPACITY, &plan, ORDER_BYTES)?;
    let bottleneck = order::bottleneck_bytes_per_s(&capacity, ORDER_WIRE_BYTES);
    let rate = order::overload(bottleneck, rate);
    let plan = order::two_classes(classes, rate, ORDER_WIRE_BYTES, options.time);
    let train = prober.train(ORDER, &plan, ORDER_BYTES)?;
    Ok(describe_order(&train, classes, bottleneck))
}

fn describe_order(train: &Train, classes: (u8, u8), bottleneck: Option<f64>) -> Finding {
    let check = ORDER_CHECK;
    let sent_bytes_per_s = order::sent_bytes_per_s(train, ORDER_WIRE_BYTES);
    let rate = format!("{:.1} Mbit/s", sent_bytes_per_s * 8.0 / 1e6);
    if train.dropped > 0 {
        let why = format!(
            "the answering host itself dropped {} packets: raise its net.core.rmem_max, or lower --probe-rate",
            train.dropped
        );
        return GROUP.not_checked(check, why);
    }
    let Some((high, low)) = order::fates(train, classes) else {
        return GROUP.not_checked(
            check,
            format!("too few packets at {rate}: raise --probe-rate or --probe-time"),
        );
    };
    let (high_dscp, low_dscp) = (classes.0 >> 2, classes.1 >> 2);
    let observed = format!(
        "at {rate}, DSCP {high_dscp} {}, DSCP {low_dscp} {}",
        describe(high),
        describe(low)
    );
    let strict_delay_ns = order::strict_delay_ns(train, classes.0, bottleneck, ORDER_WIRE_BYTES);
    match order::verdict(high, low, strict_delay_ns) {
        Verdict::Strict => {
            GROUP.fine(check, format!("strict order seen at the bottleneck: {observed}"))
        }
        Verdict::Preferred => GROUP.degraded(
            check,
            observed,
            "high priority fares better, but waits too: weights instead of a strict order",
            "give the switches the queue profile with strict priority",
        ),
        Verdict::Alike => GROUP.degraded(
            check,
            observed,
            "no difference seen: the bottleneck has one queue, or fair ones",
            "give the switches the queue profile, or run the daemon with --profile one-queue",
        ),
        Verdict::Reversed => GROUP.degraded(
            check,
            observed,
            "low priority fares better: the order of the queues is reversed",
            "correct the switches' mapping of DSCPs to queues",
        ),
        Verdict::NotCongested => GROUP.unclear(
            check,
            observed,
            "no difference seen, because hardly a packet waited: raise --probe-rate above the bottleneck's rate",
        ),
    }
}

fn describe(fate: Fate) -> String {
    let loss = fate.loss * 100.0;
    match fate.delay_ns {
        Some(delay_ns) => format!("lost {loss:.0} % and waited {:.1} ms", delay_ns as f64 / 1e6),
        None => format!("lost {loss:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::{prober::Sent, wire::Arrival, *};
    use switch_profiles::QUEUES;

    /// The train of marks as `change` lets its packets through.
    fn train(change: impl Fn(u8) -> Option<u8>) -> Train {
        train_of(&Profile::default(), change)
    }

    fn train_of(profile: &Profile, change: impl Fn(u8) -> Option<u8>) -> Train {
        let mut train = Train::default();
        for (number, planned) in (0u32..).zip(marks_plan(profile)) {
            let sent = Sent { traffic_class: planned.traffic_class, at_ns: 0 };
            train.sent.push(sent);
            if let Some(traffic_class) = change(planned.traffic_class) {
                train.arrived.insert(number, Arrival { number, at_ns: 0, traffic_class });
            }
        }
        train
    }

    fn words(train: &Train) -> Vec<(String, &'static str)> {
        let findings = marks_findings(train, &Profile::default()).into_iter();
        findings.map(|finding| (finding.check, finding.outcome.word())).collect()
    }

    #[test]
    fn from_another_host__a_link_local_address_has_another_interface() {
        let seen = |text: &str| from_another_host(text.parse().unwrap());
        assert_eq!(seen("[fe80::1%2]:7000"), "[fe80::1%INTERFACE-THERE]:7000");
        assert_eq!(seen("[::ffff:10.0.0.2]:7000"), "10.0.0.2:7000");
        assert_eq!(seen("[fd00::1]:7000"), "[fd00::1]:7000");
    }

    #[test]
    fn marks_findings__kept() {
        let words = words(&train(Some));
        assert_eq!(words.len(), QUEUES + 1);
        assert_eq!(
            (words[0].0.as_str(), words[7].0.as_str()),
            ("DSCP 0 (queue 0)", "DSCP 27 (queue 7)")
        );
        assert!(words.iter().all(|(_, word)| *word == "fine"), "{words:?}");
    }

    #[test]
    fn marks_findings__changed_and_lost() {
        let train = train(|class| match class >> 2 {
            27 => Some(class & ECN_BITS),
            23 => Some(7 << 2 | class & ECN_BITS),
            19 => None,
            _ => Some(class),
        });
        let words = words(&train);
        let word = |queue: usize| words[queue].1;
        assert_eq!(
            (word(4), word(5), word(6), word(7)),
            ("fine", "missing", "degraded", "degraded")
        );
        let finding = dscp_finding(&train, &Profile::default(), 6);
        assert!(finding.detail().contains("10 as DSCP 7"), "{finding:?}");
        assert!(finding.detail().ends_with("into queue 2"), "{finding:?}");
        assert_eq!(words[QUEUES], ("ECN bits".into(), "fine"));
    }

    #[test]
    fn marks_findings__of_one_queue() {
        let profile = Profile::one_queue();
        let kept = train_of(&profile, Some);
        assert_eq!(kept.sent.len(), MARKS_EACH);
        for (train, outcome, said) in [
            (kept, "fine", "10 of 10 packets arrived, kept"),
            (train_of(&profile, |class| Some(class | 7 << 2)), "fine", "10 as DSCP 7"),
            (train_of(&profile, |_| None), "missing", "0 of 10 packets arrived"),
        ] {
            let findings = marks_findings(&train, &profile);
            assert_eq!(findings.len(), 2);
            assert_eq!(findings[0].check, "DSCP 0 (one queue for all traffic)");
            assert_eq!(findings[0].outcome.word(), outcome);
            assert!(findings[0].detail().contains(said), "{}", findings[0].detail());
        }
    }

    #[test]
    fn ecn_finding__cleared_and_marked() {
        assert_eq!(ecn_finding(&train(|class| Some(class & !ECN_BITS))).outcome.word(), "degraded");
        let marked = ecn_finding(&train(|class| Some(class | ECN_BITS)));
        assert_eq!(marked.outcome.word(), "fine");
        assert!(marked.detail().ends_with("80 of them marked"), "{marked:?}");
        assert_eq!(ecn_finding(&train(|_| None)).outcome.word(), "not checked");
    }

    #[test]
    fn describe_order__a_host_that_drops_proves_nothing() {
        let train = Train { dropped: 3, ..train(Some) };
        assert_eq!(describe_order(&train, (2, 110), None).outcome.word(), "not checked");
        assert_eq!(describe_order(&Train::default(), (2, 110), None).outcome.word(), "not checked");
    }
}
