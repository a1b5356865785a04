//! Finds a Rust compiler for `bpfel-unknown-none`, a target that rustup's stable toolchain lacks.
//!
//! There are two. Debian's `rustc-web` has a precompiled `core` for that target, and doesn't
//! conflict with rustup. A rustup nightly with `rust-src` compiles `core` itself. The first one
//! found is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

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
    precompiled(Path::new("/usr/bin/rustc"))
        .or_else(|| nightlies().iter().find_map(|(_, rustc)| build_std(rustc)))
}

pub struct EbpfRust;

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
            Some((name, _)) => format!("rustup component add rust-src --toolchain {name}"),
            None => "rustup toolchain install nightly --component rust-src".to_owned(),
        }
    }
}

fn precompiled(rustc: &Path) -> Option<Toolchain> {
    let rlibs = sysroot(rustc)?.join("lib/rustlib").join(TARGET).join("lib");
    let mut rlibs = std::fs::read_dir(rlibs).ok()?.flatten();
    rlibs.find(|rlib| rlib.file_name().to_string_lossy().starts_with("libcore-"))?;
    toolchain(rustc, Core::Precompiled)
}

/// The names and compilers of the nightlies that rustup has installed.
fn nightlies() -> Vec<(String, PathBuf)> {
    let rustup = |words: &[&str]| shell::output(Command::new("rustup").args(words));
    let list = rustup(&["toolchain", "list"]).unwrap_or_default();
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let nightlies = names.filter(|name| name.starts_with("nightly"));
    let with_rustc = nightlies.filter_map(|name| {
        let rustc = rustup(&["which", "--toolchain", name, "rustc"]).ok()?;
        Some((name.to_owned(), PathBuf::from(rustc)))
    });
    with_rustc.collect()
}

fn build_std(rustc: &Path) -> Option<Toolchain> {
    let source = sysroot(rustc)?.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    let cargo = rustc.with_file_name("cargo");
    let is_complete = source.is_file() && cargo.is_file();
    is_complete.then(|| toolchain(rustc, Core::BuildStd { cargo }))?
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
