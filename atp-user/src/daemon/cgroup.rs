//! Finds cgroups (v2), wherever they are mounted.

use anyhow::{Context, Result, bail};
use atp_common::maps::CGROUP_LEVELS;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
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

/// The ids of the cgroup of process `pid` and of its ancestors, nearest first. Empty if this
/// process can't see that cgroup.
pub fn ids_of_process(pid: i32) -> Vec<u64> {
    let Ok(root) = mount_point() else { return Vec::new() };
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { return Vec::new() };
    let Some(path) = v2_path(&text) else { return Vec::new() };
    let folder = root.join(path.trim_start_matches('/'));
    folder
        .ancestors()
        .take_while(|ancestor| ancestor.starts_with(&root))
        .filter_map(|ancestor| fs::metadata(ancestor).ok())
        .map(|metadata| metadata.ino())
        .collect()
}

/// The cgroup of process `pid`, from the root of all; `None` if this process can't see it.
pub fn path_of_process(pid: i32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    v2_path(&text).map(PathBuf::from)
}

/// The id of the cgroup of the container that process `pid` is in; `None` if this process can't see
/// it.
pub fn id_of_container(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = container_path(v2_path(&text)?);
    let folder = mount_point().ok()?.join(path.trim_start_matches('/'));
    fs::metadata(folder).ok().map(|metadata| metadata.ino())
}

/// The part of a cgroup's path that its container can't choose: up to a unit of systemd, or to a
/// folder with the 64 digits of a container's id.
fn container_path(path: &str) -> &str {
    let ends_container = |folder: &str| {
        let digits = folder.split(|letter: char| !letter.is_ascii_hexdigit());
        let is_unit = [".scope", ".service"].iter().any(|end| folder.ends_with(end));
        is_unit || digits.into_iter().any(|digits| digits.len() == 64)
    };
    let mut end = 0;
    for folder in path.split_inclusive('/') {
        end += folder.len();
        if ends_container(folder.trim_end_matches('/')) {
            break;
        }
    }
    &path[..end]
}

/// The mount point of cgroup v2. Some machines have it below a v1 tree.
pub fn mount_point() -> Result<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("can't read the mount table")?;
    match find_v2(&table) {
        Some(path) => Ok(path),
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
            ("/machine.slice/a.service/payload/b".into(), "/machine.slice/a.service".into()),
            ("/user.slice/user@7.service/x.scope".into(), "/user.slice/user@7.service".into()),
            ("/lxc.payload.a/b".into(), "/lxc.payload.a/b".into()),
            ("/".into(), "/".into()),
        ] {
            assert_eq!(
                container_path(&path).trim_end_matches('/'),
                container.trim_end_matches('/')
            );
        }
    }

    #[test]
    fn v2_path__is_the_line_without_controllers() {
        assert_eq!(v2_path("4:memory:/a\n0::/user.slice/b\n"), Some("/user.slice/b"));
        assert_eq!(v2_path("4:memory:/a\n"), None);
    }
}
