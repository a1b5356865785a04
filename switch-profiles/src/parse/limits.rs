//! The limits of queues, in packets of an MTU: their own ones, and the part of the port's buffer
//! that is left.

use super::{Malformed, QueueText, Text};
use crate::role::PerRole;
use std::ops::Range;
use toml::Spanned;

/// Limits in packets.
pub(super) struct Limits {
    /// The limit of each queue, queue 0 first.
    pub(super) queues: Vec<PerRole<u32>>,
    /// The limit of queues 1 to 7 together.
    pub(super) approximate: Option<PerRole<u32>>,
}

impl Limits {
    /// The limits of `texts`: all eight queues in order, or queue 0 alone.
    pub(super) fn of(read: &Text, texts: &[&QueueText]) -> Result<Self, Malformed> {
        if let [only] = texts {
            return Ok(Self { queues: vec![whole_buffer(read, only)?], approximate: None });
        }
        let own = texts[1..].iter().map(|text| limit_packets(text, *read.mtu_bytes.get_ref()));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        let approximate = common_limit(read, &own)?;
        let rest = rest_of_buffer(read, texts[0], &own)?;
        Ok(Self { queues: [vec![rest], own].concat(), approximate })
    }
}

/// The limit of the only queue: the buffer, in packets of an MTU. Refuses settings that tell queues
/// apart.
fn whole_buffer(read: &Text, only: &QueueText) -> Result<PerRole<u32>, Malformed> {
    let meaningless = [
        (read.approximate_limit_mtus.as_ref().map(Spanned::span), "approximate_limit_mtus"),
        (read.exact_burst_bytes.as_ref().map(Spanned::span), "exact_burst_bytes"),
    ];
    for (at, key) in meaningless {
        if let Some(at) = at {
            let reason =
                format!("{key} means nothing with one queue for all traffic: leave it out");
            return Err(Malformed { at, reason });
        }
    }
    if let Some(dscp) = only.dscp.first() {
        let reason = "the only queue takes every DSCP: leave out the list".into();
        return Err(Malformed::at(dscp, reason));
    }
    if let Some(at) = own_limit(only) {
        let reason = "the only queue gets all of port_buffer_bytes: leave out its limit".into();
        return Err(Malformed { at, reason });
    }
    packets_in(&read.port_buffer_bytes, *read.mtu_bytes.get_ref())
}

/// The limit of one of queues 1 to 7, in packets of an MTU.
fn limit_packets(text: &QueueText, mtu_bytes: u32) -> Result<PerRole<u32>, Malformed> {
    let number = text.number.get_ref();
    match (&text.limit_mtus, &text.limit_bytes) {
        (Some(mtus), None) if mtus.get_ref().least() > 0 => Ok(*mtus.get_ref()),
        (Some(mtus), None) => {
            Err(Malformed::at(mtus, "a queue of 0 MTU holds no packet: use at least 1".into()))
        }
        (None, Some(bytes)) => packets_in(bytes, mtu_bytes),
        (Some(_), Some(bytes)) => {
            let reason = format!("queue {number} has limit_mtus as well: state one of them");
            Err(Malformed::at(bytes, reason))
        }
        (None, None) => {
            let reason =
                format!("queue {number} has no limit_mtus and no limit_bytes: give it one");
            Err(Malformed::at(&text.number, reason))
        }
    }
}

/// The packets of an MTU that these bytes hold.
fn packets_in(bytes: &Spanned<PerRole<u64>>, mtu_bytes: u32) -> Result<PerRole<u32>, Malformed> {
    bytes.get_ref().try_map(|_, limit| match u32::try_from(limit / u64::from(mtu_bytes)) {
        Ok(packets) if packets > 0 => Ok(packets),
        Ok(_) => {
            let reason = format!("{limit} bytes hold no packet: use at least {mtu_bytes}");
            Err(Malformed::at(bytes, reason))
        }
        Err(_) => {
            let reason = "this queue exceeds 2^32 packets: use a shorter one".into();
            Err(Malformed::at(bytes, reason))
        }
    })
}

/// The place of a queue's own limit, if it states one.
fn own_limit(text: &QueueText) -> Option<Range<usize>> {
    let mtus = text.limit_mtus.as_ref().map(Spanned::span);
    mtus.or(text.limit_bytes.as_ref().map(Spanned::span))
}

/// The limit of queues 1 to 7 together, whose own ones are `limits`.
fn common_limit(read: &Text, limits: &[PerRole<u32>]) -> Result<Option<PerRole<u32>>, Malformed> {
    let Some(common) = &read.approximate_limit_mtus else { return Ok(None) };
    let checked = common.get_ref().try_map(|role, mtus| {
        let longest = limits.iter().map(|limit| limit.of(role)).max().unwrap_or(0);
        if mtus < longest {
            let reason = format!(
                "queues 1 to 7 may hold {mtus} MTU together ({role}), and one of them {longest} \
                 alone: use at least that"
            );
            return Err(Malformed::at(common, reason));
        }
        Ok(mtus)
    });
    checked.map(Some)
}

