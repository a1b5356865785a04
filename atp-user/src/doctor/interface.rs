//! Checks one network interface: its link, its driver and its offloads.

use super::outcome::{Finding, Group};
use atp_datapath::{
    device,
    interface::{EthernetInterface, reported_speed_mbit_per_s},
    netlink_query::Query,
};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage, LinkXdp},
};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::{collections::BTreeMap, io};

const GROUP: Group = Group::Interface;
/// The narrowest path that ATP uses.
const MTU_BYTES_MIN: u32 = 576;
/// A longer delay of interrupts is a large part of a round trip inside of a data center.
const INTERRUPT_DELAY_US_MAX: u32 = 100;
/// A link as the kernel reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The link's name.
    pub name: String,
    /// The link's index.
    pub index: u32,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it carries Ethernet frames to other hosts.
    pub is_ethernet: bool,
    /// The length of the longest IP packet.
    pub mtu_bytes: u32,
    /// The id of an attached XDP program.
    pub xdp_program: Option<u32>,
}

/// All links of this network namespace.
pub fn links() -> io::Result<Vec<Link>> {
    let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let answers = Query::open(NETLINK_ROUTE)?.all(question)?;
    let link = |answer| match answer {
        RouteNetlinkMessage::NewLink(link) => Some(parse(link)),
        _ => None,
    };
    Ok(answers.into_iter().filter_map(link).collect())
}

