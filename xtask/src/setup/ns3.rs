//! ns-3, pinned: the simulator that `bench ns3` compares ours with.

use anyhow::Result;

use super::machine::Machine;
use super::{Need, Provider, paths, python, shell};

const VERSION: &str = "3.44.post0";

pub(super) struct Ns3;

impl Provider for Ns3 {
    fn name(&self) -> String {
        format!("ns-3 {VERSION}")
    }

    fn requires(&self) -> &'static [Need] {
        &[Need::Python]
    }

    fn probe(&self, _machine: &Machine) -> Result<Option<String>> {
        let record = format!("ns3-{VERSION}.dist-info");
        let installed = python::site_packages().iter().any(|folder| folder.join(&record).is_dir());
        Ok(installed.then(|| paths().venv.display().to_string()))
    }

    /// pip suffices, and that is a requirement.
    fn can_install(&self, _machine: &Machine) -> bool {
        true
    }

    fn plan(&self, _machine: &Machine) -> String {
        format!("installing ns-3 {VERSION} from PyPI into {}", paths().venv.display())
    }

    fn install(&self, _machine: &Machine) -> Result<()> {
        shell::run_quiet(&mut python::pip(&["install", &format!("ns3=={VERSION}")]))
    }

    fn by_hand(&self, _machine: &Machine) -> String {
        format!("{}/bin/pip install ns3=={VERSION}", paths().venv.display())
    }
}