/// The part of a port's buffer in MTUs that queues 1 to 7, with `limits`, leave for queue 0.
fn rest_of_buffer(
    read: &Text,
    exact: &QueueText,
    limits: &[PerRole<u32>],
) -> Result<PerRole<u32>, Malformed> {
    if let Some(at) = own_limit(exact) {
        let reason = "queue 0 gets the rest of port_buffer_bytes: leave out its limit".into();
        return Err(Malformed { at, reason });
    }
    let buffer = &read.port_buffer_bytes;
    buffer.get_ref().try_map(|role, bytes| {
        let buffer_mtus = bytes / u64::from(*read.mtu_bytes.get_ref());
        let sum_mtus: u64 = limits.iter().map(|limit| u64::from(limit.of(role))).sum();
        let common_mtus = read.approximate_limit_mtus.as_ref().map(|common| common.get_ref());
        let taken_mtus = common_mtus.map_or(sum_mtus, |it| sum_mtus.min(it.of(role).into()));
        match buffer_mtus.checked_sub(taken_mtus).map(u32::try_from) {
            Some(Ok(rest)) if rest > 0 => Ok(rest),
            Some(Err(_)) => {
                let reason = "this buffer exceeds 2^32 packets: use a smaller one".into();
                Err(Malformed::at(buffer, reason))
            }
            _ => Err(Malformed::at(
                buffer,
                format!(
                    "a buffer of {buffer_mtus} MTU ({role}) leaves nothing for queue 0: queues 1 \
                     to 7 use {taken_mtus}"
                ),
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        DEFAULT,
        tests::{assert_one_queue_refused, assert_refused, edited, error_of, limit, replaced},
    };
    use super::*;
    use crate::{PortRole, Profile};
    use std::path::Path;

    #[test]
    fn of__approximate_queues_share_a_limit() {
        let profile = Profile::default();
        let roles = [PortRole::ToHost, PortRole::BetweenSwitches];
        let limits = roles.map(|role| profile.approximate_limit_packets(role));
        assert_eq!(limits, [Some(96), Some(28)]);
        assert_eq!(roles.map(|role| profile.depth_packets(0, role)), [256, 256]);
        assert_eq!(Profile::paper().approximate_limit_packets(PortRole::ToHost), None);
        let (text, line) = replaced(
            DEFAULT,
            "to_hosts = 96, between_switches = 28",
            0,
            "to_hosts = 95, between_switches = 28",
        );
        let error = error_of(&text);
        assert!(error.starts_with(&format!("the switch profile p.toml, line {line}: queues 1 to 7 may hold 95 MTU together (to_hosts)")), "{error}");
        // A limit above the sum of all queues reserves no more than the sum.
        let (text, _) = replaced(
            DEFAULT,
            "to_hosts = 96, between_switches = 28",
            0,
            "to_hosts = 96, between_switches = 4_000_000_000",
        );
        let profile = Profile::parse(&text, Path::new("p.toml")).unwrap();
        assert_eq!(profile.depth_packets(0, PortRole::BetweenSwitches), 256);
    }

    #[test]
    fn of__refuses_settings_that_mean_nothing_for_one_queue() {
        for (key, value) in [("approximate_limit_mtus", "28"), ("exact_burst_bytes", "1_538")] {
            let to = format!("{key} = {value}\nlaw");
            let reason = "means nothing with one queue for all traffic: leave it out";
            assert_one_queue_refused("law", &to, &to, &format!("{key} {reason}"));
        }
        for limit in ["limit_mtus = 256", "limit_bytes = 384_000"] {
            let reason = "the only queue gets all of port_buffer_bytes: leave out its limit";
            assert_one_queue_refused("= 0\n", &format!("= 0\n{limit}\n"), limit, reason);
        }
        let reason = "the only queue takes every DSCP: leave out the list";
        assert_one_queue_refused("= 0\n", "= 0\ndscp = [3]\n", "dscp = [3]", reason);
        assert_one_queue_refused(
            "= 384_000",
            "= { to_hosts = 384_000, between_switches = 1_499 }",
            "port_buffer",
            "1499 bytes hold no packet: use at least 1500",
        );
        for threshold in [0, 257] {
            let text = format!("ecn_threshold_packets = {threshold}");
            let reason =
                format!("an ECN threshold of {threshold} packets is outside the queue's 1 to 256");
            assert_one_queue_refused("= 0\n", &format!("= 0\n{text}\n"), &text, &reason);
        }
    }

    #[test]
    fn of__reads_limits_of_roles_and_in_bytes() {
        let (text, _) = edited(
            "limit_mtus = 7",
            0,
            "limit_bytes = { to_hosts = 144_000, \
            between_switches = 2_999 }",
        );
        let (text, _) =
            replaced(&text, "426_000", 0, "{ to_hosts = 426_000, between_switches = 142_500 }");
        let profile = Profile::parse(&text, Path::new("p.toml")).unwrap();
        assert_eq!(limit(&profile, 1), PerRole { to_hosts: 96, between_switches: 1 });
        assert_eq!(limit(&profile, 0), PerRole { to_hosts: 167, between_switches: 73 });
        assert_eq!(profile.path_depth_packets(1), 1);
    }

    #[test]
    fn of__refuses_limits_that_make_no_sense() {
        assert_refused(
            "limit_mtus = 7",
            0,
            "limit_bytes = 1_499",
            "1499 bytes hold no packet: use at least 1500",
        );
        assert_refused(
            "limit_mtus = 7",
            0,
            "limit_bytes = 1_500\nlimit_mtus = 7",
            "queue 1 has limit_mtus as well: state one of them",
        );
        assert_refused(
            "limit_mtus = 7",
            0,
            "limit_mtus = { to_hosts = 7, between_switches = 0 }",
            "a queue of 0 MTU holds no packet: use at least 1",
        );
        for wrong in
            ["-1", "\"7\"", "{ to_hosts = 7 }", "{ to_host = 7, between_switches = 7 }", "1.5"]
        {
            let (text, line) = edited("limit_mtus = 7", 0, &format!("limit_mtus = {wrong}"));
            let error = error_of(&text);
            assert!(
                error.starts_with(&format!("the switch profile p.toml, line {line}: ")),
                "{error}"
            );
            assert!(error.contains("between_switches"), "{error}");
        }
    }
}
