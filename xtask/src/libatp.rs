//! `cargo xtask libatp`: builds the C library and installs it with its header and pkg-config file.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::setup::{self, CARGO_C};

#[derive(clap::Args)]
pub struct Args {
    /// The folder to install into; default: target/libatp
    #[arg(long, value_name = "FOLDER")]
    prefix: Option<PathBuf>,
}

pub fn main(args: Args) -> Result<()> {
    setup::ensure(&[&CARGO_C])?;
    let paths = setup::paths();
    let prefix = args.prefix.unwrap_or_else(|| paths.target.join("libatp"));
    let prefix = std::path::absolute(prefix).context("--prefix is no path")?;
    let mut install = setup::cargo_at(&CARGO_C.path());
    install.args(["cinstall", "--release", "--package", "atp-c", "--libdir", "lib", "--prefix"]);
    let status = install.arg(&prefix).current_dir(&paths.workspace).status();
    if !status.context("can't start cargo-c")?.success() {
        bail!("cargo-c failed; its output is above");
    }
    atp_output::note!("libatp  {}", prefix.display());
    atp_output::note!("compile with: PKG_CONFIG_PATH={}/lib/pkgconfig", prefix.display());
    Ok(())
}
