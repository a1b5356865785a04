//! PyTorch from PyPI, which has FSDP2, in an environment of its own. The build is that for GPUs, so
//! the download is large: its size is printed first.

use anyhow::Result;

use super::python::python;
use super::{Need, Provider, paths, shell};

/// Does the work; its tests are those of the integration.
const SCRIPT: &str = "integrations/pytorch/tests/pypi_torch.py";

pub(super) struct TorchPypi;

impl Provider for TorchPypi {
    fn name(&self) -> String {
        "PyTorch from PyPI".to_owned()
    }

    fn requires(&self) -> &'static [Need] {
        &[Need::Python]
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
