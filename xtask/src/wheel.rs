//! `cargo xtask wheel`: the Python package `atp` as a wheel, and that of the integrations.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::setup::{self, MATURIN, TORCH_PYTHON, TWINE, ZIG, output};

/// Runs where numpy and pyarrow do: their wheels need this glibc as well.
const COMPATIBILITY: &str = "manylinux_2_28";
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

#[derive(clap::Args)]
pub struct Args {
    /// Wheels that a registry takes, in target/registry: for glibc 2.28, x86-64 and aarch64
    #[arg(long)]
    registry: bool,
}

/// The wheels that `pip install` needs.
pub struct Wheels {
    /// `atp`: jobs, receivers and answers.
    pub atp: PathBuf,
    /// `atp-torch`: all-reduce, and the hook of PyTorch.
    pub torch: PathBuf,
}

pub fn main(args: &Args) -> Result<()> {
    if args.registry {
        return for_registry();
    }
    let wheels = build()?;
    atp_output::note!("wheel    {}", wheels.atp.display());
    atp_output::note!("wheel    {}", wheels.torch.display());
    Ok(())
}

/// Builds the wheels, and installs them beside Debian's PyTorch into the environment that `lock` is
/// for. Returns its Python. The program that this process becomes has the lock, too.
pub fn torch_environment(lock: File) -> Result<PathBuf> {
    let (wheels, paths) = (build()?, setup::paths());
    let mut make = Command::new(TORCH_PYTHON);
    make.arg(paths.workspace.join("integrations/pytorch/tests/environment.py"));
    make.args([&wheels.atp, &wheels.torch, &paths.torch_bench]);
    output(&mut make).context("can't make an environment for PyTorch")?;
    fcntl(Box::leak(Box::new(lock)), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(paths.torch_bench.join("bin/python"))
}

/// Keeps other runs from changing an environment, as long as the file is open.
pub fn lock(environment: &Path) -> Result<File> {
    let (file, path) = (File::create(environment.with_extension("lock"))?, environment.display());
    let is_mine = file.try_lock().is_ok();
    ensure!(is_mine, "another training uses {path}: start this one when that has ended");
    Ok(file)
}

/// Builds the wheels.
pub fn build() -> Result<Wheels> {
    setup::ensure(&[&MATURIN])?;
    let folder = setup::paths().target.join("wheels");
    // Of an earlier version, perhaps.
    std::fs::remove_dir_all(&folder).ok();
    build_native(&folder, &[])?;
    build_integrations(&folder)?;
    built()
}

/// Builds wheels with Zig's linker, which has the symbols of older glibcs, and checks them: maturin
/// which symbols they need, twine what they say of themselves.
fn for_registry() -> Result<()> {
    setup::ensure(&[&MATURIN, &TWINE, &ZIG])?;
    let folder = setup::paths().target.join("registry");
    std::fs::remove_dir_all(&folder).ok();
    for target in TARGETS {
        build_native(&folder, &["--zig", "--compatibility", COMPATIBILITY, "--target", target])?;
    }
    build_integrations(&folder)?;
    let mut check = Command::new(TWINE.path());
    check.args(["check", "--strict"]);
    for wheel in std::fs::read_dir(&folder)? {
        let wheel = wheel?.path();
        atp_output::note!("wheel    {}", wheel.display());
        check.arg(wheel);
    }
    output(&mut check).context("a registry would refuse a wheel").map(drop)
}

/// The wheels that were built last.
pub fn built() -> Result<Wheels> {
    let folder = setup::paths().target.join("wheels");
    Ok(Wheels { atp: one_wheel(&folder, "atp-")?, torch: one_wheel(&folder, "atp_torch-")? })
}

fn build_native(folder: &Path, options: &[&str]) -> Result<()> {
    let paths = setup::paths();
    let mut build = Command::new(MATURIN.path());
    build.args(["build", "--release", "--locked", "--quiet", "--out"]).arg(folder);
    build.args(options).arg("--target-dir").arg(&paths.target);
    build.arg("--manifest-path").arg(paths.workspace.join("bindings/python/Cargo.toml"));
    build.env("CARGO", setup::cargo().get_program()).env_remove("RUSTFLAGS");
    build.env("CARGO_ZIGBUILD_PYTHON_PATH", paths.venv.join("bin/python"));
    output(&mut build).context("can't build the wheel of atp").map(drop)
}

fn build_integrations(folder: &Path) -> Result<()> {
    let mut build = setup::python();
    build.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "wheel"]);
    build.args(["--quiet", "--no-deps", "--wheel-dir"]).arg(folder);
    build.arg(setup::paths().workspace.join("integrations/pytorch"));
    output(&mut build).context("can't build the wheel of atp-torch").map(drop)
}

/// The only wheel whose name begins with `prefix`.
fn one_wheel(folder: &Path, prefix: &str) -> Result<PathBuf> {
    let files = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut wheels = files.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    });
    let wheel = wheels.next().with_context(|| format!("no wheel {prefix} was built"))?;
    ensure!(wheels.next().is_none(), "more than one wheel {prefix} in {}", folder.display());
    Ok(wheel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock__is_for_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let environment = folder.path().join("torch");
        let _first = lock(&environment).unwrap();
        assert!(lock(&environment).is_err());
    }
}
