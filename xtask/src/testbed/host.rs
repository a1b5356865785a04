//! A host of the testbed: a namespace with one interface, `eth0`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::namespace::{NetNs, sysctl};
use super::switch::{GATEWAY_IPV4, GATEWAY_IPV6};
use super::tools;

pub(super) const INTERFACE: &str = "eth0";

/// One host.
#[derive(Debug)]
pub struct Host {
    pub name: String,
    pub ipv4: Ipv4Addr,
    pub ipv6: Ipv6Addr,
    /// Where its daemon answers, while one runs.
    pub control_socket: Option<PathBuf>,
    number: u16,
    namespace: NetNs,
}

impl Host {
    pub(super) fn new(name: &str, number: usize) -> Result<Host> {
        let number = u16::try_from(number).context("too many hosts")?;
        Ok(Host::inside(NetNs::new()?, name, number))
    }

    fn inside(namespace: NetNs, name: &str, number: u16) -> Host {
        let [high, low] = number.to_be_bytes();
        Host {
            name: name.to_owned(),
            ipv4: Ipv4Addr::new(10, 66, high, low),
            ipv6: Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, number),
            control_socket: None,
            number,
            namespace,
        }
    }

    pub fn namespace(&self) -> &NetNs {
        &self.namespace
    }

    /// A command that will run inside the host. Start it with [`super::Process::spawn`], or it
    /// outlives the testbed.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        self.namespace.enter(&mut command);
        command
    }

    /// The switch's port for this host.
    pub(super) fn port(&self) -> String {
        format!("port{}", self.number)
    }

    /// Its NIC, at the switch's end of the cable.
    pub(super) fn nic(&self) -> String {
        format!("nic{}", self.number)
    }

    /// Where what has passed the NIC comes into the switch.
    pub(super) fn nic_end(&self) -> String {
        format!("nic{}out", self.number)
    }

    pub(super) fn mac(&self) -> String {
        let [high, low] = self.number.to_be_bytes();
        format!("02:a7:90:00:{high:02x}:{low:02x}")
    }

    /// The MAC of the switch's port for this host.
    pub(super) fn port_mac(&self) -> String {
        let [high, low] = self.number.to_be_bytes();
        format!("02:a7:91:00:{high:02x}:{low:02x}")
    }

    /// Addresses and the way to all other hosts, with no lookups while something is measured.
    pub(super) fn configure(&self) -> Result<()> {
        // Connections of one run must not know what those of the last one met.
        self.namespace.run(|| sysctl("net/ipv4/tcp_no_metrics_save", "1"))?;
        let mut lines = vec![
            "link set dev lo up".to_owned(),
            format!("link set dev {INTERFACE} gso_max_segs 1 addrgenmode none up"),
            format!("addr add {}/32 dev {INTERFACE}", self.ipv4),
            format!("addr add {}/128 dev {INTERFACE} nodad", self.ipv6),
        ];
        let port_mac = self.port_mac();
        let ways =
            [("10.66.0.0/16", IpAddr::from(GATEWAY_IPV4)), ("fd66::/64", GATEWAY_IPV6.into())];
        for (network, gateway) in ways {
            lines.push(format!(
                "neigh replace {gateway} lladdr {port_mac} dev {INTERFACE} nud permanent"
            ));
            lines.push(format!("route add {network} via {gateway} dev {INTERFACE} onlink"));
        }
        tools::batch("ip", &self.namespace, &lines)
            .with_context(|| format!("{} can't be configured", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn addresses__differ_and_fit_their_prefix() {
        let namespace = || NetNs::from_descriptor(File::open("/dev/null").unwrap().into());
        let host = |number| Host::inside(namespace(), "", number);
        let (first, far) = (host(1), host(258));
        assert_eq!(first.ipv4, Ipv4Addr::new(10, 66, 0, 1));
        assert_eq!(far.ipv4, Ipv4Addr::new(10, 66, 1, 2));
        assert_eq!(far.ipv6.to_string(), "fd66::102");
        assert_eq!(far.mac(), "02:a7:90:00:01:02");
        assert_eq!((far.port(), far.nic()), ("port258".to_owned(), "nic258".to_owned()));
    }
}
