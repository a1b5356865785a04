//! PyTorch from Debian's packages, a build for processors; and PyPI's, which has FSDP2. That one is
//! for GPUs, so the download is large, and its size is printed first.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::python::python;
use super::{Need, Provider, paths, shell};

/// Debian's Python, for which Debian's PyTorch is built.
pub const TORCH_PYTHON: &str = "/usr/bin/python3";
/// PyTorch, and the digits of scikit-learn. The last one makes environments.
const PACKAGES: [&str; 3] = ["python3-torch", "python3-sklearn", "python3-venv"];
const MODULES: &str = "/usr/lib/python3/dist-packages";
/// Makes the environment with PyPI's.
const SCRIPT: &str = "integrations/pytorch/tests/pypi_torch.py";

pub struct Torch;
pub struct TorchPypi;

impl Provider for Torch {
    fn name(&self) -> String {
        "PyTorch for Debian's Python".to_owned()
    }

    fn probe(&self) -> Option<String> {
        let is_there = |module| Path::new(MODULES).join(module).is_dir();
        let makes_environments = || {
            let tried = Command::new(TORCH_PYTHON).args(["-c", "import venv, ensurepip"]).output();
            tried.is_ok_and(|output| output.status.success())
        };
        let all = is_there("torch") && is_there("sklearn") && makes_environments();
        all.then(|| format!("{MODULES}/torch"))
    }

    fn debian_packages(&self) -> Vec<String> {
        PACKAGES.map(str::to_owned).to_vec()
    }

    fn by_hand(&self) -> String {
        "a Debian system with python3-torch and python3-sklearn".to_owned()
    }
}

impl Provider for TorchPypi {
    fn name(&self) -> String {
        "PyTorch from PyPI".to_owned()
    }

    fn requires(&self) -> &'static [Need] {
        &[&super::ENVIRONMENT]
    }

    fn probe(&self) -> Option<String> {
        script("probe").ok()
    }

    fn plan(&self) -> String {
        script("plan").unwrap_or_else(|error| format!("installing it: {error:#}"))
    }

    fn install(&self) -> Result<()> {
        script("install").map(drop)
    }

    fn by_hand(&self) -> String {
        format!("python3 {SCRIPT} install {}", paths().torch_pypi.display())
    }
}

fn script(action: &str) -> Result<String> {
    let script = paths().workspace.join(SCRIPT);
    shell::output(python().arg(script).arg(action).arg(&paths().torch_pypi))
}
