//! `atp-user generate`: writes man pages and shell completions, for packages.

use super::Cli;
use anyhow::{Context, Result};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::{fs, path::PathBuf};

/// The arguments of `generate`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder to write to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes one man page per command, and completions for each shell.
pub fn main(args: &Args) -> Result<()> {
    let folder = &args.folder;
    let writing = || format!("can't write to {}", folder.display());
    fs::create_dir_all(folder).with_context(writing)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(writing)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut Cli::command(), "atp-user", folder)
            .with_context(writing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main__a_page_for_each_command_and_completions() {
        let dir = tempfile::tempdir().unwrap();
        main(&Args { folder: dir.path().into() }).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = read(&format!("atp-user-{}.1", command.get_name()));
            assert!(page.contains(command.get_name()));
        }
        assert!(read("atp-user.1").contains("atp\\-user"));
        assert!(read("atp-user.bash").contains("--iface"));
        assert!(read("_atp-user").contains("--iface"));
    }
}
