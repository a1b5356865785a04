//! The file of measured cells: one JSON line each.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One measurement of a benchmark.
pub trait Cell: Clone + PartialEq + Serialize + DeserializeOwned {
    type Outcome: Serialize + DeserializeOwned;

    /// How a row begins.
    const ROW_BEGIN: &'static str;

    /// Whether `outcome` replaces that of an earlier row of this cell.
    fn replaces(&self, outcome: &Self::Outcome, before: &Self::Outcome) -> bool;
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Row<C, O> {
    #[serde(flatten)]
    cell: C,
    #[serde(flatten)]
    outcome: O,
}

/// The file of all rows.
pub struct Rows<C: Cell> {
    path: PathBuf,
    rows: Vec<(C, C::Outcome)>,
}

impl<C: Cell> Rows<C> {
    /// Reads the file, if there is one. Of a cell, the last line counts that replaces those before.
    ///
    /// # Errors
    /// The file can't be read or written, or has lines of another kind: then it stays as it is.
    pub fn open(path: &Path) -> Result<Self> {
        let file = || format!("can't write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(file)?;
        }
        OpenOptions::new().append(true).create(true).open(path).with_context(file)?;
        let text =
            fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        let (whole, part) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
        let foreign =
            |number| format!("line {number} of {} is no result of this benchmark", path.display());
        let mut rows = Self { path: path.to_owned(), rows: Vec::new() };
        for (number, line) in (1..).zip(whole.lines()) {
            let row: Row<C, C::Outcome> =
                serde_json::from_str(line).with_context(|| foreign(number))?;
            rows.insert(row.cell, row.outcome);
        }
        // A run that was killed may have left a part of a line.
        if !part.is_empty() {
            let begin = &part.as_bytes()[..part.len().min(C::ROW_BEGIN.len())];
            ensure!(C::ROW_BEGIN.as_bytes().starts_with(begin), foreign(whole.lines().count() + 1));
            fs::write(path, whole).with_context(file)?;
        }
        Ok(rows)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn get(&self, cell: &C) -> Option<&C::Outcome> {
        self.rows.iter().find(|(known, _)| known == cell).map(|(_, outcome)| outcome)
    }

    pub fn add(&mut self, cell: C, outcome: C::Outcome) -> Result<()> {
        let row = Row { cell, outcome };
        let line = serde_json::to_string(&row)? + "\n";
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        let written = file.write_all(line.as_bytes());
        written.with_context(|| format!("can't write {}", self.path.display()))?;
        self.insert(row.cell, row.outcome);
        Ok(())
    }

    fn insert(&mut self, cell: C, outcome: C::Outcome) {
        match self.rows.iter_mut().find(|(known, _)| *known == cell) {
            Some((_, before)) if cell.replaces(&outcome, before) => *before = outcome,
            Some(_) => {}
            None => self.rows.push((cell, outcome)),
        }
    }
}
