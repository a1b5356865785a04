//! Python 3 with pip, in a virtual environment under the target folder. Packages installed there
//! change nothing else on the machine.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::machine::{Machine, find_command};
use super::{Provider, paths, shell};

const PACKAGES: [&str; 2] = ["python3", "python3-venv"];

/// The virtual environment.
pub(super) struct Python;

/// A pip that can download: the environment's, or the system's where no environment can be made.
pub(super) struct Pip;

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

/// The package folders of our environment, one for each Python that it had.
pub(super) fn site_packages() -> Vec<PathBuf> {
    let pythons = std::fs::read_dir(paths().venv.join("lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages")).collect()
}

fn has_pip(python: &mut Command) -> bool {
    shell::output(python.args(["-c", "import pip"])).is_ok()
}

impl Provider for Python {
    fn name(&self) -> String {
        "Python with pip".to_owned()
    }

    fn probe(&self, _machine: &Machine) -> Result<Option<String>> {
        // A virtual environment breaks when the Python that it points to is removed.
        let works = paths().venv.join("bin/pip").is_file() && has_pip(&mut python());
        Ok(works.then(|| paths().venv.display().to_string()))
    }

    fn can_install(&self, machine: &Machine) -> bool {
        machine.can_apt_install() || system_python_can_make_environments()
    }

    fn plan(&self, _machine: &Machine) -> String {
        let venv = paths().venv.display();
        if system_python_can_make_environments() {
            format!("making a Python environment in {venv}")
        } else {
            format!(
                "installing {} with apt, and a Python environment in {venv}",
                PACKAGES.join(", ")
            )
        }
    }

    fn install(&self, machine: &Machine) -> Result<()> {
        if !system_python_can_make_environments() {
            machine.apt_install(&self.debian_packages())?;
        }
        std::fs::create_dir_all(&paths().tools)?;
        let mut venv = Command::new("python3");
        shell::run_quiet(venv.args(["-m", "venv", "--clear"]).arg(&paths().venv))
    }

    fn debian_packages(&self) -> Vec<String> {
        PACKAGES.map(str::to_owned).to_vec()
    }

    fn by_hand(&self, _machine: &Machine) -> String {
        "your package manager for Python 3 with its venv and pip modules".to_owned()
    }
}

impl Provider for Pip {
    fn name(&self) -> String {
        "pip".to_owned()
    }

    fn probe(&self, machine: &Machine) -> Result<Option<String>> {
        if let Some(environment) = Python.probe(machine)? {
            return Ok(Some(environment));
        }
        let only_system = !Python.can_install(machine) && has_pip(&mut Command::new("python3"));
        Ok(only_system.then(|| "python3 -m pip".to_owned()))
    }

    fn can_install(&self, machine: &Machine) -> bool {
        Python.can_install(machine)
    }

    fn plan(&self, machine: &Machine) -> String {
        Python.plan(machine)
    }

    fn install(&self, machine: &Machine) -> Result<()> {
        Python.install(machine)
    }

    fn debian_packages(&self) -> Vec<String> {
        Python.debian_packages()
    }

    fn by_hand(&self, machine: &Machine) -> String {
        Python.by_hand(machine)
    }
}

fn system_python_can_make_environments() -> bool {
    find_command("python3").is_some()
        && shell::output(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_ok()
}
