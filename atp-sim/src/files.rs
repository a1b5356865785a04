//! Writes files atomically: a file is complete or absent.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

/// Writes a file under a temporary name and then renames it. An interrupted program leaves the old
/// file. A pipe or a device is written directly.
///
/// # Errors
/// If the file cannot be written.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let Some(part) = part_of(path) else { return fs::write(path, text) };
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Checks that [`replace`] could write a file, without changing it.
///
/// # Errors
/// If the file cannot be written.
pub fn check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let Some(part) = part_of(path) else { return Ok(()) };
    fs::write(&part, "").and_then(|()| fs::remove_file(&part))
}

/// The temporary name of a file. It is in the same folder, because a rename cannot cross file
/// systems. `None` for a pipe, a device or a symbolic link: a rename would replace the link itself.
fn part_of(path: &Path) -> Option<PathBuf> {
    if path.symlink_metadata().is_ok_and(|known| !known.is_file()) {
        return None;
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(path.with_file_name(format!(".{name}.{}.part", process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replace__leaves_the_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        check(&path).unwrap();
        assert!(names(folder.path()).is_empty());
        replace(&path, "one").unwrap();
        check(&path).unwrap();
        replace(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn replace__writes_directly_to_a_device() {
        let device = Path::new("/dev/null");
        check(device).unwrap();
        replace(device, "nothing").unwrap();
        assert!(!device.metadata().unwrap().is_file());
    }

    #[test]
    fn check__fails_where_replace_fails() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in [folder.path().to_owned(), folder.path().join("no/such")] {
            assert!(check(&wrong).is_err() && replace(&wrong, "").is_err(), "{}", wrong.display());
        }
        assert!(names(folder.path()).is_empty());
    }
}
