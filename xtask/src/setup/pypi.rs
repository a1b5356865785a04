//! Environments of their own for packages from PyPI: large downloads, whose sizes are printed.

use std::path::Path;

use anyhow::Result;

use super::{Need, Provider, obtainable, paths, python::python, shell};

const SCRIPT: &str = "bindings/python/tests/pypi_environment.py";

pub struct PypiEnvironment {
    name: &'static str,
    requirements: &'static str,
    folder: fn() -> &'static Path,
}

pub const TORCH_PYPI: PypiEnvironment = PypiEnvironment {
    name: "PyTorch from PyPI",
    requirements: "integrations/pytorch/tests/requirements-pypi.txt",
    folder: || &paths().torch_pypi,
};
pub const PYFLINK: PypiEnvironment = PypiEnvironment {
    name: "PyFlink from PyPI",
    requirements: "integrations/flink/python/tests/requirements.txt",
    folder: || &paths().pyflink,
};

impl PypiEnvironment {
    /// Whether it is there or can be made here: PyPI answers, and a Python fits.
    pub fn check(&'static self) -> Result<(), String> {
        obtainable(&[self])?;
        let Err(error) = self.script("check") else { return Ok(()) };
        Err(error.to_string().lines().last().unwrap_or_default().to_owned())
    }

    fn script(&self, action: &str) -> Result<String> {
        let mut script = python();
        script.arg(SCRIPT).arg(action).arg((self.folder)()).arg(self.requirements);
        shell::output(script.current_dir(&paths().workspace))
    }
}

impl Provider for PypiEnvironment {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn requires(&self) -> &'static [Need] {
        &[&super::ENVIRONMENT]
    }

    fn probe(&self) -> Option<String> {
        self.script("probe").ok()
    }

    fn plan(&self) -> String {
        self.script("plan").unwrap_or_else(|error| format!("installing it: {error:#}"))
    }

    fn install(&self) -> Result<()> {
        self.script("install").map(drop)
    }

    fn by_hand(&self) -> String {
        format!("python3 {SCRIPT} install {} {}", (self.folder)().display(), self.requirements)
    }
}
