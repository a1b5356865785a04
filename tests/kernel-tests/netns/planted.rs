//! Tests that root changes nothing outside of a folder in which another user plants files.

use anyhow::{Context, Result, ensure};
use nix::{
    sys::stat::{Mode, SFlag, mknod},
    unistd::mkfifo,
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, chown, symlink},
    path::Path,
};
use testbed::{DEVICE, Daemon, NOBODY, Pair, Process, TIMEOUT};

crate::trials! {
    planted__stop_follows_no_link,
    planted__daemon_follows_no_link,
}

type Plant = fn(&Path, &Path) -> Result<()>;

/// Makes a file of a kind at the path of a lock; the other path is a file of root's.
const PLANTS: [(&str, Plant); 5] = [
    ("a symbolic link", |at, target| Ok(symlink(target, at)?)),
    ("a file with another name", |at, target| Ok(fs::hard_link(target, at)?)),
    ("a FIFO", |at, _| Ok(mkfifo(at, Mode::S_IRWXU)?)),
    // The device of the numbers 1 and 7 takes no bytes.
    ("a device", |at, _| Ok(mknod(at, SFlag::S_IFCHR, Mode::S_IRWXU, libc::makedev(1, 7))?)),
    ("a folder", |at, _| Ok(fs::create_dir(at)?)),
];

/// As systemd does after a crash, in the folder of the service's user.
fn planted__stop_follows_no_link() -> Result<()> {
    for (kind, plant) in PLANTS {
        let pair = Pair::new()?;
        let target = pair.a.folder().join("precious");
        fs::write(&target, "precious")?;
        let state = pair.a.folder().join("state");
        fs::create_dir(&state)?;
        chown(&state, Some(NOBODY), Some(NOBODY))?;
        let lock = state.join(lock_name(&pair)?);
        plant(&lock, &target)?;
        // The handle of the daemon's qdisc.
        pair.a.namespace.run(&format!("tc qdisc replace dev {DEVICE} root handle a7a7: htb"))?;
        let mut command = pair.a.atp()?;
        command.arg("stop").arg("--socket").arg(pair.a.folder().join("none"));
        command.arg("--state-dir").arg(&state);
        let finished = Process::captured("atp-user stop", command)?.end(TIMEOUT)?;
        ensure!(fs::read_to_string(&target)? == "precious", "{kind}: root wrote to the target");
        ensure!(finished.status.success(), "{kind}: {finished:?}");
        let words = format!("{} is {kind}", lock.display());
        ensure!(finished.stdout.contains(&words), "{kind}: {finished:?}");
        ensure!(finished.stdout.lines().count() == 1 && finished.stderr.is_empty(), "{finished:?}");
        ensure!(fs::symlink_metadata(&lock).is_ok(), "{kind}: root removed what it doesn't know");
        let qdiscs = pair.a.namespace.run("tc qdisc show")?;
        ensure!(!qdiscs.contains("a7a7:"), "{kind}: a qdisc is left: {qdiscs}");
    }
    Ok(())
}

/// A daemon of root refuses another user's folder, and a link in its own.
fn planted__daemon_follows_no_link() -> Result<()> {
    let pair = Pair::new()?;
    let target = pair.a.folder().join("precious");
    let (theirs, own) = (pair.a.folder().join("theirs"), pair.a.folder().join("own"));
    for folder in [&theirs, &own] {
        fs::create_dir(folder)?;
    }
    chown(&theirs, Some(NOBODY), Some(NOBODY))?;
    for (kind, plant) in PLANTS {
        fs::write(&target, "precious")?;
        let mode = fs::metadata(&target)?.mode();
        let lock = own.join(lock_name(&pair)?);
        plant(&lock, &target)?;
        for (state, words) in [(&theirs, "belongs to user 65534"), (&own, kind)] {
            let command = Daemon::command(&pair.a, &own.join("atp.sock"), state, &[])?;
            let finished = Process::captured("the daemon", command)?.end(TIMEOUT)?;
            ensure!(finished.status.code() == Some(1), "{kind}: {finished:?}");
            let error = finished.stderr.lines().find(|line| line.starts_with("error: "));
            let error = error.with_context(|| format!("no error: {finished:?}"))?;
            ensure!(error.contains(words), "{kind}: {error}");
            ensure!(fs::read_to_string(&target)? == "precious", "{kind}: root wrote to the target");
        }
        ensure!(fs::metadata(&target)?.mode() == mode, "{kind}: root changed the mode");
        match lock.is_dir() {
            true => fs::remove_dir(&lock)?,
            false => fs::remove_file(&lock)?,
        }
    }
    let command = Daemon::command(&pair.a, &theirs.join("atp.sock"), &own, &[])?;
    let finished = Process::captured("the daemon", command)?.end(TIMEOUT)?;
    ensure!(finished.stderr.contains("belongs to user 65534"), "{finished:?}");
    ensure!(fs::read_dir(&theirs)?.next().is_none(), "files are left");
    Ok(())
}

/// The name of the lock's file for a host's interface.
fn lock_name(pair: &Pair) -> Result<String> {
    let namespace =
        pair.a.namespace.enter(|| Ok(fs::metadata("/proc/thread-self/ns/net")?.ino()))?;
    Ok(format!("{namespace}-{DEVICE}.lock"))
}
