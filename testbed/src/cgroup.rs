//! Control groups (v2): their mount point, and cgroups for tests.

use anyhow::{Context, Result};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// A cgroup that holds only the processes put into it. It is removed when dropped.
#[derive(Debug)]
pub struct TestCgroup(PathBuf);

impl TestCgroup {
    /// Makes a cgroup directly below the root of the hierarchy.
    pub fn new() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let root = cgroup2_mount().context("cgroup v2 is not mounted")?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("atp-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }

    /// Makes a child of this cgroup.
    pub fn below(&self, name: &str) -> Result<Self> {
        let path = self.0.join(name);
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }

    /// The cgroup's folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the program of `command` a member before it starts, and so before it opens sockets.
    pub fn adopt(&self, command: &mut Command) -> Result<()> {
        let members: File = OpenOptions::new().write(true).open(self.0.join("cgroup.procs"))?;
        // SAFETY: between fork and exec only one system call is made. 0 means the writing process.
        unsafe {
            command.pre_exec(move || (&members).write_all(b"0"));
        }
        Ok(())
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        // A process that ended a moment ago may still count as a member.
        for _ in 0..100 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

/// The mount point of cgroup v2.
pub fn cgroup2_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let at = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(at))
    })
}
