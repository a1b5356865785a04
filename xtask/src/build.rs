//! `cargo xtask build`: the eBPF programs, and the daemon that carries them inside.
//!
//! The programs are a workspace of their own, compiled with another compiler for another target
//! (`setup::ebpf_rust`). The object is copied only when it changed, so that the daemon isn't
//! rebuilt without need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::setup::{self, ebpf_rust};

const TARGET: &str = "bpfel-unknown-none";
/// v3 has 32-bit compares and atomics that Linux 6.12 accepts; `btf_map`s need `--btf`.
const RUSTFLAGS: [&str; 3] = ["-Ctarget-cpu=v3", "-Clink-arg=--btf", "-Cdebuginfo=2"];
/// The variable that tells atp-datapath's build script where the programs to embed are.
pub const OBJECT_VARIABLE: &str = "ATP_EBPF_OBJECT";

#[derive(clap::Args)]
pub struct Args {
    /// Build the daemon without the eBPF programs, with the userspace datapath only
    #[arg(long)]
    without_ebpf: bool,
}

pub fn main(args: Args) -> Result<()> {
    if args.without_ebpf {
        let daemon = build_daemon(None)?;
        atp_output::note!("daemon   {}  (no eBPF programs inside)", daemon.display());
        return Ok(());
    }
    atp_output::note!("eBPF     compiled by {}", ready_toolchain()?.describe());
    let daemon = daemon_with_programs()?;
    atp_output::note!("daemon   {}", daemon.display());
    atp_output::note!("faults   {}  (for the fault tests)", faults_object()?.display());
    Ok(())
}

/// Builds the daemon with the eBPF programs inside, and returns its path.
pub fn daemon_with_programs() -> Result<PathBuf> {
    let object = ebpf_object()?;
    atp_output::note!("programs {}", object.display());
    // Other commands build the daemon without programs, in the same place: keep a copy of this one.
    let daemon = setup::paths().target.join("daemon/atp-user");
    copy_if_changed(&build_daemon(Some(&object))?, &daemon)?;
    setup::output(Command::new(&daemon).arg("--version")).context("the daemon doesn't start")?;
    Ok(daemon)
}

/// Compiles and links the eBPF programs and returns the object's path.
///
/// # Errors
/// No toolchain and none can be installed, or the compiler failed.
pub fn ebpf_object() -> Result<PathBuf> {
    object("atp-ebpf", "atp-ebpf", "atp-ebpf.o")
}

/// Compiles and links the fault injector. The tests expect it beside the datapath's object. Errors
/// as [`ebpf_object`].
pub fn faults_object() -> Result<PathBuf> {
    object("tests/ebpf-faults", "atp-ebpf-faults", "faults.o")
}

/// Links a crate of eBPF programs, which lies in `folder` below the repository's root.
fn object(folder: &str, binary: &str, name: &str) -> Result<PathBuf> {
    let toolchain = ready_toolchain()?;
    let linker = setup::bpf_linker(&toolchain).context("bpf-linker is gone")?;
    let paths = setup::paths();
    let mut build = ebpf_cargo(&toolchain);
    build.current_dir(paths.workspace.join(folder));
    build.args(["build", "--release", "--quiet", "--bin", binary, "--target", TARGET]);
    let target = paths.target.join("bpf-build");
    build.arg("--target-dir").arg(&target);
    build.env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", linker);
    run(build, "the eBPF programs")?;
    let linked = target.join(TARGET).join("release").join(binary);
    let to = paths.target.join("bpf").join(name);
    copy_if_changed(&linked, &to)?;
    Ok(to)
}

/// Builds `atp-bench` and the daemon that it starts, and returns the path of the first. Cargo shows
/// its progress.
pub fn bench() -> Result<PathBuf> {
    run(bench_command(), "atp-bench and the daemon")?;
    Ok(bench_path())
}

/// Builds both in one go. The daemon has no eBPF programs inside: it takes them from a file
/// (`--object`), or has the userspace datapath.
pub fn bench_command() -> Command {
    cargo("build --release --package atp-bench --package atp-user --bins")
}

/// Builds `atp-run` and its library, beside the programs of [`bench()`].
pub fn atp_run() -> Result<()> {
    run(cargo_beside_bench("build --package atp-run --bin atp-run --lib"), "atp-run")
}

