//! `atp-user policy`: checks the file of a policy and shows it.

use crate::daemon::Policy;
use anyhow::Result;
use atp_output::say;
use std::path::PathBuf;

/// The arguments of `policy`.
#[derive(clap::Args)]
pub struct Args {
    /// The file
    #[arg(value_name = "FILE", default_value = "/etc/atp/policy.toml")]
    file: PathBuf,
}

/// Reads the file as the daemon does. It fails if the daemon would refuse the file.
pub fn main(args: &Args) -> Result<()> {
    say!("{}", Policy::load(&args.file)?);
    Ok(())
}
