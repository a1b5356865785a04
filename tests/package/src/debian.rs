//! A new Debian 12 in a folder.

use anyhow::{Context, Result, bail};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Makes the smallest Debian 12 that boots, with further packages, which commas separate.
pub fn make_root(root: &Path, packages: &str) -> Result<()> {
    println!("making a Debian 12 in {}, for some minutes", root.display());
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=minbase", "--mode=root", "--quiet"]);
    make.arg(format!("--include=systemd,systemd-sysv,dbus,{packages}"));
    output(make.arg("bookworm").arg(root)).map(drop)
}

/// Runs a command and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| {
        format!("can't start {name}: run `cargo xtask package --test` as root, which installs it")
    })?;
    if !output.status.success() {
        bail!("{name}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
