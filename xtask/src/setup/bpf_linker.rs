//! Builds bpf-linker, pinned, into the target folder, against the LLVM of the eBPF compiler.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cargo_tool::BPF_LINKER;
use super::ebpf_rust::{self, Toolchain};
use super::machine::{Machine, find_command};
use super::{Need, Provider, paths};

/// The LLVM majors that this bpf-linker can be built for.
const LLVM_MAJORS: std::ops::RangeInclusive<u32> = 21..=23;

/// The linker to use: ours, or one of the same version on the PATH if ours can't be built because
/// LLVM's libraries are missing.
pub fn find(toolchain: &Toolchain) -> Option<PathBuf> {
    let ours = BPF_LINKER.path_in(&folder(toolchain.llvm_major));
    if BPF_LINKER.is_pinned(&ours) {
        return Some(ours);
    }
    if llvm_prefix(toolchain.llvm_major).is_some() || Machine::this().can_apt_install() {
        return None;
    }
    find_command("bpf-linker").filter(|path| BPF_LINKER.is_pinned(path))
}

/// The LLVM that the linker needs. Without a compiler so far, it is the LLVM of Debian's compiler.
fn llvm_major() -> u32 {
    ebpf_rust::find().map_or(22, |toolchain| toolchain.llvm_major)
}

/// The linker's folder, one for each LLVM.
fn folder(llvm_major: u32) -> PathBuf {
    paths().tools.join(format!("llvm-{llvm_major}"))
}

pub(super) struct Llvm;

impl Provider for Llvm {
    fn name(&self) -> String {
        format!("LLVM {}", llvm_major())
    }

    fn requires(&self) -> &'static [Need] {
        &[Need::EbpfRust]
    }

    fn probe(&self) -> Option<String> {
        let toolchain = ebpf_rust::find()?;
        if let Some(prefix) = llvm_prefix(toolchain.llvm_major) {
            return Some(prefix.display().to_string());
        }
        find(&toolchain).map(|_| "not needed: bpf-linker is there".to_owned())
    }

    fn plan(&self) -> String {
        format!("installing {} with apt, 100 MB", self.debian_packages().join(", "))
    }

    fn debian_packages(&self) -> Vec<String> {
        let major = llvm_major();
        vec![format!("llvm-{major}-dev"), format!("libpolly-{major}-dev")]
    }

    fn by_hand(&self) -> String {
        let version = BPF_LINKER.version;
        format!(
            "your package manager for LLVM's development files of the same major version as the \
             eBPF compiler's and set LLVM_PREFIX to them, or put bpf-linker {version} on the PATH: \
             cargo binstall bpf-linker@{version}"
        )
    }
}

pub(super) struct BpfLinker;

impl Provider for BpfLinker {
    fn name(&self) -> String {
        BPF_LINKER.name()
    }

    fn requires(&self) -> &'static [Need] {
        &[Need::EbpfRust, Need::Llvm]
    }

    fn probe(&self) -> Option<String> {
        find(&ebpf_rust::find()?).map(|path| path.display().to_string())
    }

    fn plan(&self) -> String {
        BPF_LINKER.plan()
    }

    fn install(&self) -> Result<()> {
        let toolchain = ebpf_rust::find().context("no Rust for eBPF")?;
        let major = toolchain.llvm_major;
        if !LLVM_MAJORS.contains(&major) {
            bail!(
                "{} can be built for LLVM {} to {}, and the eBPF compiler has LLVM {major}: use \
                 another compiler (Debian's rustc-web, or an older nightly)",
                self.name(),
                LLVM_MAJORS.start(),
                LLVM_MAJORS.end()
            );
        }
        let prefix = llvm_prefix(major).with_context(|| {
            format!("no libraries of LLVM {major}, which {} uses", toolchain.rustc.display())
        })?;
        BPF_LINKER.build(&folder(major), |install| {
            install.arg(format!("--features=llvm-{major}")).env("LLVM_PREFIX", prefix);
        })
    }

    fn by_hand(&self) -> String {
        let (major, arguments) = (llvm_major(), BPF_LINKER.arguments());
        let folder = folder(major);
        format!(
            "LLVM_PREFIX=/usr/lib/llvm-{major} cargo {arguments} --features llvm-{major} --root {}",
            folder.display()
        )
    }
}

/// LLVM's development files of that major version.
fn llvm_prefix(major: u32) -> Option<PathBuf> {
    let asked = std::env::var_os("LLVM_PREFIX").map(PathBuf::from);
    let usual = [format!("/usr/lib/llvm-{major}"), format!("/usr/lib64/llvm{major}")];
    asked
        .into_iter()
        .chain(usual.map(PathBuf::from))
        .find(|prefix| prefix.join("include/llvm-c/Core.h").is_file() && has_polly(prefix))
}

/// Debian builds Polly into its LLVM, in a package of its own: linking fails without it.
fn has_polly(prefix: &Path) -> bool {
    !prefix.starts_with("/usr/lib/llvm-") || prefix.join("lib/libPolly.a").is_file()
}
