//! This process's privileges over the network. Root has all of them. Other users have all but eBPF
//! in a user namespace. Some containers allow neither.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::namespace::Namespace;

/// The advice where user namespaces are refused.
const GRANT: &str = "allow them (Debian: `sysctl kernel.unprivileged_userns_clone=1`; Ubuntu: \
                     `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; a container: \
                     `--security-opt seccomp=unconfined`, or `--privileged`) or run as root";

/// The privilege that a testbed runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Root of the machine, namespaces allowed.
    Root,
    /// A user namespace, which allows private networks, see [`enter_user_namespace`].
    UserNamespace,
    /// Neither; the sentence gives the reason and the missing permission.
    Denied(String),
}

/// Finds the privilege by trying, without changing this process.
pub fn current() -> Privilege {
    if Namespace::empty().is_ok() {
        return if owns_every_id() { Privilege::Root } else { Privilege::UserNamespace };
    }
    match try_in_child() {
        Ok(()) => Privilege::UserNamespace,
        Err(error) => {
            Privilege::Denied(explain(Errno::from_raw(error.raw_os_error().unwrap_or(0))))
        }
    }
}

/// Moves this process into a user namespace as its root, unless it may already make network
/// namespaces. Call it before starting a thread.
///
/// # Errors
/// One sentence that gives the reason and the missing permission.
pub fn enter_user_namespace() -> Result<()> {
    if Namespace::empty().is_ok() {
        return Ok(());
    }
    let (uid, gid) = (geteuid(), getegid());
    unshare_user().map_err(|errno| anyhow::Error::msg(explain(errno)))?;
    // A group map may be written only once setgroups is off.
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ] {
        match fs::write(format!("/proc/self/{file}"), text) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                bail!("user namespaces give no privileges here ({file}: {error}): {GRANT}")
            }
            written => written.with_context(|| format!("/proc/self/{file}"))?,
        }
    }
    Namespace::empty().map(drop).context(explain(Errno::EPERM))
}

/// Retries: the kernel refuses while a joined thread still exists, which can be a moment longer.
fn unshare_user() -> Result<(), Errno> {
    const TRIES: u32 = 100;
    for _ in 1..TRIES {
        match unshare(CloneFlags::CLONE_NEWUSER) {
            Err(Errno::EINVAL) => thread::sleep(Duration::from_millis(1)),
            done => return done,
        }
    }
    unshare(CloneFlags::CLONE_NEWUSER)
}

/// Makes the calling thread another user's, for good, with the group of that number alone. Threads
/// that it starts are that user's too, the others of the process aren't.
///
/// # Errors
/// The kernel's refusal.
pub fn become_user(uid: u32) -> Result<()> {
    // The C library's functions would change every thread of the process.
    // SAFETY: no memory is read, as the list of groups is empty. The calling thread's ids change.
    unsafe {
        Errno::result(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()))
            .and_then(|_| Errno::result(libc::syscall(libc::SYS_setresgid, uid, uid, uid)))
            .and_then(|_| Errno::result(libc::syscall(libc::SYS_setresuid, uid, uid, uid)))
    }
    .map(drop)
    .with_context(|| format!("can't become user {uid}"))
}

/// Runs `work` on a thread of this user, in this thread's network namespace. Descriptors that the
/// thread opens stay usable.
///
/// # Errors
/// The error of `work`, or the kernel's refusal to change the user id.
pub fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            become_user(uid)?;
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn try_in_child() -> io::Result<()> {
    let mut command = Command::new("true");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
    // SAFETY: between fork and exec the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(move || Ok(unshare(flags)?)) };
    command.status().map(drop)
}

fn explain(errno: Errno) -> String {
    match errno {
        Errno::ENOSPC | Errno::EUSERS => "no more namespaces are allowed here: raise \
             user.max_user_namespaces and user.max_net_namespaces with sysctl or run as root"
            .to_owned(),
        Errno::EINVAL => {
            "a user namespace can't be entered here (kernel without CONFIG_USER_NS, or threads run \
             already): run as root"
                .to_owned()
        }
        errno if geteuid().is_root() => format!(
            "this root may not make network namespaces ({}): a container needs CAP_SYS_ADMIN and \
             CAP_NET_ADMIN, for instance `--privileged`",
            errno.desc()
        ),
        errno => format!("user namespaces are refused here ({}): {GRANT}", errno.desc()),
    }
}

/// Whether this process is root of the machine, not only of a user namespace.
pub fn is_root() -> bool {
    geteuid().is_root() && owns_every_id()
}

/// Root of a user namespace has uid 0 too, but a mapping of few ids.
fn owns_every_id() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_every_id(&map))
}

fn maps_every_id(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_every_id__tells_the_machine_s_root() {
        assert!(maps_every_id("         0          0 4294967295\n"));
        assert!(!maps_every_id("         0       1000          1\n"));
        assert!(!maps_every_id(""));
    }

    #[test]
    fn explain__says_what_to_grant() {
        assert!(explain(Errno::ENOSPC).contains("user.max_user_namespaces"));
        assert!(explain(Errno::EPERM).contains("--privileged"));
        assert!(
            [Errno::EPERM, Errno::EINVAL, Errno::EUSERS]
                .iter()
                .all(|e| !explain(*e).contains('\n'))
        );
    }
}
