//! Finds a Rust compiler for `bpfel-unknown-none`, a target that rustup's stable toolchain lacks.
//!
//! There are two. Debian's `rustc-web` has a precompiled `core` for that target, and doesn't
//! conflict with rustup. A rustup nightly with `rust-src` compiles `core` itself. The first one
//! found is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::find_command;
use super::{Provider, shell};

const PACKAGES: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];
const TARGET: &str = "bpfel-unknown-none";
/// The workspace's `rust-version`: (major, minor).
const VERSION_MIN: (u32, u32) = (1, 95);

/// A compiler for eBPF.
#[derive(Clone, Debug)]
pub struct Toolchain {
    pub rustc: PathBuf,
    /// As in `1.96.0`.
    pub version: String,
    /// The compiler's LLVM, which the linker's must match.
    pub llvm_major: u32,
    pub core: Core,
}

/// Where the target's `core` comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Core {
    /// An rlib beside the compiler.
    Precompiled,
    /// Compiled from `rust-src` by that toolchain's own cargo.
    BuildStd { cargo: PathBuf },
}

impl Toolchain {
    pub fn describe(&self) -> String {
        let core = match self.core {
            Core::Precompiled => "precompiled core",
            Core::BuildStd { .. } => "core built from rust-src",
        };
        let (version, llvm) = (&self.version, self.llvm_major);
        format!("{} {version}, LLVM {llvm}, {core}", self.rustc.display())
    }
}

/// The compiler to use, if the machine has one.
pub fn find() -> Option<Toolchain> {
    precompiled(Path::new("/usr/bin/rustc")).or_else(|| nightlies().into_iter().find_map(build_std))
}

pub(super) struct EbpfRust;

impl Provider for EbpfRust {
    fn name(&self) -> String {
        "Rust for eBPF".to_owned()
    }

    fn probe(&self) -> Option<String> {
        find().map(|toolchain| toolchain.describe())
    }

    fn plan(&self) -> String {
        format!("installing {} with apt: Rust's core for eBPF, 60 MB", PACKAGES.join(", "))
    }

    fn debian_packages(&self) -> Vec<String> {
        PACKAGES.map(str::to_owned).to_vec()
    }

    fn by_hand(&self) -> String {
        match nightlies().first() {
            Some(nightly) => format!("rustup component add rust-src --toolchain {}", nightly.name),
            None => "rustup toolchain install nightly --component rust-src".to_owned(),
        }
    }
}

fn precompiled(rustc: &Path) -> Option<Toolchain> {
    let sysroot = sysroot(rustc)?;
    let rlibs = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    let has_core = std::fs::read_dir(rlibs).ok()?.any(|entry| {
        entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
    });
    if has_core { toolchain(rustc, Core::Precompiled) } else { None }
}

/// A nightly that rustup has installed.
struct Nightly {
    name: String,
    rustc: PathBuf,
}

fn nightlies() -> Vec<Nightly> {
    if find_command("rustup").is_none() {
        return Vec::new();
    }
    let list = shell::output(Command::new("rustup").args(["toolchain", "list"]));
    let names = list.unwrap_or_default();
    names
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("nightly"))
        .filter_map(|name| {
            let which = ["which", "--toolchain", name, "rustc"];
            let rustc = shell::output(Command::new("rustup").args(which)).ok()?;
            Some(Nightly { name: name.to_owned(), rustc: PathBuf::from(rustc) })
        })
        .collect()
}

fn build_std(nightly: Nightly) -> Option<Toolchain> {
    let source = sysroot(&nightly.rustc)?.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    let cargo = nightly.rustc.with_file_name("cargo");
    if source.is_file() && cargo.is_file() {
        toolchain(&nightly.rustc, Core::BuildStd { cargo })
    } else {
        None
    }
}

fn sysroot(rustc: &Path) -> Option<PathBuf> {
    shell::output(Command::new(rustc).args(["--print", "sysroot"])).ok().map(PathBuf::from)
}

fn toolchain(rustc: &Path, core: Core) -> Option<Toolchain> {
    let said = shell::output(Command::new(rustc).arg("-vV")).ok()?;
    let (version, llvm_major) = parse_version(&said).ok()?;
    let found = Toolchain { rustc: rustc.to_path_buf(), version, llvm_major, core };
    is_new_enough(&found.version).then_some(found)
}

/// Reads the release and LLVM's major version from what `rustc -vV` prints.
fn parse_version(said: &str) -> Result<(String, u32)> {
    let field = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).with_context(|| format!("`rustc -vV` says no {name}"))
    };
    let llvm = field("LLVM version:")?;
    let major = llvm.split('.').next().unwrap_or_default();
    let llvm_major = major.parse().with_context(|| format!("odd LLVM version {llvm}"))?;
    Ok((field("release:")?.to_owned(), llvm_major))
}

fn is_new_enough(version: &str) -> bool {
    shell::version(version).is_some_and(|found| found >= VERSION_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_version_reads_release_and_llvm() {
        let said = "rustc 1.96.0 (ac68faa20 2026-05-25)\nrelease: 1.96.0\nLLVM version: 22.1.8\n";
        assert_eq!(parse_version(said).unwrap(), ("1.96.0".to_owned(), 22));
        assert!(parse_version("release: 1.96.0\n").is_err());
    }

    #[test]
    fn is_new_enough_refuses_the_older_package() {
        assert!(is_new_enough("1.97.0-nightly") && is_new_enough("1.95.0"));
        assert!(!is_new_enough("1.85.0") && !is_new_enough(""));
    }
}
