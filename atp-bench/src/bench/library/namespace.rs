//! Two network namespaces with one veth pair between them. They have no names, so even a benchmark
//! that is killed leaves none behind.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use anyhow::Result;

use testbed::Namespace;

/// One end of the link.
#[derive(Debug)]
pub struct End {
    namespace: Namespace,
    /// The interface in it.
    pub interface: &'static str,
    /// Its address.
    pub address: IpAddr,
}

impl End {
    fn new(interface: &'static str, address: Ipv4Addr) -> Result<Self> {
        Ok(Self { namespace: Namespace::new()?, interface, address: address.into() })
    }

    /// A program that will run inside.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Runs `work` on a thread inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.namespace.enter(work)
    }

    fn ip(&self, words: &str) -> Result<()> {
        self.run("ip", words)
    }

    /// Has what was made as one packet of many cut up at this end's port, as a network card without
    /// offloads would.
    pub fn cut_superpackets(&self) -> Result<()> {
        self.run("ethtool", &format!("-K {} tx-udp-segmentation off tso off", self.interface))
    }

    /// Has this end merge what comes in packets, as network cards' drivers do. A veth does that only if
    /// its peer cuts.
    pub fn merge_packets(&self) -> Result<()> {
        self.run("ethtool", &format!("-K {} gro on", self.interface))
    }

    fn run(&self, command: &str, words: &str) -> Result<()> {
        self.namespace.run(&format!("{command} {words}")).map(drop)
    }

    fn bring_up(&self) -> Result<()> {
        self.ip(&format!("addr add {}/24 dev {}", self.address, self.interface))?;
        self.ip(&format!("link set {} up", self.interface))
    }
}

/// Both ends.
#[derive(Debug)]
pub struct Pair {
    pub sender: End,
    pub receiver: End,
}

impl Pair {
    /// Makes both namespaces and the link.
    pub fn new() -> Result<Self> {
        let sender = End::new("atp-bench-a", Ipv4Addr::new(10, 167, 0, 1))?;
        let receiver = End::new("atp-bench-b", Ipv4Addr::new(10, 167, 0, 2))?;
        let (a, b) = (sender.interface, receiver.interface);
        let other = receiver.namespace.path();
        sender.ip(&format!("link add {a} type veth peer name {b} netns {other}"))?;
        sender.bring_up()?;
        receiver.bring_up()?;
        Ok(Self { sender, receiver })
    }
}
