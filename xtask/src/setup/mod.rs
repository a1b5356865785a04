//! Finds and installs the tools that the other commands need. For a tool that it can't install, it
//! prints the command that a person can run instead.
//!
//! Every command calls [`ensure`] with its needs. A tool that is there already isn't installed
//! again. Debian packages go into the system, and all other tools into the target folder.

mod bpf_linker;
mod cargo_tool;
mod dataset;
pub mod ebpf_rust;
mod engine_jars;
mod jdk;
mod kernel;
mod machine;
mod packages;
mod paths;
mod pypi;
mod python;
mod shell;
mod torch;

use std::fmt::{self, Debug, Formatter};
use std::fs::File;

use anyhow::{Context, Result, anyhow, bail};

pub use bpf_linker::{BpfLinker, find as bpf_linker};
pub use cargo_tool::{CARGO_C, CARGO_DEB, CARGO_DENY, MDBOOK};
pub use dataset::Dataset;
use ebpf_rust::EbpfRust;
pub use engine_jars::{FLINK_JARS, KAFKA_JARS};
pub use jdk::{Jdk, java_home, maven, maven_at, reaches_maven_central};
use kernel::VmKernel;
pub use machine::{Machine, find_command};
pub use packages::{CLEAN_DEBIAN, ETHTOOL, IPERF3, IPROUTE2, LIBRDKAFKA, QEMU, TSHARK};
pub use paths::paths;
pub use pypi::{PYFLINK, TORCH_PYPI};
pub use python::{ENVIRONMENT, MATURIN, NS3, SAMPLICS, TWINE, VIRTME_NG, ZIG, ZIGBUILD, python};
pub use shell::{cargo, cargo_at, metadata, output, version};
pub use torch::{TORCH_PYTHON, Torch};

#[derive(clap::Args)]
pub struct Args {
    /// Leave out QEMU, the Debian kernel and virtme-ng, which only `test` needs
    #[arg(long)]
    without_vm: bool,
    /// Leave out the eBPF toolchain, which only root needs
    #[arg(long)]
    without_ebpf: bool,
    /// Only what librdkafka's build needs, which only the Kafka bridge has
    #[arg(long, conflicts_with_all = ["without_vm", "without_ebpf"])]
    librdkafka: bool,
}

/// One thing that a command needs. Its provider's file describes it.
pub type Need = &'static dyn Provider;

/// Building the eBPF programs.
pub const BUILD: &[Need] = &[&EbpfRust, &BpfLinker];
/// The dissector's test, and those of answers. They are skipped where these can't be installed.
pub const TEST_UNIT: &[Need] = &[&TSHARK, &Dataset, &SAMPLICS];
/// The tests on the machine's own kernel.
pub const TEST_KERNEL: &[Need] = &[&IPROUTE2, &ETHTOOL, &EbpfRust, &BpfLinker];
/// The tests in a virtual machine.
pub const TEST_VM: &[Need] = &[&QEMU, &VmKernel, &VIRTME_NG];
/// Finds and installs one kind of need. Each kind has its own file.
pub trait Provider: Sync {
    /// The need's name in messages.
    fn name(&self) -> String;

    /// Needs that come first.
    fn requires(&self) -> &'static [Need] {
        &[]
    }

    /// The version or path that is there, or `None` if it has to be installed.
    fn probe(&self) -> Option<String>;

    /// The Debian packages that suffice, if there are any: a person then gets one command for all
    /// missing packages.
    fn debian_packages(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether [`Provider::install`] can work on this machine, once the requirements are there.
    fn can_install(&self) -> bool {
        self.debian_packages().is_empty() || Machine::this().can_apt_install()
    }

    /// The line that announces [`Provider::install`].
    fn plan(&self) -> String {
        format!("installing {} with apt", self.debian_packages().join(", "))
    }

    fn install(&self) -> Result<()> {
        let install = Machine::this().apt_install(&self.debian_packages());
        install.with_context(|| format!("instead of the packages: {}", self.by_hand()))
    }

    /// The command for a person if neither this program nor apt can install it.
    fn by_hand(&self) -> String;
}

