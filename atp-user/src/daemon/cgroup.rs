//! Finds cgroups (v2), wherever they are mounted.

use anyhow::{Context, Result, bail};
use atp_common::maps::CGROUP_LEVELS;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The id of a cgroup as eBPF reports it: the inode number of its folder.
pub fn id_of(path: &Path) -> Result<u64> {
    let root = mount_point()?;
    if !path.is_absolute() {
        bail!("the cgroup path {} is relative: give an absolute path", path.display());
    }
    let folder = path.canonicalize().with_context(|| {
        format!(
            "can't find the cgroup {}: create it with mkdir below {}",
            path.display(),
            root.display()
        )
    })?;
    if !folder.starts_with(&root) || !folder.join("cgroup.procs").exists() {
        bail!("{} is not a cgroup: give a folder below {}", path.display(), root.display());
    }
    let depth = folder.strip_prefix(&root).map_or(0, |below| below.components().count());
    if depth == 0 {
        bail!(
            "the cgroup {} holds every process of this host: give a folder below it",
            path.display()
        );
    }
    if depth > CGROUP_LEVELS as usize {
        bail!(
            "the cgroup {} is {depth} levels deep: give one at most {CGROUP_LEVELS} levels deep",
            path.display()
        );
    }
    Ok(fs::metadata(&folder)?.ino())
}

/// The cgroup of a process, read once: later another process may have its number.
pub struct ProcessCgroup(String);

/// The number of a container whose cgroup this process can't see: that of the root cgroup.
pub const UNSEEN: u64 = 1;

/// Folders in which container managers make a cgroup for each container, below folders of pods.
const MANAGERS: [&str; 3] = ["docker", "kubepods", "libpod_parent"];

impl ProcessCgroup {
    /// # Errors
    /// The process has ended, or `/proc` hides it.
    pub fn of(pid: i32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        Ok(Self(v2_path(&text).unwrap_or("/").into()))
    }

    /// The cgroup at a path below the mount point.
    #[cfg(test)]
    pub fn at(path: &str) -> Self {
        Self(path.into())
    }

    /// The ids of the cgroup and of its ancestors, nearest first. Empty if this process can't see
    /// the cgroup.
    pub fn ids(&self) -> Vec<u64> {
        let Ok(root) = mount_point() else { return Vec::new() };
        let folder = root.join(self.0.trim_start_matches('/'));
        let folders = folder.ancestors().take_while(|ancestor| ancestor.starts_with(&root));
        folders.filter_map(id).collect()
    }

    /// The number of the container whose processes are in this cgroup.
    pub fn container(&self) -> u64 {
        let Ok(root) = mount_point() else { return UNSEEN };
        id(&root.join(container_path(&self.0).trim_start_matches('/'))).unwrap_or(UNSEEN)
    }

    /// The path of the cgroup, from the root of all.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }

    /// The user in whose login sessions this cgroup is.
    pub fn user(&self) -> Option<u32> {
        let slice = self.0.strip_prefix("/user.slice/user-")?;
        slice.split_once(".slice")?.0.parse().ok()
    }
}

/// The id of the cgroup in this folder.
fn id(folder: &Path) -> Option<u64> {
    fs::metadata(folder).ok().map(|metadata| metadata.ino())
}

/// The part of a cgroup's path that its container can't choose: up to the first folder that isn't a
/// slice of systemd, or to one with the 64 digits of a container's id in a manager's folder.
fn container_path(path: &str) -> &str {
    let has_id = |folder: &str| {
        folder.split(|letter: char| !letter.is_ascii_hexdigit()).any(|digits| digits.len() == 64)
    };
    let (mut end, mut is_managed) = (0, false);
    for folder in path.split_inclusive('/') {
        let name = folder.trim_end_matches('/');
        end += folder.len();
        is_managed |= MANAGERS.contains(&name);
        if has_id(name) || !(name.is_empty() || is_managed || name.ends_with(".slice")) {
            break;
        }
    }
    &path[..end]
}

/// The mount point of cgroup v2. Some machines have it below a v1 tree.
pub fn mount_point() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = FOUND.get() {
        return Ok(path.clone());
    }
    let table = fs::read_to_string("/proc/self/mountinfo").context("can't read the mount table")?;
    match find_v2(&table) {
        Some(path) => Ok(FOUND.get_or_init(|| path).clone()),
        None => bail!("cgroup v2 is not mounted: run `mount -t cgroup2 none /sys/fs/cgroup`"),
    }
}

/// The path of the v2 cgroup in `/proc/PID/cgroup`: its line begins with `0::`.
fn v2_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

fn find_v2(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let is_v2 = filesystem.split(' ').next() == Some("cgroup2");
        is_v2.then(|| mount.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_v2__below_a_v1_tree() {
        let table = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                     31 30 0:27 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n\
                     35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find_v2(table), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(find_v2("31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"), None);
    }

    #[test]
    fn id_of__refuses_the_root() {
        let Ok(root) = mount_point() else { return };
        let error = id_of(&root).unwrap_err().to_string();
        assert!(error.contains("every process"), "{error}");
    }

    #[test]
    fn container_path__ends_where_the_container_begins() {
        let id = "0123456789abcdef".repeat(4);
        for (path, container) in [
            (
                format!("/system.slice/docker-{id}.scope/sub.service"),
                format!("/system.slice/docker-{id}.scope"),
            ),
            (format!("/docker/{id}/system.slice"), format!("/docker/{id}")),
            (
                format!("/kubepods/burstable/pod7/{id}/{id}"),
                format!("/kubepods/burstable/pod7/{id}"),
            ),
            (
                format!("/kubepods.slice/kubepods-pod7.slice/crio-{id}.scope/container"),
                format!("/kubepods.slice/kubepods-pod7.slice/crio-{id}.scope"),
            ),
            ("/machine.slice/a.service/payload/b".into(), "/machine.slice/a.service".into()),
            ("/user.slice/user@7.service/x.scope".into(), "/user.slice/user@7.service".into()),
            // Of others, the first folder: a privileged container makes any cgroups below its own.
            (format!("/lxc.payload.a/{id}"), "/lxc.payload.a".into()),
            ("/lxc.payload.a/b.slice/c.scope".into(), "/lxc.payload.a".into()),
            ("/slurm/uid_7/job_9".into(), "/slurm".into()),
            ("/".into(), "/".into()),
        ] {
            assert_eq!(
                container_path(&path).trim_end_matches('/'),
                container.trim_end_matches('/')
            );
        }
    }

    #[test]
    fn user__of_login_sessions_only() {
        let user = |path: &str| ProcessCgroup::at(path).user();
        assert_eq!(user("/user.slice/user-1000.slice/session-3.scope"), Some(1000));
        assert_eq!(user("/user.slice/user-1000.slice/user@1000.service/app.slice"), Some(1000));
        for path in [
            "/",
            "/user.slice",
            "/system.slice/user.slice/user-1000.slice",
            "/user.slice/user-x.slice",
        ] {
            assert_eq!(user(path), None, "{path}");
        }
    }

    #[test]
    fn v2_path__is_the_line_without_controllers() {
        assert_eq!(v2_path("4:memory:/a\n0::/user.slice/b\n"), Some("/user.slice/b"));
        assert_eq!(v2_path("4:memory:/a\n"), None);
    }
}
