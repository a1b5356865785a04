//! A temporary folder beside the place where its content will go.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Removed with its content when dropped.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes a folder of this process's own inside `parent`.
    pub fn inside(parent: &Path) -> Result<TemporaryFolder> {
        let path = parent.join(format!(".setup-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("can't make {}", path.display()))?;
        Ok(TemporaryFolder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A folder that can't be removed does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