impl PartialEq for dyn Provider {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Debug for dyn Provider {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Args {
    fn needs(&self) -> Vec<Need> {
        let mut needs: Vec<Need> = vec![&IPROUTE2, &Dataset, &LIBRDKAFKA];
        if !self.without_ebpf {
            needs.extend_from_slice(TEST_KERNEL);
            needs.push(&IPERF3);
        }
        needs.extend_from_slice(TEST_UNIT);
        if !self.without_vm {
            needs.extend_from_slice(TEST_VM);
        }
        needs
    }
}

pub fn main(args: Args) -> Result<()> {
    let needs = if args.librdkafka { vec![&LIBRDKAFKA as Need] } else { args.needs() };
    ensure(&needs)?;
    for provider in in_order(&needs) {
        if let Some(found) = provider.probe() {
            atp_output::note!("{:<24} {found}", provider.name());
        }
    }
    Ok(())
}

/// Installs the missing ones among `needs`, and announces each.
///
/// # Errors
/// A need is missing and can't be installed here: the error comes before any installation, and
/// names the command that a person can run. Or an installation failed: the error holds the end of
/// its output.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let missing = missing(needs);
    if missing.is_empty() {
        return Ok(());
    }
    can_install(missing).map_err(|why| anyhow!(why))?;
    let _lock = lock()?;
    in_order(needs).into_iter().try_for_each(make_sure)
}

/// Says what [`ensure`] would install, before minutes of building.
pub fn announce(needs: &[Need]) {
    for provider in missing(needs) {
        atp_output::note!("needed: {}", provider.plan());
    }
}

/// Whether every one of `needs` is there or can be installed by [`ensure`], for a command that has
/// an alternative. The error names the missing ones and what to do.
pub fn obtainable(needs: &[Need]) -> Result<(), String> {
    can_install(missing(needs))
}

fn can_install(mut missing: Vec<Need>) -> Result<(), String> {
    missing.retain(|provider| !provider.can_install());
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = missing.iter().map(|provider| provider.name()).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    Err(format!(
        "{} {are} missing and can't be installed here ({}); run: {}",
        names.join(", "),
        Machine::this().why_no_install(),
        by_hand(&missing)
    ))
}

fn make_sure(provider: Need) -> Result<()> {
    if provider.probe().is_some() {
        return Ok(());
    }
    atp_output::note!("setup: {}", provider.plan());
    // The program's own message first, then the line that says what to do.
    let by_hand = || by_hand(&[provider]);
    let name = provider.name();
    provider
        .install()
        .map_err(|error| anyhow!("{error:#}\n{name} could not be installed; run: {}", by_hand()))?;
    match provider.probe() {
        Some(found) => atp_output::note!("setup: {name}: {found}"),
        None => bail!("{name} was installed but still can't be found; run: {}", by_hand()),
    }
    Ok(())
}

/// One apt command for all Debian packages, then the other commands.
fn by_hand(missing: &[Need]) -> String {
    let machine = Machine::this();
    let mut packages = Vec::new();
    let mut others = Vec::new();
    for provider in missing {
        let debian = provider.debian_packages();
        if machine.has_apt() && !debian.is_empty() {
            packages.extend(debian);
        } else {
            others.push(provider.by_hand());
        }
    }
    if !packages.is_empty() {
        others.insert(0, machine.apt_by_hand(&packages));
    }
    others.join("; ")
}

/// The needs, with their requirements, that this machine lacks.
fn missing(needs: &[Need]) -> Vec<Need> {
    in_order(needs).into_iter().filter(|need| need.probe().is_none()).collect()
}

/// `needs` and their requirements, each once, requirements first.
fn in_order(needs: &[Need]) -> Vec<Need> {
    let mut ordered = Vec::new();
    for &need in needs {
        let requirements = in_order(need.requires());
        for need in requirements.into_iter().chain([need]) {
            if !ordered.contains(&need) {
                ordered.push(need);
            }
        }
    }
    ordered
}

/// Prevents two commands from installing into the same folder at once.
fn lock() -> Result<File> {
    let path = paths().target.join(".setup.lock");
    std::fs::create_dir_all(&paths().target)?;
    let file = File::create(&path).with_context(|| format!("can't make {}", path.display()))?;
    file.lock().with_context(|| format!("can't lock {}", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_requirements_come_first_and_once() {
        let ordered = in_order(&[&VIRTME_NG, &BpfLinker, &ENVIRONMENT]);
        let place = |need: Need| ordered.iter().position(|&n| n == need).unwrap();
        assert!(place(&ENVIRONMENT) < place(&VIRTME_NG));
        assert!(place(&EbpfRust) < place(&BpfLinker));
        assert_eq!(ordered.iter().filter(|&&n| n == &ENVIRONMENT as Need).count(), 1);
    }
}
