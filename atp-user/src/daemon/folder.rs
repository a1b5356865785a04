//! Folders for locks and sockets. Another user may own one: no link in its path is followed but
//! those that only root can change.

use anyhow::{Context, Result, ensure};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, openat},
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat},
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Component, Path, PathBuf},
};

/// The right to write for users other than the owner.
const WRITE_BY_OTHERS: u32 = 0o022;
/// The most links of a path, as in the kernel.
const LINKS_MAX: usize = 40;
/// With this bit, users can remove only their own files.
const STICKY: u32 = 0o1000;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// A name that has another file than the expected one.
#[derive(Debug, thiserror::Error)]
#[error("{path} is {kind}")]
pub struct Planted {
    path: String,
    kind: &'static str,
}

impl Folder {
    /// Opens a folder; `None` if there is none.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Self::opened(open_path(&without_links_of_root(path)), path)
    }

    fn opened(folder: nix::Result<OwnedFd>, path: &Path) -> Result<Option<Self>> {
        match folder {
            Ok(descriptor) => Ok(Some(Self { descriptor, path: path.into() })),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ELOOP) => anyhow::bail!(
                "the path {} has a symbolic link: state the folder without links",
                path.display()
            ),
            Err(error) => {
                Err(error).with_context(|| format!("can't open the folder {}", path.display()))
            }
        }
    }

    /// Opens a folder, and makes it and its parents if there is none.
    pub fn create(path: &Path) -> Result<Self> {
        if let Some(folder) = Self::open(path)? {
            return Ok(folder);
        }
        let creating = || {
            format!(
                "can't create the folder {}: run as root, or choose another one",
                path.display()
            )
        };
        let (parent, name) = path.parent().zip(path.file_name()).with_context(creating)?;
        let parent = Self::create(parent)?;
        match mkdirat(&parent.descriptor, name, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error).with_context(creating),
        }
        Self::opened(open_folder(&parent.descriptor, name), path)?.with_context(creating)
    }

    /// Refuses a folder in which a user other than this one and root can replace files.
    pub fn require_own(&self) -> Result<()> {
        let stat = self.stat()?;
        let (mode, at) = (stat.st_mode, self.path.display());
        ensure!(
            stat.st_uid == 0 || stat.st_uid == geteuid().as_raw(),
            "the folder {at} belongs to user {}: choose one that belongs to root or to the daemon's \
             user",
            stat.st_uid
        );
        ensure!(
            mode & WRITE_BY_OTHERS == 0 || mode & STICKY != 0,
            "other users can write to the folder {at}: choose one that only root or the daemon's \
             user can write to"
        );
        Ok(())
    }

    /// Opens a file of this user or of the folder's owner, and makes it if there is none.
    ///
    /// # Errors
    /// [`Planted`] if the name has a link, a file with several names, another user's file, or
    /// something that isn't a file. It is neither opened nor changed.
    pub fn file(&self, name: &str) -> Result<File> {
        let opening = || format!("can't open {}: run as root", self.at(name).display());
        loop {
            let at = &self.descriptor;
            let path = match open_without_link(at, name, OFlag::O_PATH, Mode::empty()) {
                Ok(path) => path,
                Err(Errno::ENOENT) => {
                    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
                    let mode = Mode::from_bits_truncate(0o600);
                    match open_without_link(at, name, flags, mode) {
                        Err(Errno::EEXIST) => continue,
                        file => return file.map(File::from).with_context(opening),
                    }
                }
                Err(error) => return Err(error).with_context(opening),
            };
            let owners = [geteuid().as_raw(), self.stat()?.st_uid];
            if let Some(kind) = unexpected(&fstat(&path)?, owners) {
                return Err(Planted { path: self.at(name).display().to_string(), kind }.into());
            }
            // The same file, whatever has the name by now.
            let path = format!("/proc/self/fd/{}", path.as_raw_fd());
            return OpenOptions::new().read(true).write(true).open(path).with_context(opening);
        }
    }

    /// Whether the name is that of `file`.
    pub fn has(&self, name: &str, file: &File) -> Result<bool> {
        let own = fstat(file)?;
        let named = fstatat(&self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        Ok(named.is_ok_and(|named| (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)))
    }

    /// Removes the name of a file.
    pub fn remove(&self, name: &str) {
        unlinkat(&self.descriptor, name, UnlinkatFlags::NoRemoveDir).ok();
    }

    /// The path of a name.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A path to a name in this very folder, whatever has the folder's own path by now.
    pub fn through(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd").join(self.descriptor.as_raw_fd().to_string()).join(name)
    }

    fn stat(&self) -> Result<FileStat> {
        fstat(&self.descriptor).with_context(|| format!("can't inspect {}", self.path.display()))
    }
}

/// The path without the links that belong to root and stand in folders that only root can change,
/// such as `/var/run`, and `/run/atp-daemon`, which systemd makes for a dynamic user. Other links
/// stay: opening refuses them.
fn without_links_of_root(path: &Path) -> PathBuf {
    let mut left = reversed(&std::path::absolute(path).unwrap_or_else(|_| path.into()));
    let (mut resolved, mut links) = (PathBuf::from("/"), 0);
    while let Some(name) = left.pop() {
        let at = resolved.join(&name);
        match link_of_root(&resolved, &at) {
            Some(target) if links < LINKS_MAX => {
                links += 1;
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                left.extend(reversed(&target));
            }
            _ if name == ".." => {
                resolved.pop();
            }
            _ => resolved = at,
        }
    }
    resolved
}

