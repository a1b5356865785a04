//! Finds bpf-linker on the PATH, or builds it, pinned, into the target folder, against the LLVM
//! that the eBPF compiler itself loads. So no package of LLVM is needed, and the two LLVMs match.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use super::cargo_tool::BPF_LINKER;
use super::ebpf_rust::{self, Toolchain};
use super::machine::find_command;
use super::{Need, Provider, paths, shell};

/// The LLVM majors that this bpf-linker can be built for.
const LLVM_MAJORS: std::ops::RangeInclusive<u32> = 21..=23;

/// A program whose bitcode shows whether a linker can read what the compiler writes.
const TRIAL: &str = "#![no_std] #[unsafe(no_mangle)] pub extern \"C\" fn trial() -> u32 { 0 }";

/// The linker to use: one of the pinned version on the PATH that reads the compiler's bitcode, or
/// ours.
pub fn find(toolchain: &Toolchain) -> Option<PathBuf> {
    static ON_PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    let on_path = ON_PATH.get_or_init(|| {
        let found = find_command("bpf-linker").filter(|path| BPF_LINKER.is_pinned(path))?;
        reads_bitcode(&found, &toolchain.rustc).then_some(found)
    });
    let ours = || Some(our_path(toolchain)).filter(|path| BPF_LINKER.is_pinned(path));
    on_path.clone().or_else(ours)
}

fn our_path(toolchain: &Toolchain) -> PathBuf {
    BPF_LINKER.path_in(&folder(toolchain.llvm_major))
}

/// The linker's folder, one for each LLVM.
fn folder(llvm_major: u32) -> PathBuf {
    paths().tools.join(format!("llvm-{llvm_major}"))
}

/// Whether `linker` reads what `rustc` writes: it may have been built for an older LLVM, and its
/// version doesn't tell for which.
fn reads_bitcode(linker: &Path, rustc: &Path) -> bool {
    let trial = || -> Result<()> {
        let folder = tempfile::tempdir()?;
        let [source, bitcode, object] =
            ["trial.rs", "trial.bc", "trial.o"].map(|name| folder.path().join(name));
        std::fs::write(&source, TRIAL)?;
        let mut compile = Command::new(rustc);
        compile.args(["--edition=2024", "--crate-type=lib", "--emit=llvm-bc", "-Cpanic=abort"]);
        shell::output(compile.arg("-o").arg(&bitcode).arg(&source))?;
        let mut link = Command::new(linker);
        link.args(["--target=bpfel", "--emit=obj", "--export=trial", "-o"]);
        shell::output(link.arg(&object).arg(&bitcode)).map(drop)
    };
    trial().is_ok()
}

pub struct BpfLinker;

impl Provider for BpfLinker {
    fn name(&self) -> String {
        BPF_LINKER.name()
    }

    fn requires(&self) -> &'static [Need] {
        &[&super::EbpfRust]
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
        let library = llvm_of(&toolchain.rustc)?;
        let folder = folder(major);
        offer(&library, &folder.join("lib"))?;
        BPF_LINKER.build(&folder, |install| {
            install.arg(format!("--features=llvm-{major}")).env("LLVM_PREFIX", &folder);
        })
    }

    fn by_hand(&self) -> String {
        let version = BPF_LINKER.version;
        format!("cargo binstall bpf-linker@{version}, which puts it on the PATH")
    }
}

/// The shared library of LLVM that the compiler at `rustc` loads.
fn llvm_of(rustc: &Path) -> Result<PathBuf> {
    let said = shell::output(Command::new("ldd").arg(rustc))?;
    let found = loaded_llvm(&said);
    found.with_context(|| format!("{} loads no shared library of LLVM", rustc.display()))
}

/// `    libLLVM.so.22.1 => /lib/x86_64-linux-gnu/libLLVM.so.22.1 (0x00007f2bd7800000)`
fn loaded_llvm(ldd: &str) -> Option<PathBuf> {
    let mut lines = ldd.lines().filter_map(|line| line.trim().split_once(" => "));
    let (_, place) = lines.find(|(name, _)| name.starts_with("libLLVM"))?;
    let path = place.rsplit_once(" (").map_or(place, |(path, _address)| path);
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// Links to `library` from `folder`: under the name that the linker asks for, and under its own, by
/// which bpf-linker then loads it.
fn offer(library: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let own_name = library.file_name().context("LLVM's library has no name")?;
    for name in [own_name, "libLLVM.so".as_ref()] {
        let link = folder.join(name);
        // The compiler may have been updated since.
        std::fs::remove_file(&link).ok();
        symlink(library, &link).with_context(|| format!("can't make {}", link.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_llvm__of_debian_s_compiler_and_of_rustup_s() {
        let debian = "\tlinux-vdso.so.1 (0x00007f2be657f000)\n\
             \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2be081e000)\n\
             \tlibLLVM.so.22.1 => /lib/x86_64-linux-gnu/libLLVM.so.22.1 (0x00007f2bd7800000)\n";
        let place = "/lib/x86_64-linux-gnu/libLLVM.so.22.1";
        assert_eq!(loaded_llvm(debian), Some(PathBuf::from(place)));
        let nightly = "\tlibLLVM.so.22.1-rust-1.97.0-nightly => /opt/a b/lib/../lib/\
             libLLVM.so.22.1-rust-1.97.0-nightly (0x00007fee24600000)\n";
        let place = "/opt/a b/lib/../lib/libLLVM.so.22.1-rust-1.97.0-nightly";
        assert_eq!(loaded_llvm(nightly), Some(PathBuf::from(place)));
    }

    #[test]
    fn loaded_llvm__none_where_it_is_inside_or_missing() {
        assert_eq!(loaded_llvm("\tlibc.so.6 => /lib/libc.so.6 (0x00007f2be081e000)\n"), None);
        assert_eq!(loaded_llvm("\tlibLLVM.so.22.1 => not found\n"), None);
        assert_eq!(loaded_llvm("\tstatically linked\n"), None);
    }

    #[test]
    fn offer__replaces_links_to_an_older_compiler_s_library() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (Path::new("/a/libLLVM.so.22.1"), Path::new("/b/libLLVM.so.22.1"));
        let offered = folder.path().join("lib");
        for library in [old, new] {
            offer(library, &offered).unwrap();
            for name in ["libLLVM.so", "libLLVM.so.22.1"] {
                assert_eq!(std::fs::read_link(offered.join(name)).unwrap(), library);
            }
        }
    }

    #[test]
    fn reads_bitcode__not_by_another_program() {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        assert!(!reads_bitcode(Path::new("/bin/false"), Path::new(&rustc)));
    }
}