/// Builds the bridge to Kafka, and the load generator of its benchmark.
pub fn kafka() -> Result<()> {
    let words = "build --package atp-kafka --bin atp-kafka --example kafka-load";
    run(cargo_beside_bench(words), "the bridge to Kafka")
}

/// Cargo on the workspace, with the shared target folder. `words` begin its command line.
pub fn cargo(words: &str) -> Command {
    let paths = setup::paths();
    let mut cargo = setup::cargo();
    cargo.current_dir(&paths.workspace).args(words.split(' '));
    cargo.arg("--target-dir").arg(&paths.target);
    cargo
}

/// As [`cargo`], in release. It names the packages of [`bench()`] as well: the dependencies then
/// have the same features, and aren't compiled again. So each target to build must be named: "all"
/// would mean those of the bench, too.
pub fn cargo_beside_bench(words: &str) -> Command {
    cargo(&format!("{words} --release --package atp-bench --package atp-user"))
}

/// Whether nothing has been built yet, so that a build takes minutes.
pub fn is_first() -> bool {
    !bench_path().is_file()
}

pub fn bench_path() -> PathBuf {
    setup::paths().target.join("release/atp-bench")
}

/// Builds the daemon, with the programs of `object` inside.
fn build_daemon(object: Option<&Path>) -> Result<PathBuf> {
    let mut build = cargo_beside_bench("build --quiet --bin atp-user");
    if let Some(object) = object {
        build.args(["--features", "atp-user/embedded"]).env(OBJECT_VARIABLE, object);
    }
    run(build, "the daemon")?;
    Ok(setup::paths().target.join("release/atp-user"))
}

fn ready_toolchain() -> Result<ebpf_rust::Toolchain> {
    setup::ensure(setup::BUILD)?;
    ebpf_rust::find().context("Rust for eBPF is gone")
}

/// A cargo that compiles for eBPF. Flags, wrappers and profiles for the host don't fit this target,
/// so their variables are removed.
fn ebpf_cargo(toolchain: &ebpf_rust::Toolchain) -> Command {
    let mut cargo = match &toolchain.core {
        ebpf_rust::Core::Precompiled => setup::cargo(),
        ebpf_rust::Core::BuildStd { cargo } => {
            let mut command = setup::cargo_at(cargo);
            command.args(["-Z", "build-std=core"]);
            command
        }
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(concerns_the_host) {
            cargo.env_remove(name);
        }
    }
    // Debian's compiler is a release; this variable enables unstable features.
    cargo.env("RUSTC", &toolchain.rustc).env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\u{1f}"));
    cargo
}

fn concerns_the_host(name: &str) -> bool {
    const PREFIXES: [&str; 3] = ["CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_"];
    matches!(name, "RUSTUP_TOOLCHAIN" | "RUSTFLAGS" | "RUSTDOC" | "LD_LIBRARY_PATH")
        || matches!(name, "RUSTC_WRAPPER" | "RUSTC_WORKSPACE_WRAPPER")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn run(mut build: Command, what: &str) -> Result<()> {
    build.stdin(Stdio::null());
    let status = build.status().with_context(|| format!("can't start cargo for {what}"))?;
    if !status.success() {
        bail!("building {what} failed; the compiler's messages are above");
    }
    Ok(())
}

fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let new = std::fs::read(from).with_context(|| format!("can't read {}", from.display()))?;
    if std::fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let folder = to.parent().context("the copy's path has no folder")?;
    std::fs::create_dir_all(folder)?;
    // A program that runs can't be overwritten, but it can be replaced.
    std::fs::remove_file(to).ok();
    std::fs::copy(from, to).map(drop).with_context(|| format!("can't write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concerns_the_host_spares_network_settings() {
        assert!(concerns_the_host("CARGO_TARGET_DIR") && concerns_the_host("RUSTFLAGS"));
        assert!(!concerns_the_host("CARGO_HOME") && !concerns_the_host("CARGO_HTTP_PROXY"));
        assert!(!concerns_the_host("PATH"));
    }

    #[test]
    fn copy_if_changed_leaves_an_equal_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("sub/b"));
        std::fs::write(&from, b"object").unwrap();
        copy_if_changed(&from, &to).unwrap();
        let first = to.metadata().unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        copy_if_changed(&from, &to).unwrap();
        assert_eq!(to.metadata().unwrap().modified().unwrap(), first);
        std::fs::write(&from, b"newer object").unwrap();
        copy_if_changed(&from, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"newer object");
    }
}
