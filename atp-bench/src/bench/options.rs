//! Options and checks that several benchmarks share.

use std::path::PathBuf;

use anyhow::{Result, bail};
use testbed::Launch;

use crate::installed;
use crate::result_file::ResultFile;

/// `--json`: where the results go.
#[derive(clap::Args)]
pub struct JsonOption {
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JsonOption {
    /// The file, if one was named; it is known to be writable.
    pub fn open(&self) -> Result<Option<ResultFile>> {
        self.json.as_deref().map(ResultFile::at).transpose()
    }
}

/// `--daemon`: the daemon that a benchmark runs.
#[derive(clap::Args)]
pub struct DaemonOption {
    /// Use this daemon instead of building one; it must carry its eBPF programs
    #[arg(long, value_name = "FILE")]
    daemon: Option<PathBuf>,
}

impl DaemonOption {
    /// How to start the daemon that was named, or the one that was built.
    pub fn launch(&self) -> Result<Launch> {
        self.daemon.clone().map_or_else(installed::launch, |program| {
            Ok(Launch { program, object: None, options: Vec::new() })
        })
    }
}

/// Refuses to run without root. `reason` completes "this benchmark ...".
pub fn require_root(reason: &str) -> Result<()> {
    if !testbed::privilege::is_root() {
        bail!("this benchmark {reason}: run it as root");
    }
    Ok(())
}
