//! `cargo xtask package`: a Debian package, and a tarball of the same files.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::setup::{self, CARGO_DEB, Need, output};

#[derive(clap::Args)]
pub struct Args {
    /// Use the package in a new Debian 12; `machine`: follow the guide there, with kernel 6.12
    #[arg(long, value_name = "PLACE", value_parser = ["container", "machine"])]
    #[arg(num_args = 0..=1, default_missing_value = "container")]
    test: Option<String>,
}

pub fn main(args: &Args) -> Result<()> {
    let needs: &[Need] = match args.test.as_deref() {
        Some("machine") => &[&setup::CLEAN_DEBIAN, &setup::QEMU],
        Some(_) => &[&setup::CLEAN_DEBIAN],
        None => &[],
    };
    setup::ensure(&[&[&CARGO_DEB as Need], needs].concat())?;
    let paths = setup::paths();
    let daemon = build::daemon_with_programs()?;
    // atp-user/Cargo.toml lists the files; cargo-deb translates `target/release` in it.
    let staged = paths.target.join("release/package");
    output(Command::new(&daemon).arg("generate").arg(staged.join("generated")))?;
    fs::copy(&daemon, staged.join("atp-user")).context("can't copy the daemon")?;
    let packages = paths.target.join("packages");
    let mut pack = Command::new(CARGO_DEB.path());
    pack.args("deb --package atp-user --no-build --strip --quiet --output".split(' '));
    let deb = output(pack.arg(packages.join("")).current_dir(&paths.workspace))?;

    let name = format!("atp-{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    fs::remove_dir_all(packages.join(&name)).ok();
    output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(packages.join(&name)))?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "-czf"]).current_dir(&packages);
    output(tar.arg(format!("{name}.tar.gz")).arg(&name))?;
    atp_output::note!("package  {deb}\ntarball  {}/{name}.tar.gz", packages.display());
    if let Some(place) = &args.test {
        let mut test = build::cargo("run --release --quiet --package package-test");
        let passed = test.arg("--").arg(place).arg(&deb).status()?.success();
        ensure!(passed, "the package failed its test; the reason is above");
    }
    Ok(())
}
