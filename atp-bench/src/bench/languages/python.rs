//! `cargo xtask bench python`: batches sent from Python, beside the same batches sent from Rust.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Args, CPUS, Pair, measure, pinned, rust_receiver, rust_sender, sender_args};
use crate::bench::program_output;
use crate::installed;

const SENDER: &str = include_str!("sender.py");

pub fn main(args: &Args) -> Result<()> {
    let package = unpacked_wheel()?;
    let python = |to: &str| {
        let mut command = pinned(installed::python(), CPUS.0);
        command.args(["-c", SENDER]).args(sender_args(to, args)).env("PYTHONPATH", &package);
        Ok(command)
    };
    let pairs = [
        Pair { name: "Rust", send: &|to: &str| rust_sender(to, args), receive: &rust_receiver },
        Pair { name: "Python", send: &python, receive: &rust_receiver },
    ];
    measure(args, &pairs)
}

/// Builds the wheel, and returns the folder that it is unpacked into.
pub fn unpacked_wheel() -> Result<PathBuf> {
    let mut build = Command::new(installed::cargo());
    build.args(["xtask", "wheel"]).current_dir(installed::workspace());
    program_output(&mut build)?;
    let wheels = installed::target().join("wheels");
    let entries = std::fs::read_dir(&wheels).context("no wheel was built")?;
    // Beside it lies the wheel of the integrations.
    let is_atp = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("atp-"))
    };
    let mut paths = entries.flatten().map(|entry| entry.path());
    let wheel = paths.find(is_atp).context("no wheel was built")?;
    let package = installed::target().join("bench-python");
    std::fs::remove_dir_all(&package).ok();
    let mut unpack = Command::new(installed::python());
    unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&package);
    program_output(&mut unpack)?;
    ensure!(package.join("atp/__init__.py").is_file(), "the wheel holds no package atp");
    Ok(package)
}
