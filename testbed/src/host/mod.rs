//! A host: a network namespace with one interface.

mod daemon;

pub use daemon::{Daemon, Launch, take_logs};

use crate::{namespace::Namespace, needs, scratch::Scratch, wait::wait_for};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, Permissions},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

/// The name of every host's only interface.
pub const DEVICE: &str = "eth0";

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// A host. Its folder for files is removed with it.
#[derive(Debug)]
pub struct Host {
    /// The host's name, for messages.
    pub name: String,
    /// The host's network.
    pub namespace: Namespace,
    pub ipv4: Ipv4Addr,
    pub ipv6: Ipv6Addr,
    folder: Scratch,
}

impl Host {
    /// Makes a host in a namespace whose interface doesn't exist yet.
    pub(crate) fn new(
        name: &str,
        namespace: Namespace,
        ipv4: Ipv4Addr,
        ipv6: Ipv6Addr,
    ) -> Result<Self> {
        Ok(Self { name: name.to_owned(), namespace, ipv4, ipv6, folder: Scratch::new()? })
    }

    /// The host's address of one family.
    pub const fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => IpAddr::V4(self.ipv4),
            Family::V6 => IpAddr::V6(self.ipv6),
        }
    }

    /// A port of the host.
    pub const fn endpoint(&self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(family), port)
    }

    /// The link-local address of the host's interface. The kernel gives it some time after the
    /// interface is up.
    pub fn link_local(&self) -> Result<Ipv6Addr> {
        let line = format!("ip -6 -o address show dev {DEVICE} scope link");
        let found = wait_for("a link-local address", || {
            let text = self.namespace.run(&line)?;
            Ok(text.split_whitespace().find_map(|word| Some(word.split_once("/64")?.0.to_owned())))
        })?;
        found.parse().context("an odd address")
    }

    /// The host's folder for files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `atp-user` on this host, without inherited settings that would change its behavior.
    pub fn atp(&self) -> Result<Command> {
        let mut command = self.namespace.command(needs::program()?);
        set_environment(&mut command);
        Ok(command)
    }

    /// `atp-user` on this host, run by the user `nobody`, who may then read the host's folder and
    /// run a copy of the program there.
    pub fn atp_of_nobody(&self) -> Result<Command> {
        let copy = self.folder().join("atp-user");
        if !copy.exists() {
            // By another process: a child that another thread starts would hold the copy open for
            // writing, and the kernel runs no such file.
            let made = Command::new("cp").arg(needs::program()?).arg(&copy).status()?;
            ensure!(made.success(), "cp ended with {made}");
        }
        for path in [self.folder(), &copy] {
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        let mut command = self.namespace.command_of_nobody(copy);
        set_environment(&mut command);
        Ok(command)
    }

    /// Starts a daemon on the interface, with the programs named by the environment, and waits
    /// until it answers.
    pub fn daemon(&self, options: &[&str]) -> Result<Daemon> {
        Daemon::start(self, &Launch::from_environment(options)?)
    }

    /// Switches offloads of the interface, for example `tso off gso off`.
    pub fn offload(&self, features: &str) -> Result<()> {
        self.namespace.run(&format!("ethtool -K {DEVICE} {features}")).map(drop)
    }

    /// UDP packets that the host's sockets refused because of their checksum.
    pub fn checksum_errors(&self) -> Result<u64> {
        let v4 = self.namespace.read("/proc/net/snmp")?;
        let v6 = self.namespace.read("/proc/net/snmp6")?;
        Ok(v4_counter(&v4, "Udp:", "InCsumErrors").context("no InCsumErrors in /proc/net/snmp")?
            + v6_counter(&v6, "Udp6InCsumErrors")
                .context("no Udp6InCsumErrors in /proc/net/snmp6")?)
    }

    /// Bytes that the interface has sent, Ethernet headers included.
    pub fn sent_bytes(&self) -> Result<u64> {
        let text = self.namespace.run(&format!("ip -j -s link show dev {DEVICE}"))?;
        let links: serde_json::Value = serde_json::from_str(&text)?;
        links[0]["stats64"]["tx"]["bytes"].as_u64().context("no byte counter")
    }

    /// Local ports of UDP sockets that are connected to `port`.
    pub fn ports_connected_to(&self, port: u16) -> Result<Vec<u16>> {
        let table =
            self.namespace.read("/proc/net/udp")? + &self.namespace.read("/proc/net/udp6")?;
        let port_of = |word: &str| u16::from_str_radix(word.rsplit(':').next()?, 16).ok();
        let row = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let (local, remote) = (port_of(words.next()?)?, port_of(words.next()?)?);
            (remote == port).then_some(local)
        };
        Ok(table.lines().filter_map(row).collect())
    }
}

fn set_environment(command: &mut Command) {
    command.env_remove("ATP_SOCKET").env("RUST_LOG", "info").env("NO_COLOR", "1");
}

/// A value of `/proc/net/snmp`, for example `Udp:`, `InCsumErrors`. Names and values stand in two
/// consecutive lines.
pub fn v4_counter(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let column = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// A value of `/proc/net/snmp6`, which has one line per value.
fn v6_counter(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    value?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v4_counter__finds_its_column() {
        let text = "Tcp: InErrs\nTcp: 9\nUdp: InDatagrams InCsumErrors\nUdp: 7 3\n";
        assert_eq!(v4_counter(text, "Udp:", "InCsumErrors"), Some(3));
        assert_eq!(v4_counter(text, "Udp:", "InErrs"), None);
    }

    #[test]
    fn v6_counter__finds_its_line() {
        let text = "Udp6InDatagrams   \t7\nUdp6InCsumErrors \t3\n";
        assert_eq!(v6_counter(text, "Udp6InCsumErrors"), Some(3));
        assert_eq!(v6_counter(text, "Udp6NoPorts"), None);
    }
}
