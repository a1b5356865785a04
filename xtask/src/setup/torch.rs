//! PyTorch from Debian's packages, a build for processors.

use std::path::Path;
use std::process::Command;

use super::Provider;

/// Debian's Python, for which Debian's PyTorch is built.
pub const TORCH_PYTHON: &str = "/usr/bin/python3";
/// PyTorch, and the digits of scikit-learn. The last one makes environments.
const PACKAGES: [&str; 3] = ["python3-torch", "python3-sklearn", "python3-venv"];
const MODULES: &str = "/usr/lib/python3/dist-packages";

pub struct Torch;

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
