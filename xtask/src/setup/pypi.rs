//! Environments of their own with packages from PyPI that exclude others. The downloads are large,
//! so their sizes are printed first.

use std::path::Path;

use anyhow::Result;

use super::python::python;
use super::{Need, Provider, obtainable, paths, shell};

/// Makes the environments.
const SCRIPT: &str = "bindings/python/tests/pypi_environment.py";

pub struct PypiEnvironment {
    name: &'static str,
    requirements: &'static str,
    folder: fn() -> &'static Path,
}

/// PyTorch that is for GPUs, and has FSDP2.
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
        let last_line = |error: anyhow::Error| error.to_string().lines().last().map(str::to_owned);
        self.script("check").map(drop).map_err(|error| last_line(error).unwrap_or_default())
    }

    fn script(&self, action: &str) -> Result<String> {
        let [script, requirements] =
            [SCRIPT, self.requirements].map(|path| paths().workspace.join(path));
        shell::output(python().arg(script).arg(action).arg((self.folder)()).arg(requirements))
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
        let folder = (self.folder)().display();
        format!("python3 {SCRIPT} install {folder} {}", self.requirements)
    }
}
