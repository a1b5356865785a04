//! `atp-user policy`: checks the file of a policy and shows it.

use crate::daemon::Policy;
use anyhow::Result;
use atp_output::{complain, say};
use nix::unistd::geteuid;
use std::path::PathBuf;

/// The arguments of `policy`.
#[derive(clap::Args)]
pub struct Args {
    /// The file
    #[arg(value_name = "FILE", default_value = "/etc/atp/policy.toml")]
    file: PathBuf,
}

/// Reads the file as the daemon does, and fails if a daemon of this user would refuse it. Warns of
/// mistakes that it can't be sure of: root may check a file before it puts it into its place.
pub fn main(args: &Args) -> Result<()> {
    let policy = Policy::load(&args.file)?;
    say!("{policy}");
    let file = args.file.display();
    for warning in policy.warnings() {
        complain!("warning: the policy {file}, {warning}");
    }
    if geteuid().is_root()
        && let Some(warning) = Policy::warning_of_file(&args.file)?
    {
        complain!("warning: the policy {file}: {warning}");
    }
    Ok(())
}
