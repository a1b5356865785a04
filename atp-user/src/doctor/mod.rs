//! Checks whether this host, and the path to a peer, have what ATP needs.
//!
//! Each check is a function that returns a [`Finding`]. Checks that the daemon makes too call the
//! daemon's code.

mod conflicts;
mod host;
mod interface;
mod kernel;
mod outcome;
pub mod path;
mod route;

pub use outcome::{Finding, Group, Outcome, text, to_json};

use anyhow::{Context, Result};
use approxlib::{Interface, ScopedIp};
use atp_datapath::has_daemon;
use interface::Link;
use route::{Route, route_to};
use std::{io, path::PathBuf};
use switch_profiles::Profile;

/// The scope of the checks on this host.
pub struct LocalOptions {
    /// The interfaces, by name or alternative name; empty for every Ethernet interface that is up.
    pub interfaces: Vec<String>,
    /// Addresses whose route the interfaces should cover.
    pub addresses: Vec<ScopedIp>,
    /// The eBPF object; by default the embedded one.
    pub object: Option<PathBuf>,
}

/// Checks the kernel, the host, its interfaces, and the routes to addresses.
pub fn local(options: &LocalOptions, profile: &Profile) -> Result<Vec<Finding>> {
    let links = interface::links().context("can't list the interfaces of this host")?;
    let named = Named::look_up(&options.interfaces).context("can't look up an interface")?;
    let checked = chosen(&links, &named.found);
    let mtu_bytes = checked.iter().map(|link| link.mtu_bytes).max();
    let mut findings = kernel::findings(options.object.as_deref());
    findings.extend(host::findings(mtu_bytes));
    for name in &named.missing {
        let advice = "`ip link` lists the interfaces of this host";
        findings.push(Group::Interface.missing("link", "no such interface", advice).on(name));
    }
    if checked.is_empty() && options.interfaces.is_empty() {
        let advice = "name the interface with --iface, or bring it up";
        findings.push(Group::Interface.missing("link", "no Ethernet interface is up", advice));
    }
    for link in checked {
        findings.extend(interface::findings(link, profile.mtu_bytes()));
        findings.extend(conflicts::findings(link));
    }
    for address in &options.addresses {
        findings.extend(route_findings(*address, &named.all(), &links));
    }
    Ok(findings)
}

/// The interfaces that the options name.
struct Named {
    /// The own names of those that exist.
    found: Vec<String>,
    missing: Vec<String>,
}

impl Named {
    fn look_up(given: &[String]) -> io::Result<Self> {
        let mut named = Self { found: Vec::new(), missing: Vec::new() };
        for name in given {
            match Interface::named(name)? {
                Some(interface) if named.found.contains(&interface.name) => {}
                Some(interface) => named.found.push(interface.name),
                None => named.missing.push(name.clone()),
            }
        }
        Ok(named)
    }

    fn all(&self) -> Vec<String> {
        [&self.found[..], &self.missing].concat()
    }
}

/// The named links, or all that carry Ethernet and are up.
fn chosen<'a>(links: &'a [Link], names: &[String]) -> Vec<&'a Link> {
    let is_chosen = |link: &&Link| match names {
        [] => link.is_ethernet && link.is_up,
        names => names.contains(&link.name),
    };
    links.iter().filter(is_chosen).collect()
}

/// Checks the route to an address: a daemon must be attached to its interface, and the path MTU
/// must be the interface's.
fn route_findings(address: ScopedIp, interfaces: &[String], links: &[Link]) -> Vec<Finding> {
    match route_to(address) {
        Err(error) => {
            let observed = format!("to {address}: {error}");
            vec![Group::Route.missing("coverage", observed, "check address and routes")]
        }
        Ok(route) => {
            let link = links.iter().find(|link| link.index == route.ifindex);
            let daemons = route.carriers.iter().map(|carrier| has_daemon(carrier));
            let daemon = daemons.reduce(|one, other| Ok(one? || other?)).and_then(Result::ok);
            vec![
                coverage(address, &route, interfaces, daemon),
                path_mtu(address, &route, link.map(|link| link.mtu_bytes)),
            ]
        }
    }
}