/// The names of a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    let names = names.filter(|name| matches!(name, Component::Normal(_) | Component::ParentDir));
    names.map(|name| name.as_os_str().to_owned()).collect()
}

/// The target of a link that only root can change.
fn link_of_root(folder: &Path, at: &Path) -> Option<PathBuf> {
    let (folder, link) = (fs::metadata(folder).ok()?, fs::symlink_metadata(at).ok()?);
    let only_root = folder.uid() == 0 && folder.mode() & WRITE_BY_OTHERS == 0 && link.uid() == 0;
    if only_root && link.is_symlink() { fs::read_link(at).ok() } else { None }
}

/// Opens an absolute path without following a link, one name after the other: systemd answers
/// `openat2` with ENOSYS in services of dynamic users (RestrictSUIDSGID).
fn open_path(path: &Path) -> nix::Result<OwnedFd> {
    let root = open("/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    reversed(path).iter().rev().try_fold(root, |folder, name| open_folder(&folder, name))
}

/// Opens a folder in another one. ELOOP: the name is that of a link.
fn open_folder(folder: &OwnedFd, name: &OsStr) -> nix::Result<OwnedFd> {
    let opened = open_without_link(folder, name, OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty());
    opened.map_err(|error| {
        let named = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let is_link =
            named.is_ok_and(|named| named.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFLNK.bits());
        if is_link { Errno::ELOOP } else { error }
    })
}

/// Opens a name. A link is opened itself (O_PATH), or refused.
fn open_without_link(
    folder: &OwnedFd,
    name: impl AsRef<Path>,
    flags: OFlag,
    mode: Mode,
) -> nix::Result<OwnedFd> {
    openat(folder, name.as_ref(), flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, mode)
}

/// The kind of a file that isn't a file of one of these users alone.
fn unexpected(stat: &FileStat, owners: [u32; 2]) -> Option<&'static str> {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG if stat.st_nlink > 1 => Some("a file with another name"),
        SFlag::S_IFREG if !owners.contains(&stat.st_uid) => Some("a file of another user"),
        SFlag::S_IFREG => None,
        SFlag::S_IFLNK => Some("a symbolic link"),
        SFlag::S_IFDIR => Some("a folder"),
        SFlag::S_IFIFO => Some("a FIFO"),
        SFlag::S_IFSOCK => Some("a socket"),
        _ => Some("a device"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::mkfifo;
    use std::{
        fs,
        os::unix::{
            fs::{PermissionsExt, symlink},
            net::UnixListener,
        },
    };

    #[test]
    fn file__touches_nothing_but_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path()).unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "precious").unwrap();
        symlink(&target, dir.path().join("link")).unwrap();
        symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
        fs::hard_link(&target, dir.path().join("name")).unwrap();
        mkfifo(&dir.path().join("fifo"), Mode::S_IRWXU).unwrap();
        let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        for (name, kind) in [
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("name", "a file with another name"),
            ("fifo", "a FIFO"),
            ("socket", "a socket"),
            ("folder", "a folder"),
        ] {
            let error = folder.file(name).unwrap_err().downcast::<Planted>().unwrap();
            assert_eq!(error.kind, kind, "{name}");
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(!dir.path().join("nowhere").exists());
        // A name without a file gets one, and has the same one the next time.
        let made = folder.file("new").unwrap();
        assert!(folder.has("new", &made).unwrap() && !folder.has("target", &made).unwrap());
        assert!(folder.has("new", &folder.file("new").unwrap()).unwrap());
    }

    #[test]
    fn create__follows_no_link_that_others_can_change() {
        let dir = tempfile::tempdir().unwrap();
        Folder::create(&dir.path().join("a/b/c")).unwrap();
        symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        for path in ["link", "link/b", "link/new/b"] {
            let error = Folder::create(&dir.path().join(path)).unwrap_err().to_string();
            assert!(error.contains("has a symbolic link"), "{error}");
        }
        assert!(!dir.path().join("a/new").exists());
        assert!(Folder::open(&dir.path().join("none/b")).unwrap().is_none());
    }

    /// As root: systemd's links have these forms. Another user's links in folders of its own stay.
    #[test]
    fn open__follows_links_of_root_alone() {
        let dir = tempfile::tempdir().unwrap();
        Folder::create(&dir.path().join("private/b")).unwrap();
        symlink("private", dir.path().join("relative")).unwrap();
        symlink(dir.path().join("relative/../private"), dir.path().join("absolute")).unwrap();
        symlink("itself", dir.path().join("itself")).unwrap();
        let is_root = geteuid().is_root();
        for path in ["relative/b", "absolute/b", "./relative/../absolute/b"] {
            let opened = Folder::open(&dir.path().join(path));
            assert_eq!(opened.is_ok_and(|found| found.is_some()), is_root, "{path}");
        }
        assert!(Folder::open(&dir.path().join("itself")).is_err());
        if is_root {
            std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
            assert!(Folder::open(&dir.path().join("relative/b")).is_err());
        }
    }

    #[test]
    fn require_own__refuses_folders_that_others_write_to() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path()).unwrap();
        for (mode, is_own) in
            [(0o700, true), (0o755, true), (0o1777, true), (0o777, false), (0o775, false)]
        {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(folder.require_own().is_ok(), is_own, "{mode:o}");
        }
    }
}
