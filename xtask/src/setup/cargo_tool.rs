//! Programs from crates.io, pinned and built into the target folder.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::Machine;
use super::{Provider, paths, shell};

/// A crate that brings one program of the same name. Its default features are left out.
pub struct CargoTool {
    name: &'static str,
    version: &'static str,
}

/// Builds the book. Its default features serve the book and search it, and double the build time.
pub const MDBOOK: CargoTool = CargoTool { name: "mdbook", version: "0.5.4" };
/// Checks licenses, sources and duplicates of dependencies.
pub const CARGO_DENY: CargoTool = CargoTool { name: "cargo-deny", version: "0.20.2" };

impl CargoTool {
    /// Its path, once it is installed.
    pub fn path(&self) -> PathBuf {
        paths().tools.join("bin").join(self.name)
    }

    fn arguments(&self) -> String {
        format!("install {} --version ={} --locked --no-default-features", self.name, self.version)
    }
}

impl Provider for CargoTool {
    fn name(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn probe(&self, _machine: &Machine) -> Result<Option<String>> {
        let path = self.path();
        let is_pinned = path.is_file()
            && shell::output(Command::new(&path).arg("--version"))
                .is_ok_and(|said| said.ends_with(self.version));
        Ok(is_pinned.then(|| path.display().to_string()))
    }

    fn can_install(&self, _machine: &Machine) -> bool {
        true
    }

    fn plan(&self, _machine: &Machine) -> String {
        let tools = paths().tools.display();
        format!("building {} {} into {tools}, a minute or two", self.name, self.version)
    }

    fn install(&self, _machine: &Machine) -> Result<()> {
        let scratch = paths().tools.join(format!("build-{}", self.name));
        let mut install = shell::cargo();
        install.args(self.arguments().split(' ')).arg("--force");
        install.arg("--root").arg(&paths().tools).arg("--target-dir").arg(&scratch);
        install.env_remove("RUSTFLAGS").env_remove("RUSTC");
        // The tools run for seconds: compiling them quickly matters more than their speed.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        shell::run_quiet(&mut install)?;
        std::fs::remove_dir_all(&scratch)
            .with_context(|| format!("can't remove {}", scratch.display()))
    }

    fn by_hand(&self, _machine: &Machine) -> String {
        format!("cargo {} --root {}", self.arguments(), paths().tools.display())
    }
}
