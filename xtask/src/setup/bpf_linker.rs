//! Builds bpf-linker, pinned, into the target folder, against the LLVM of the eBPF compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::ebpf_rust::{self, Toolchain};
use super::machine::{Machine, find_command};
use super::{Need, Provider, paths, shell};

const VERSION: &str = "0.13.0";
/// The LLVM majors that this bpf-linker can be built for.
const LLVM_MAJORS: std::ops::RangeInclusive<u32> = 21..=23;

/// The linker to use: ours, or one of the same version on the PATH, where ours can't be built
/// because LLVM's libraries are missing.
pub fn find(toolchain: &Toolchain) -> Option<PathBuf> {
    let ours = &paths().bpf_linker;
    if is_pinned_version(ours) && was_built_for(&paths().tools, toolchain.llvm_major) {
        return Some(ours.clone());
    }
    if llvm_prefix(toolchain.llvm_major).is_some() || Machine::this().can_apt_install() {
        return None;
    }
    find_command("bpf-linker").filter(|path| is_pinned_version(path))
}

pub(super) struct Llvm;

impl Provider for Llvm {
    fn name(&self) -> String {
        match ebpf_rust::find() {
            Some(toolchain) => format!("LLVM {}", toolchain.llvm_major),
            None => "LLVM".to_owned(),
        }
    }

    fn requires(&self) -> &'static [Need] {
        &[Need::EbpfRust]
    }

    fn probe(&self, _machine: &Machine) -> Result<Option<String>> {
        let Some(toolchain) = ebpf_rust::find() else { return Ok(None) };
        if let Some(prefix) = llvm_prefix(toolchain.llvm_major) {
            return Ok(Some(prefix.display().to_string()));
        }
        Ok(find(&toolchain).map(|_| "not needed: bpf-linker is there".to_owned()))
    }

    fn can_install(&self, machine: &Machine) -> bool {
        machine.can_apt_install()
    }

    fn plan(&self, _machine: &Machine) -> String {
        format!("installing {} with apt, 100 MB", packages().join(", "))
    }

    fn install(&self, machine: &Machine) -> Result<()> {
        machine.apt_update()?;
        let packages = packages();
        if let Some(absent) = packages.iter().find(|package| !machine.apt_carries(package)) {
            bail!("this release has no package {absent}, the LLVM of the eBPF compiler");
        }
        machine.apt_install(&packages)
    }

    fn debian_packages(&self) -> Vec<String> {
        packages()
    }

    fn by_hand(&self, _machine: &Machine) -> String {
        format!(
            "your package manager for LLVM's development files of the same major version as the \
             eBPF compiler's and set LLVM_PREFIX to them, or put bpf-linker {VERSION} on the PATH: \
             cargo binstall bpf-linker@{VERSION}"
        )
    }
}

pub(super) struct BpfLinker;

impl Provider for BpfLinker {
    fn name(&self) -> String {
        format!("bpf-linker {VERSION}")
    }

    fn requires(&self) -> &'static [Need] {
        &[Need::EbpfRust, Need::Llvm]
    }

    fn probe(&self, _machine: &Machine) -> Result<Option<String>> {
        let Some(toolchain) = ebpf_rust::find() else { return Ok(None) };
        Ok(find(&toolchain).map(|path| path.display().to_string()))
    }

    /// Cargo suffices, once its requirements are there.
    fn can_install(&self, _machine: &Machine) -> bool {
        true
    }

    fn plan(&self, _machine: &Machine) -> String {
        format!("building bpf-linker {VERSION} into {}, about a minute", paths().tools.display())
    }

    fn install(&self, _machine: &Machine) -> Result<()> {
        let toolchain = ebpf_rust::find().context("no Rust for eBPF")?;
        let major = toolchain.llvm_major;
        let prefix = llvm_prefix(major).with_context(|| {
            format!("no libraries of LLVM {major}, which {} uses", toolchain.rustc.display())
        })?;
        build(major, &prefix)
    }

    fn by_hand(&self, _machine: &Machine) -> String {
        let major = ebpf_rust::find().map_or(22, |toolchain| toolchain.llvm_major);
        format!(
            "LLVM_PREFIX=/usr/lib/llvm-{major} cargo install bpf-linker --version ={VERSION} \
             --locked --no-default-features --features llvm-{major} --root {}",
            paths().tools.display()
        )
    }
}

fn packages() -> Vec<String> {
    let major = ebpf_rust::find().map_or(22, |toolchain| toolchain.llvm_major);
    vec![format!("llvm-{major}-dev"), format!("libpolly-{major}-dev")]
}

fn build(llvm_major: u32, prefix: &Path) -> Result<()> {
    if !LLVM_MAJORS.contains(&llvm_major) {
        bail!(
            "bpf-linker {VERSION} can be built for LLVM {} to {}, and the eBPF compiler has LLVM \
             {llvm_major}: use another compiler (Debian's rustc-web, or an older nightly)",
            LLVM_MAJORS.start(),
            LLVM_MAJORS.end()
        );
    }
    let scratch = paths().tools.join("build");
    let mut install = shell::cargo();
    install.args(["install", "bpf-linker", "--locked", "--force", "--no-default-features"]);
    install.arg(format!("--version={}", ["=", VERSION].concat()));
    install.arg(format!("--features=llvm-{llvm_major}"));
    install.arg("--root").arg(&paths().tools).arg("--target-dir").arg(&scratch);
    install.env("LLVM_PREFIX", prefix).env_remove("RUSTFLAGS").env_remove("RUSTC");
    // It links one small object, and the work is done by LLVM's own libraries: build it quickly.
    for (setting, value) in [("OPT_LEVEL", "0"), ("DEBUG", "false"), ("LTO", "off")] {
        install.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    shell::run_quiet(&mut install)?;
    std::fs::remove_dir_all(&scratch).with_context(|| format!("can't remove {}", scratch.display()))
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

fn is_pinned_version(linker: &Path) -> bool {
    linker.is_file()
        && shell::output(Command::new(linker).arg("--version"))
            .is_ok_and(|said| said.split_whitespace().nth(1) == Some(VERSION))
}

/// Cargo records the features of an installed program.
fn was_built_for(tools: &Path, llvm_major: u32) -> bool {
    let Ok(record) = std::fs::read_to_string(tools.join(".crates2.json")) else { return false };
    let Ok(record) = serde_json::from_str::<serde_json::Value>(&record) else { return false };
    let Some(installs) = record["installs"].as_object() else { return false };
    let wanted = format!("llvm-{llvm_major}");
    installs.iter().any(|(package, install)| {
        package.starts_with("bpf-linker ")
            && install["features"]
                .as_array()
                .is_some_and(|features| features.iter().any(|feature| *feature == *wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn was_built_for_reads_cargo_s_record() {
        let folder = tempfile::tempdir().unwrap();
        let record = r#"{"installs":{"bpf-linker 0.13.0 (registry)":{"features":["llvm-22"]}}}"#;
        std::fs::write(folder.path().join(".crates2.json"), record).unwrap();
        assert!(was_built_for(folder.path(), 22));
        assert!(!was_built_for(folder.path(), 23));
        assert!(!was_built_for(Path::new("/nonexistent"), 22));
    }
}
