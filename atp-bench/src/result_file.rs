//! A results file that is known to be writable before the measurement starts.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

/// A file for results. Its old content stays until the results are written.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
}

impl ResultFile {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn at(path: &Path) -> Result<ResultFile> {
        let is_new = !path.exists();
        let refused = || format!("can't write {}", path.display());
        OpenOptions::new().append(true).create(true).open(path).with_context(refused)?;
        if is_new {
            fs::remove_file(path).with_context(refused)?;
        }
        Ok(ResultFile { path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write_json(&self, results: &impl Serialize) -> Result<()> {
        self.write_text(&(serde_json::to_string_pretty(results)? + "\n"))
    }

    pub fn write_text(&self, text: &str) -> Result<()> {
        fs::write(&self.path, text).with_context(|| format!("can't write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at__leaves_the_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        let file = ResultFile::at(&path).unwrap();
        assert!(!path.exists());
        file.write_json(&[1]).unwrap();
        ResultFile::at(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n  1\n]\n");
        file.write_json(&()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "null\n");
    }

    #[test]
    fn at__says_which_file_can_not_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/results.json");
        let refusal = format!("{:#}", ResultFile::at(&path).unwrap_err());
        assert!(
            refusal.contains("missing/results.json") && refusal.contains("No such"),
            "{refusal}"
        );
    }
}