/// `daemon` is `None` if this process may not ask.
fn coverage(
    address: ScopedIp,
    route: &Route,
    interfaces: &[String],
    daemon: Option<bool>,
) -> Finding {
    let (check, interface) = ("coverage", &route.interface);
    let source = route.source.map(|source| format!(" from {source}")).unwrap_or_default();
    let observed = format!("packets to {address} leave through {interface}{source}");
    let is_named = route.carriers.iter().any(|carrier| interfaces.contains(carrier));
    match daemon {
        Some(true) => Group::Route.fine(check, observed + ", where a daemon's programs are"),
        _ if !interfaces.is_empty() && !is_named => Group::Route.missing(
            check,
            format!("{observed}, which is none of {}", interfaces.join(", ")),
            format!("run the daemon with --iface {interface} too, or change the route"),
        ),
        None => Group::Route.not_checked(check, format!("{observed}; run as root to see programs")),
        Some(false) if is_named => {
            Group::Route.fine(check, observed + ", where no daemon runs yet")
        }
        Some(false) => Group::Route.degraded(
            check,
            observed,
            "no daemon's programs are there: jobs to this address run in userspace",
            format!("run the daemon with --iface {interface}"),
        ),
    }
}

fn path_mtu(address: ScopedIp, route: &Route, link_bytes: Option<u32>) -> Finding {
    let check = "path MTU";
    let interface = &route.interface;
    match (route.path_mtu_bytes, link_bytes) {
        (Some(path), Some(link)) if path < link => Group::Route.degraded(
            check,
            format!("{path} bytes to {address}, {link} bytes on {interface}"),
            "a narrower link is on the path: the first packets to it are lost",
            format!("give {interface} the MTU of the path, or the path that of {interface}"),
        ),
        (Some(path), _) => Group::Route.fine(check, format!("{path} bytes to {address}")),
        (None, Some(link)) => Group::Route
            .fine(check, format!("{link} bytes, that of {interface}; no smaller one is known")),
        (None, None) => Group::Route.not_checked(check, format!("{interface} has no known MTU")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path_mtu_bytes: Option<u32>) -> Route {
        let carriers = vec!["eth1.5".into(), "eth1".into()];
        Route { ifindex: 2, interface: "eth1.5".into(), carriers, source: None, path_mtu_bytes }
    }

    #[test]
    fn coverage__of_every_case() {
        let address = "10.0.0.2".parse().unwrap();
        let word = |interfaces: &[&str], daemon| {
            let interfaces: Vec<String> = interfaces.iter().map(|&name| name.into()).collect();
            coverage(address, &route(None), &interfaces, daemon).outcome.word()
        };
        assert_eq!(word(&["eth0"], Some(true)), "fine");
        assert_eq!(word(&["eth1"], Some(false)), "fine");
        assert_eq!(word(&["eth0"], Some(false)), "missing");
        assert_eq!(word(&["eth0"], None), "missing");
        assert_eq!(word(&[], Some(false)), "degraded");
        assert_eq!(word(&[], None), "not checked");
    }

    #[test]
    fn path_mtu__a_narrower_path() {
        let address = "10.0.0.2".parse().unwrap();
        let word = |path, link| path_mtu(address, &route(path), link).outcome.word();
        assert_eq!(word(Some(1_400), Some(9_000)), "degraded");
        assert_eq!(word(Some(1_500), Some(1_500)), "fine");
        assert_eq!(word(None, Some(1_500)), "fine");
        assert_eq!(word(None, None), "not checked");
    }

    #[test]
    fn chosen__ethernet_that_is_up_by_default() {
        let link = |name: &str, is_up, is_ethernet| Link {
            name: name.into(),
            is_up,
            is_ethernet,
            ..Link::default()
        };
        let links = [link("lo", true, false), link("eth0", true, true), link("eth1", false, true)];
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.into()).collect();
            chosen(&links, &wanted).into_iter().map(|link| link.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["eth0"]);
        assert_eq!(names(&["eth1", "lo"]), ["lo", "eth1"]);
    }
}
