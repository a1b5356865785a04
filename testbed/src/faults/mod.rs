//! Network faults: their description, and two injectors. Netem serves where the kernel has it. The
//! project's eBPF program (`tests/ebpf-faults`) serves elsewhere, and for faults that netem lacks.

mod delay_line;
mod injector;
#[path = "../../../tests/ebpf-faults/src/layout.rs"]
mod layout;
mod netem;

use crate::{namespace::Namespace, needs::qdisc_exists, networks::Star};
use anyhow::{Context, Result};
use std::{collections::BTreeMap, time::Duration};

pub use delay_line::DelayLine;
use injector::Injector;

/// The faults of the UDP packets that leave a port of the router. Shares are 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trouble {
    /// The share of packets lost.
    pub loss: f64,
    /// Average length of a burst of losses, packets; 0 for independent losses.
    pub burst: f64,
    /// The share of packets duplicated.
    pub duplicate: f64,
    /// The share of packets with a flipped bit.
    pub corrupt: f64,
    /// The share of packets delayed by `delay`; 0 means all of them if `delay` is set.
    pub detour: f64,
    /// The minimum and the maximum delay.
    pub delay: (Duration, Duration),
    /// IP packets longer than this, in bytes, are lost; 0 for no limit.
    pub longest: u32,
    /// The DSCP that becomes 0; 0 for none.
    pub cleared_dscp: u8,
}

impl Trouble {
    /// Loses a share `loss` of the packets.
    pub fn loss(loss: f64) -> Self {
        Self { loss, ..Self::default() }
    }

    /// Delays all packets by `least` to `most` milliseconds.
    pub fn delay_ms(least: u64, most: u64) -> Self {
        Self {
            delay: (Duration::from_millis(least), Duration::from_millis(most)),
            ..Self::default()
        }
    }

    /// The share of packets delayed.
    fn detoured(&self) -> f64 {
        if self.detour == 0.0 && !self.delay.1.is_zero() { 1.0 } else { self.detour }
    }

    /// The faults in words, for the table.
    pub fn describe(&self) -> String {
        let percent = |share: f64, what: &str| {
            (share > 0.0).then(|| format!("{what} {:.0} %", share * 100.0))
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (least, most) = (ms(self.delay.0), ms(self.delay.1));
        let mut words: Vec<String> = [
            percent(self.loss, "loss"),
            (self.burst > 0.0).then(|| format!("in bursts of {:.0}", self.burst)),
            percent(self.duplicate, "duplicated"),
            percent(self.corrupt, "a bit flipped in"),
        ]
        .into_iter()
        .flatten()
        .collect();
        match self.detoured() {
            0.0 => {}
            1.0 => words.push(format!("delay {least:.0} to {most:.0} ms")),
            share => {
                words.push(format!("{:.0} % held back {least:.0} to {most:.0} ms", share * 100.0))
            }
        }
        if self.longest > 0 {
            words.push(format!("nothing above {} bytes", self.longest));
        }
        if self.cleared_dscp > 0 {
            words.push(format!("DSCP {} cleared", self.cleared_dscp));
        }
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

/// A [`Star`] for faults. The hosts segment packets and compute checksums, as a NIC would, so the
/// router sees the packets of a real wire.
pub fn wired_star(hosts: u8) -> Result<Star> {
    let star = Star::new(hosts)?;
    for host in &star.hosts {
        host.offload("tx off tso off gso off gro off")?;
        keep_neighbors(&host.namespace)?;
    }
    keep_neighbors(&star.router)?;
    Ok(star)
}

/// Faults between hosts 0 and 1. Dropping this value ends those of the eBPF program, not netem's.
#[derive(Debug)]
pub struct Injection<'a> {
    router: &'a Namespace,
    /// One injector per port; empty with netem.
    injectors: Vec<Injector>,
}

/// The router's ports to hosts 0 and 1.
const PORTS: [&str; 2] = ["port0", "port1"];

impl<'a> Injection<'a> {
    /// Starts the faults of the packets to host 0 and to host 1.
    pub fn start(router: &'a Namespace, to_0: &Trouble, to_1: &Trouble) -> Result<Self> {
        let mut injection = Self { router, injectors: Vec::new() };
        let needs_program = [to_0, to_1].iter().any(|to| to.longest > 0 || to.cleared_dscp > 0);
        let by_netem = !needs_program && qdisc_exists("netem")?;
        for (port, trouble) in PORTS.into_iter().zip([to_0, to_1]) {
            if by_netem {
                netem::apply(router, port, trouble)?;
            } else {
                injection.injectors.push(Injector::attach(router, port, trouble)?);
            }
        }
        Ok(injection)
    }

    /// The injector in use.
    pub fn injector(&self) -> &'static str {
        if self.injectors.is_empty() { "netem" } else { "eBPF" }
    }

    /// The injector's counters, summed over both directions.
    pub fn counts(&self) -> Result<BTreeMap<String, u64>> {
        let mut counts = Vec::new();
        for injector in &self.injectors {
            counts.extend(injector.counts()?);
        }
        if self.injectors.is_empty() {
            for port in PORTS {
                counts.extend(netem::counts(self.router, port)?);
            }
        }
        let mut sum = BTreeMap::new();
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            *sum.entry(name.to_owned()).or_default() += count;
        }
        Ok(sum)
    }
}

/// Makes the neighbors found by ARP and neighbor discovery permanent. Netem would drop those
/// protocols' packets too, and they are not under test.
fn keep_neighbors(namespace: &Namespace) -> Result<()> {
    let neighbors: serde_json::Value =
        serde_json::from_str(&namespace.run("ip -j neighbour show")?)?;
    for neighbor in neighbors.as_array().context("no list of neighbors")? {
        let word = |name: &str| neighbor[name].as_str();
        if let (Some(to), Some(at), Some(device)) = (word("dst"), word("lladdr"), word("dev")) {
            namespace.run(&format!(
                "ip neighbour replace {to} lladdr {at} dev {device} nud permanent"
            ))?;
        }
    }
    Ok(())
}