fn parse(message: LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        is_up: message.header.flags.contains(LinkFlags::Up),
        is_ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        ..Link::default()
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Mtu(bytes) => link.mtu_bytes = bytes,
            LinkAttribute::Xdp(xdp) => {
                link.xdp_program = xdp.iter().find_map(|attribute| match attribute {
                    LinkXdp::ProgId(id) if *id != 0 => Some(*id),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    link
}

/// The checks of a link, without those of its qdiscs and programs. `profile_mtu_bytes` is the
/// packet length of the switches' queue profile.
pub fn findings(link: &Link, profile_mtu_bytes: u32) -> Vec<Finding> {
    let known = match EthernetInterface::inspect(&link.name) {
        Ok(known) => known,
        Err(error) => {
            let advice = "attach the daemon to an Ethernet interface";
            return vec![GROUP.missing("link", error.to_string(), advice).on(&link.name)];
        }
    };
    let driver = known.driver.as_deref();
    let offloads = device::offloads(&link.name);
    let mut findings = vec![
        state(link, driver),
        speed(reported_speed_mbit_per_s(&link.name)),
        mtu(link.mtu_bytes, profile_mtu_bytes),
        native_xdp(device::has_native_xdp(link.index), driver),
    ];
    findings.extend(offload_findings(&link.name, &offloads));
    findings.push(interrupts(&link.name, device::receive_interrupt_delay_us(&link.name)));
    findings.into_iter().map(|finding| finding.on(&link.name)).collect()
}

fn state(link: &Link, driver: Option<&str>) -> Finding {
    let driver = driver.unwrap_or("unknown");
    if link.is_up {
        return GROUP.fine("link", format!("up, Ethernet, driver {driver}"));
    }
    let advice = format!("run `ip link set {} up`", link.name);
    GROUP.degraded("link", format!("driver {driver}"), "it is down and carries no packet", advice)
}

fn speed(reported: Option<u32>) -> Finding {
    match reported {
        Some(megabits) => GROUP.fine("speed", format!("{megabits} Mbit/s")),
        None => GROUP.degraded(
            "speed",
            "the driver reports none",
            "the daemon assumes 10 Gbit/s as the highest rate of a lane",
            "start the daemon with --rate-max",
        ),
    }
}

fn mtu(bytes: u32, profile_bytes: u32) -> Finding {
    let observed = format!("{bytes} bytes");
    if bytes < MTU_BYTES_MIN {
        return GROUP.missing("MTU", observed, format!("raise it to {MTU_BYTES_MIN} or more"));
    }
    if bytes > profile_bytes {
        return GROUP.degraded(
            "MTU",
            observed,
            format!("the queue profile counts packets of {profile_bytes} bytes, so its queues hold fewer of these"),
            "give the profile this MTU (mtu_bytes), and the switches the same limits",
        );
    }
    GROUP.fine("MTU", observed)
}

fn native_xdp(reported: Option<bool>, driver: Option<&str>) -> Finding {
    let check = "XDP in the driver";
    let name = driver.unwrap_or("unknown");
    if driver == Some("veth") {
        return GROUP.fine(check, "not used on veth: tc ingress is as fast there");
    }
    match reported {
        None => GROUP.not_checked(check, format!("the kernel doesn't say ({name})")),
        Some(true) => GROUP.fine(check, format!("the driver reports it ({name})")),
        Some(false) => GROUP.degraded(
            check,
            format!("the driver reports none ({name})"),
            "tc ingress consumes ACKs, later and at a higher cost",
            "nothing, or use a network card whose driver has XDP",
        ),
    }
}

fn offload_findings(interface: &str, offloads: &BTreeMap<String, bool>) -> Vec<Finding> {
    if offloads.is_empty() {
        return vec![GROUP.not_checked("offloads", "the kernel doesn't report them")];
    }
    let is_on = |name: &str| offloads.get(name).copied().unwrap_or(false);
    let switch = |name: &str, to: &str| format!("run `ethtool -K {interface} {name} {to}`");
    let harmful = [
        (
            "rx-lro",
            "the card merges packets before the programs see them, and the driver may refuse XDP",
        ),
        ("rx-gro-hw", "the driver may refuse XDP"),
        ("rx-gro-list", "the kernel merges ACKs before tc ingress can count each"),
    ];
    let mut findings = Vec::new();
    for (name, how) in harmful {
        findings.push(match is_on(name) {
            true => GROUP.degraded(format!("offload {name}"), "on", how, switch(name, "off")),
            false => GROUP.fine(format!("offload {name}"), "off"),
        });
    }
    let useful = [
        ("rx-gro", "a receiver gets packets one by one"),
        ("tx-generic-segmentation", "a burst leaves as single packets"),
        ("tx-udp-segmentation", "the kernel splits the packets of a burst, not the card"),
    ];
    for (name, how) in useful {
        findings.push(match is_on(name) {
            true => GROUP.fine(format!("offload {name}"), "on"),
            false => GROUP.degraded(
                format!("offload {name}"),
                "off",
                how,
                switch(name, "on") + " if the driver has this offload",
            ),
        });
    }
    findings
}

fn interrupts(interface: &str, delay_us: Option<u32>) -> Finding {
    let check = "interrupt delay";
    match delay_us {
        None => GROUP.fine(check, "the driver has no such setting"),
        Some(us) if us > INTERRUPT_DELAY_US_MAX => GROUP.degraded(
            check,
            format!("{us} us"),
            "it lengthens every round trip",
            format!("run `ethtool -C {interface} rx-usecs 20`"),
        ),
        Some(us) => GROUP.fine(check, format!("{us} us")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_route::link::XdpAttached;

    #[test]
    fn parse__the_link_of_a_dump() {
        let mut message = LinkMessage::default();
        message.header.index = 3;
        message.header.flags = LinkFlags::Up | LinkFlags::Running;
        message.header.link_layer_type = LinkLayerType::Ether;
        message.attributes = vec![
            LinkAttribute::IfName("eth7".into()),
            LinkAttribute::Mtu(9_000),
            LinkAttribute::Xdp(vec![LinkXdp::Attached(XdpAttached::Driver), LinkXdp::ProgId(12)]),
        ];
        let expected = Link {
            name: "eth7".into(),
            index: 3,
            is_up: true,
            is_ethernet: true,
            mtu_bytes: 9_000,
            xdp_program: Some(12),
        };
        assert_eq!(parse(message), expected);
        assert_eq!(parse(LinkMessage::default()), Link::default());
    }

    #[test]
    fn links__has_the_loopback() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert!(lo.index == 1 && !lo.is_ethernet);
    }

    #[test]
    fn mtu__against_the_profile() {
        assert_eq!(mtu(1_500, 1_500).outcome.word(), "fine");
        assert_eq!(mtu(9_000, 1_500).outcome.word(), "degraded");
        assert!(mtu(575, 1_500).is_missing());
    }

    #[test]
    fn native_xdp__trusts_the_driver_before_the_list() {
        assert_eq!(native_xdp(Some(false), Some("mlx5_core")).outcome.word(), "degraded");
        assert_eq!(native_xdp(None, Some("mlx5_core")).outcome.word(), "not checked");
        assert_eq!(native_xdp(Some(true), Some("new")).outcome.word(), "fine");
    }

    #[test]
    fn offload_findings__harmful_and_useful_ones() {
        let offloads = ["rx-lro", "rx-gro", "tx-generic-segmentation"]
            .map(|name| (name.to_owned(), true))
            .into_iter()
            .chain([("rx-gro-list".to_owned(), false)])
            .collect();
        let findings = offload_findings("eth0", &offloads);
        let word = |check: &str| {
            let found = findings.iter().find(|finding| finding.check.ends_with(check));
            found.map(|finding| finding.outcome.word())
        };
        assert_eq!(word("rx-lro"), Some("degraded"));
        assert_eq!(word("rx-gro-list"), Some("fine"));
        assert_eq!(word("rx-gro"), Some("fine"));
        assert_eq!(word("tx-udp-segmentation"), Some("degraded"));
        assert_eq!(findings[0].advice(), Some("run `ethtool -K eth0 rx-lro off`"));
    }
}
