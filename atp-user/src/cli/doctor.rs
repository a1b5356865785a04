//! `atp-user doctor`: checks whether this host, and the path to a peer, have what ATP needs.

use crate::doctor::{self, Finding, LocalOptions};
use anyhow::{Result, bail};
use std::{
    io::{IsTerminal, stdout},
    net::IpAddr,
    path::PathBuf,
};
use switch_profiles::Profile;

/// The arguments of `doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// An interface to check; repeat the option for several. By default every Ethernet interface
    /// that is up
    #[arg(long = "iface", value_name = "DEV")]
    interfaces: Vec<String>,
    /// An address: check whether the interfaces cover the route to it; may be repeated
    #[arg(long = "to", value_name = "ADDR")]
    addresses: Vec<IpAddr>,
    /// The queue profile of the switches; by default the profile that the project ships
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// The eBPF object to try; by default the object that is built into this program
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the checks. Fails if something is missing that ATP needs.
pub fn main(args: Args) -> Result<()> {
    let profile = match &args.profile {
        Some(path) => Profile::load(path)?,
        None => Profile::default(),
    };
    let options = LocalOptions {
        interfaces: args.interfaces,
        addresses: args.addresses,
        object: args.object,
    };
    let findings = doctor::local(&options, &profile)?;
    print(&findings, args.json)
}

fn print(findings: &[Finding], json: bool) -> Result<()> {
    if json {
        println!("{}", doctor::to_json(findings)?);
    } else {
        let color = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print!("{}", doctor::text(findings, color));
    }
    match findings.iter().filter(|finding| finding.is_missing()).count() {
        0 => Ok(()),
        missing => bail!("{missing} of the checks found something missing: do as they advise"),
    }
}
