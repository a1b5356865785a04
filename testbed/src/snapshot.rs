//! The settings of a host's interface that a daemon can change and must restore.

use crate::host::{DEVICE, Host};
use anyhow::{Context, Result, ensure};
use aya::programs::{SchedClassifier, TcAttachType};

/// Qdiscs, classes, filters, link options and programs of a host's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot(String);

impl Snapshot {
    /// Takes the current settings.
    pub fn take(host: &Host) -> Result<Self> {
        let mut text = String::new();
        for line in [
            "tc qdisc show".to_owned(),
            format!("tc class show dev {DEVICE}"),
            format!("tc filter show dev {DEVICE}"),
            format!("tc filter show dev {DEVICE} ingress"),
            format!("tc filter show dev {DEVICE} egress"),
            "ip -d link show".to_owned(),
            "ip address show".to_owned(),
        ] {
            text += &format!("$ {line}\n{}", without_counters(&host.namespace.run(&line)?));
        }
        for (name, hook) in [("ingress", TcAttachType::Ingress), ("egress", TcAttachType::Egress)] {
            text += &format!("TCX at {name}: {}\n", programs(host, hook)?);
        }
        Ok(Self(text))
    }

    /// Fails with the differences, unless the host's settings equal these.
    pub fn expect_same(&self, host: &Host) -> Result<()> {
        let now = Self::take(host)?;
        let gone =
            self.0.lines().filter(|line| !now.0.contains(line)).map(|line| format!("- {line}"));
        let new =
            now.0.lines().filter(|line| !self.0.contains(line)).map(|line| format!("+ {line}"));
        let difference: Vec<_> = gone.chain(new).collect();
        ensure!(*self == now, "the host was not left as found:\n{}", difference.join("\n"));
        Ok(())
    }
}

/// Removes the counter that HTB prints among its options.
fn without_counters(text: &str) -> String {
    let mut after_counter = false;
    let mut kept = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        if !after_counter {
            kept += word;
        }
        after_counter = word.trim_end() == "direct_packets_stat";
    }
    kept
}

/// The TCX programs of the hook, which `tc` doesn't show.
fn programs(host: &Host, hook: TcAttachType) -> Result<String> {
    host.namespace.enter(|| {
        let (_, programs) =
            SchedClassifier::query_tcx(DEVICE, hook).context("asking for TCX programs")?;
        let names: Vec<_> = programs.iter().filter_map(|program| program.name_as_str()).collect();
        Ok(names.join(" "))
    })
}
