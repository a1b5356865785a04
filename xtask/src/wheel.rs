//! `cargo xtask wheel`: the Python package `atp` as a wheel.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::setup::{self, MATURIN, Need, output};

pub fn main() -> Result<()> {
    println!("wheel    {}", build()?.display());
    Ok(())
}

/// Builds the wheel, and returns its path.
pub fn build() -> Result<PathBuf> {
    setup::ensure(&[Need::Maturin])?;
    let paths = setup::paths();
    let wheels = paths.target.join("wheels");
    // Of an earlier version, perhaps.
    std::fs::remove_dir_all(&wheels).ok();
    let mut build = Command::new(MATURIN.path());
    build.args(["build", "--release", "--locked", "--quiet", "--out"]).arg(&wheels);
    build.arg("--target-dir").arg(&paths.target);
    build.arg("--manifest-path").arg(paths.workspace.join("bindings/python/Cargo.toml"));
    build.env("CARGO", setup::cargo().get_program()).env_remove("RUSTFLAGS");
    output(&mut build).context("can't build the wheel")?;
    let mut built = std::fs::read_dir(&wheels)?.flatten().map(|entry| entry.path());
    let wheel = built.next().context("maturin built no wheel")?;
    ensure!(built.next().is_none(), "more than one wheel in {}", wheels.display());
    Ok(wheel)
}
