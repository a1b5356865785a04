//! Files that are there as a whole or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

/// Writes a file. Whoever is stopped meanwhile leaves what was there before: the text gets its name when it
/// is complete. What is no plain file, such as a pipe or a device, is written as it is.
///
/// # Errors
/// The kernel's word.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let Some(part) = part_of(path) else { return fs::write(path, text) };
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Whether [`replace`] can write there, without touching what is there.
///
/// # Errors
/// The kernel's word.
pub fn check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let Some(part) = part_of(path) else { return Ok(()) };
    fs::write(&part, "").and_then(|()| fs::remove_file(&part))
}

/// Where a file is written until it is complete: beside it, since names can't be changed from disk to
/// disk. None for what is no plain file; a link is somebody's wish about where things are.
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
    fn replace__a_device_stays_one() {
        let device = Path::new("/dev/null");
        check(device).unwrap();
        replace(device, "nothing").unwrap();
        assert!(!device.metadata().unwrap().is_file());
    }

    #[test]
    fn check__says_what_replace_would() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in [folder.path().to_owned(), folder.path().join("no/such")] {
            assert!(check(&wrong).is_err() && replace(&wrong, "").is_err(), "{}", wrong.display());
        }
        assert!(names(folder.path()).is_empty());
    }
}
