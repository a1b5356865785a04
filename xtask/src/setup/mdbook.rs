//! mdbook, pinned, built into the target folder: makes the book of `docs/`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::Machine;
use super::{Provider, paths, shell};

const VERSION: &str = "0.5.4";

/// Where it is, once it is installed.
pub fn find() -> PathBuf {
    paths().tools.join("bin/mdbook")
}

pub(super) struct MdBook;

impl Provider for MdBook {
    fn name(&self) -> String {
        format!("mdbook {VERSION}")
    }

    fn probe(&self, _machine: &Machine) -> Result<Option<String>> {
        let found = find();
        let is_pinned = found.is_file()
            && shell::output(Command::new(&found).arg("--version"))
                .is_ok_and(|said| said == format!("mdbook v{VERSION}"));
        Ok(is_pinned.then(|| found.display().to_string()))
    }

    /// Cargo is all it takes.
    fn can_install(&self, _machine: &Machine) -> bool {
        true
    }

    fn plan(&self, _machine: &Machine) -> String {
        format!("building mdbook {VERSION} into {}, some minutes", paths().tools.display())
    }

    fn install(&self, _machine: &Machine) -> Result<()> {
        let scratch = paths().tools.join("build-mdbook");
        let mut install = shell::cargo();
        // Its default features serve the book and search it, and compile for as long again.
        install.args(["install", "mdbook", "--locked", "--force", "--no-default-features"]);
        install.arg(format!("--version={}", ["=", VERSION].concat()));
        install.arg("--root").arg(&paths().tools).arg("--target-dir").arg(&scratch);
        install.env_remove("RUSTFLAGS").env_remove("RUSTC");
        shell::run_quiet(&mut install)?;
        std::fs::remove_dir_all(&scratch)
            .with_context(|| format!("can't remove {}", scratch.display()))
    }

    fn by_hand(&self, _machine: &Machine) -> String {
        format!(
            "cargo install mdbook --version ={VERSION} --locked --no-default-features --root {}",
            paths().tools.display()
        )
    }
}
