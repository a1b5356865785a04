//! The file of results: one line per run, appended when the run ends.

use super::{RunsError, program};
use crate::experiment::Summary;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// One line: all that determines a result, and the result.
#[derive(Serialize, Deserialize)]
struct Record {
    /// The scheme, and the point in Rust's debug format. It shows every field, also the messages of
    /// a trace.
    point: String,
    summary: Summary,
}

/// A file of results, open for more.
#[derive(Debug)]
pub(super) struct RunFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl RunFile {
    /// Opens the file of this program in `folder`, and reads its results. The name of the file has
    /// the program's hash. With `is_fresh` the file begins anew.
    pub fn open(
        folder: &Path,
        is_fresh: bool,
    ) -> Result<(Self, BTreeMap<String, Summary>), RunsError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| RunsError { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let program = program::hash().map_err(failed(Path::new("/proc/self/exe")))?;
        let path = folder.join(format!("{program}.jsonl"));
        let (file, known) = read(&path, is_fresh).map_err(failed(&path))?;
        Ok((Self { path, file: Mutex::new(file) }, known))
    }

    /// Appends a result in one write, so that lines of two processes don't mix.
    pub fn append(&self, point: &str, summary: Summary) -> Result<(), RunsError> {
        let record = Record { point: point.to_owned(), summary };
        let written = serde_json::to_string(&record).map_err(io::Error::from).and_then(|line| {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(format!("{line}\n").as_bytes())
        });
        written.map_err(|source| RunsError { path: self.path.clone(), source })
    }
}

/// Opens a file and reads its lines. A line that isn't a record is ignored: a killed process leaves
/// a part of its last line.
fn read(path: &Path, is_fresh: bool) -> io::Result<(File, BTreeMap<String, Summary>)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    if is_fresh {
        file.set_len(0)?;
    }
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if bytes.last().is_some_and(|last| *last != b'\n') {
        file.write_all(b"\n")?;
    }
    let records = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let Record { point, summary } = serde_json::from_slice(line).ok()?;
        Some((point, summary))
    });
    let known = records.collect();
    Ok((file, known))
}
