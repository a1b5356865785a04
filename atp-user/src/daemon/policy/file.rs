//! Reads the file of a policy, which nobody but root and the daemon's own user may change.

use nix::unistd::geteuid;
use std::{
    fs::{self, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Far above any policy.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The permissions of a group and of others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The text of the file, if nobody but root and this process's user can change or replace it.
pub fn text(path: &Path) -> io::Result<String> {
    read(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::other(format!(
            "user {} can't read it: let all users read it (chmod o+r) and enter its folders \
             (chmod o+x)",
            geteuid()
        )),
        _ => error,
    })
}

/// The reason why a daemon of another user, such as the package's, can't read a file that root can.
pub fn warning(path: &Path) -> io::Result<Option<String>> {
    let lacks = |path: &Path, bit: u32| io::Result::Ok(fs::metadata(path)?.mode() & bit == 0);
    for folder in folders(path)? {
        if lacks(&folder, libc::S_IXOTH)? {
            let folder = folder.display();
            return Ok(Some(format!(
                "users other than root can't enter {folder}, and the package's service runs as \
                 one: allow it (chmod o+x), or put the file elsewhere"
            )));
        }
    }
    let warning = "users other than root can't read it, and the package's service runs as one: \
                   allow it (chmod o+r)";
    Ok(lacks(path, libc::S_IROTH)?.then(|| warning.into()))
}

fn read(path: &Path) -> io::Result<String> {
    for folder in folders(path)? {
        let metadata = fs::metadata(&folder)?;
        // In a sticky folder, such as /tmp, nobody replaces files of others.
        let is_writable = metadata.mode() & WRITABLE_BY_OTHERS != 0;
        if !is_own(&metadata) || (is_writable && metadata.mode() & libc::S_ISVTX == 0) {
            let folder = folder.display();
            let message = format!("others may write to {folder}: put it into a folder of root's");
            return Err(io::Error::other(message));
        }
    }
    // A pipe in its place must not block.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if !is_own(&metadata) {
        return Err(io::Error::other("another user owns it: give it to root (chown root)"));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(io::Error::other("others may write to it: forbid that (chmod go-w)"));
    }
    let mut text = String::new();
    let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// The folders along the path, and along that of the file to which links lead.
fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stated, real) = (std::path::absolute(path)?, path.canonicalize()?);
    let folders = stated.ancestors().skip(1).chain(real.ancestors().skip(1));
    Ok(folders.map(PathBuf::from).collect())
}

/// Whether root or this process's user owns it.
fn is_own(metadata: &Metadata) -> bool {
    [0, geteuid().as_raw()].contains(&metadata.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn text__refuses_files_that_others_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, "[others]\n").unwrap();
        for (mode, is_usable) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            chmod(&path, mode);
            assert_eq!(text(&path).is_ok(), is_usable, "mode {mode:o}");
        }
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        let inside = open.join("policy.toml");
        std::os::unix::fs::symlink(&path, &inside).unwrap();
        chmod(&path, 0o644);
        for (mode, is_usable) in [(0o755, true), (0o1777, true), (0o777, false)] {
            chmod(&open, mode);
            assert_eq!(text(&inside).is_ok(), is_usable, "a folder of mode {mode:o}");
        }
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        for (path, reason) in [(&pipe, "no file"), (&folder.path().join("none"), "No such file")] {
            let said = text(path).unwrap_err().to_string();
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn warning__what_keeps_other_users_from_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, "").unwrap();
        for (of_folder, of_file, expected) in [
            (0o755, 0o644, None),
            (0o711, 0o604, None),
            (0o755, 0o640, Some("read it")),
            (0o755, 0o600, Some("read it")),
            (0o750, 0o644, Some("enter")),
            (0o700, 0o600, Some("enter")),
        ] {
            chmod(folder.path(), of_folder);
            chmod(&path, of_file);
            let warned = warning(&path).unwrap();
            let is_expected = match (&warned, expected) {
                (Some(warned), Some(expected)) => warned.contains(&format!("can't {expected}")),
                (warned, expected) => warned.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{of_folder:o}, {of_file:o}: {warned:?}");
        }
    }
}
