//! virtme-ng, pinned: boots a kernel with this machine's root file system, read-only.

use anyhow::Result;

use super::machine::Machine;
use super::{Need, Provider, paths, python, shell};

const VERSION: &str = "1.42";

pub(super) struct VirtmeNg;

impl Provider for VirtmeNg {
    fn name(&self) -> String {
        format!("virtme-ng {VERSION}")
    }

    fn requires(&self) -> &'static [Need] {
        &[Need::Python]
    }

    fn probe(&self, _machine: &Machine) -> Result<Option<String>> {
        let record = format!("virtme_ng-{VERSION}.dist-info");
        let installed = python::site_packages().iter().any(|folder| folder.join(&record).is_dir());
        Ok((installed && paths().vng.is_file()).then(|| paths().vng.display().to_string()))
    }

    /// pip suffices, and that is a requirement.
    fn can_install(&self, _machine: &Machine) -> bool {
        true
    }

    fn plan(&self, _machine: &Machine) -> String {
        format!("installing virtme-ng {VERSION} from PyPI into {}", paths().venv.display())
    }

    fn install(&self, _machine: &Machine) -> Result<()> {
        shell::run_quiet(&mut python::pip(&["install", &format!("virtme-ng=={VERSION}")]))
    }

    fn by_hand(&self, _machine: &Machine) -> String {
        format!("{}/bin/pip install virtme-ng=={VERSION}", paths().venv.display())
    }
}
