//! A Debian 12 that systemd-nspawn boots on this machine's kernel, with a network of its own.

use crate::{
    debian::{make_root, output},
    service::STEPS,
};
use anyhow::{Context, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Uses the package's service, and returns the number of steps.
pub fn test(deb: &Path) -> Result<usize> {
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let root = folder.path().join("root");
    make_root(&root, "iproute2,prometheus")?;
    fs::copy(deb, root.join("srv/atp.deb"))
        .with_context(|| format!("can't copy {}", deb.display()))?;
    let container = Container::boot(&root)?;
    for (name, script) in STEPS {
        let said = container.run(script).with_context(|| {
            let journal = container.run("journalctl --no-pager --lines=30 --unit=atp");
            format!("failed: {name}; the journal: {}", journal.unwrap_or_default())
        })?;
        print!("{said}");
        println!("test {name} ... ok");
    }
    Ok(STEPS.len())
}

/// A booted system. Dropping it ends all of its processes.
struct Container {
    nspawn: Child,
    init: Pid,
}

impl Container {
    /// Boots the system of a folder, with a network of its own, and waits until it has started.
    fn boot(root: &Path) -> Result<Self> {
        let mut boot = Command::new("systemd-nspawn");
        boot.arg("--directory").arg(root);
        boot.args(["--boot", "--quiet", "--register=no", "--keep-unit", "--private-network"]);
        boot.args(["--console=pipe", "--system-call-filter=bpf perf_event_open"]);
        boot.arg("--capability=CAP_NET_ADMIN,CAP_BPF,CAP_PERFMON");
        boot.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let nspawn = boot.spawn().context("can't start systemd-nspawn")?;
        let mut container = Self { nspawn, init: Pid::from_raw(0) };
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            ensure!(container.nspawn.try_wait()?.is_none(), "systemd-nspawn ended");
            ensure!(Instant::now() < deadline, "the system didn't start within two minutes");
            sleep(Duration::from_millis(500));
            let Some(init) = only_child(container.nspawn.id())? else { continue };
            container.init = Pid::from_raw(init);
            let state = container.run("systemctl is-system-running --wait || true");
            if state.is_ok_and(|state| ["running", "degraded"].contains(&state.trim())) {
                return Ok(container);
            }
        }
    }

    /// Runs commands in the system. Each must succeed.
    fn run(&self, script: &str) -> Result<String> {
        let mut enter = Command::new("nsenter");
        enter.arg("--target").arg(self.init.to_string());
        enter.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--"]);
        enter.args(["/bin/bash", "-euo", "pipefail", "-xc", script]);
        output(enter.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Never zero: that would be this process's group.
        let init =
            if self.init.as_raw() > 0 { self.init } else { Pid::from_raw(self.nspawn.id() as i32) };
        kill(init, Signal::SIGKILL).ok();
        self.nspawn.wait().ok();
        // Where systemd doesn't run, systemd-nspawn leaves its control groups behind. The kernel
        // keeps those in use.
        for hierarchy in ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
            for group in ["payload", "supervisor"] {
                remove_control_group(&Path::new(hierarchy).join(group));
            }
        }
    }
}

/// Removes a control group and those below it, if they are empty.
fn remove_control_group(path: &Path) {
    let Ok(files) = fs::read_dir(path) else { return };
    for below in files.flatten().filter(|file| file.path().is_dir()) {
        remove_control_group(&below.path());
    }
    fs::remove_dir(path).ok();
}

/// The only child of a process, if it has one already.
fn only_child(parent: u32) -> Result<Option<i32>> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
    Ok(children.split_whitespace().next().and_then(|child| child.parse().ok()))
}
