//! The counted offsets in a file, for a receiver that is started again.

use crate::counted::Counted;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// A file with a receiver's [`Counted`], which no other receiver can open meanwhile.
///
/// The lock is on a file beside it, `NAME.lock`, because each [`StateFile::store`] replaces the
/// file itself. The file of the lock stays.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    folder: PathBuf,
    lock: File,
}

/// The state of a receiver can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file holds something else, or was cut off.
    #[error(
        "the state file {} is damaged: {source}; restore it, or move it away and accept that \
         windows may be counted again", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// Another receiver has it.
    #[error(
        "another receiver uses the state file {}: give each receiver a file of its own",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{action} the state file {} failed: {source}", path.display())]
    Io {
        /// Such as "writing".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl StateFile {
    /// Locks the file and reads it. A file that doesn't exist yet has no offsets.
    ///
    /// # Errors
    /// [`StateError`]. Nothing is overwritten.
    pub fn open(path: &Path) -> Result<(Self, Counted), StateError> {
        let failed =
            |action| move |source| StateError::Io { action, path: path.to_owned(), source };
        // Through links, which a rename would replace.
        let path = target(path).map_err(failed("finding"))?;
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        let mut lock = OpenOptions::new();
        let lock = lock.write(true).create(true).truncate(false).open(beside(&path, ".lock"));
        let lock = lock.map_err(failed("locking"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateError::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(failed("locking")(source)),
        }
        let counted = match fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json)
                .map_err(|source| StateError::Damaged { path: path.clone(), source })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Counted::default(),
            Err(source) => return Err(failed("reading")(source)),
        };
        Ok((Self { path, folder, lock }, counted))
    }

    /// Replaces the file's content. After a crash it has the old one or the new one.
    ///
    /// # Errors
    /// [`StateError::Io`]. The file has the old content then, unless the folder can't be synced.
    pub fn store(&self, counted: &Counted) -> Result<(), StateError> {
        self.try_store(counted).map_err(|source| {
            let path = self.path.clone();
            StateError::Io { action: "writing", path, source }
        })
    }

    fn try_store(&self, counted: &Counted) -> io::Result<()> {
        let temporary = beside(&self.path, ".tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(counted)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        File::open(&self.folder)?.sync_all()
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        // A forked child may have the descriptor, and would keep the lock.
        let _ = self.lock.unlock();
    }
}

/// The file that a path leads to, which may not exist yet.
fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(error)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(fs::canonicalize(folder.unwrap_or(Path::new(".")))?.join(name))
        }
        found => found,
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Count, GroupId, WindowHeader, testing};

    fn header() -> WindowHeader {
        let values = [Some("a"), None, Some("b")];
        let window = testing::window(&values, testing::sampling(&[]), |_| GroupId::EXACT, 0);
        window.header().unwrap().clone()
    }

    #[test]
    fn open__reads_what_store_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let (file, mut counted) = StateFile::open(&path).unwrap();
        assert_eq!(counted, Counted::default());
        counted.insert(&header());
        file.store(&counted).unwrap();
        assert!(matches!(StateFile::open(&path), Err(StateError::Locked { .. })));
        drop(file);
        let (_, read) = StateFile::open(&path).unwrap();
        assert_eq!((read.count(&header()), read), (Count::Repeated, counted));
    }

    #[test]
    fn open__overwrites_no_damaged_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for damaged in ["", "{}", "[{", "null", "[[1]]"] {
            fs::write(&path, damaged).unwrap();
            let error = StateFile::open(&path).unwrap_err().to_string();
            assert!(error.contains("state.json is damaged") && !error.contains('\n'), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn store__writes_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("state.json"), folder.path().join("link"));
        fs::write(&path, "[]").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let (file, mut counted) = StateFile::open(&link).unwrap();
        assert!(matches!(StateFile::open(&path), Err(StateError::Locked { .. })));
        counted.insert(&header());
        file.store(&counted).unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&path).unwrap().len() > 2);
    }

    #[test]
    fn open__says_which_folder_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let error = StateFile::open(&folder.path().join("none/state.json")).unwrap_err();
        assert!(error.to_string().contains("none/state.json"), "{error}");
    }
}
