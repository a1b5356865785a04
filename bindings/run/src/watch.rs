//! Reports programs that go around the library: raw socket calls, and io_uring.
//!
//! A seccomp filter asks a watching process about two rare system calls, `socket` for IPv4 and IPv6
//! and `io_uring_setup`. The watcher lets each go on, so the program runs as without it. A `socket`
//! call whose instruction lies outside of libc came from a program with system calls of its own.
//! The filter can't decide that itself: libc's address is another one in each process.

use anyhow::{Context, Result, ensure};
use std::{
    collections::HashSet,
    fs,
    io::{self, Write},
    mem::offset_of,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    os::unix::net::UnixStream,
    ptr::null_mut,
};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("atp-run is for x86-64 and aarch64: others pass arguments and name calls otherwise");

/// A signal of the program doesn't interrupt a call that the watcher has received (Linux 5.19).
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;
const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

/// Installs the filter in this process, and so in the program that it starts.
pub fn start() -> Result<()> {
    let (ours, theirs) = UnixStream::pair().context("can't make a socket pair")?;
    // SAFETY: this process has one thread, so the child may do as it likes.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()).context("can't start the watcher"),
        0 => {
            drop(ours);
            detach(theirs.as_raw_fd());
            watch(&theirs);
        }
        child => {
            drop(theirs);
            // SAFETY: no status is asked for. The watcher is the child's child, so that the program
            // has no child that it didn't start.
            unsafe { libc::waitpid(child, null_mut(), 0) };
        }
    }
    let listener = install().context("can't install a seccomp filter")?;
    send_descriptor(&ours, listener.as_raw_fd())
        .context("the watcher has ended: use --no-watch to go without it")
}

/// Becomes a process that the program's terminal and signals don't end, with standard error and the
/// descriptor `kept` alone.
fn detach(kept: RawFd) {
    // SAFETY: calls without memory; the process has one thread.
    unsafe {
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // A reader of the program's output waits for its end.
        libc::close(0);
        libc::close(1);
        let kept = kept as libc::c_uint;
        libc::close_range(3, kept - 1, 0);
        libc::close_range(kept + 1, libc::c_uint::MAX, 0);
    }
}

fn install() -> io::Result<OwnedFd> {
    let jump = |offset: usize, value: u32, yes: u8, no: u8| {
        let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        let test = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        [
            libc::sock_filter { code: load, jt: 0, jf: 0, k: offset as u32 },
            libc::sock_filter { code: test, jt: yes, jf: no, k: value },
        ]
    };
    let give = |value: u32| libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: value,
    };
    let (nr, arch) = (offset_of!(libc::seccomp_data, nr), offset_of!(libc::seccomp_data, arch));
    // The low half of the first argument: both architectures are little-endian.
    let domain = offset_of!(libc::seccomp_data, args);
    let mut program: Vec<libc::sock_filter> = [
        jump(arch, ARCHITECTURE, 0, 8),
        jump(nr, libc::SYS_io_uring_setup as u32, 7, 0),
        jump(nr, libc::SYS_socket as u32, 0, 4),
        jump(domain, libc::AF_INET as u32, 3, 0),
        jump(domain, libc::AF_INET6 as u32, 1, 0),
    ]
    .concat();
    program.extend([give(ALLOW), give(ASK)]);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let set = |flags: libc::c_ulong| {
        // SAFETY: the filter and its program are there.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const filter,
            )
        }
    };
    let mut fd = set(flags | WAIT_KILLABLE);
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        // SAFETY: no memory. Only a privileged process may do without it.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        fd = set(flags | WAIT_KILLABLE);
    }
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        fd = set(flags);
    }
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Room for one descriptor.
#[repr(C, align(8))]
struct Control([u8; 24]);

fn message(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all zero is a valid header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    message
}

fn send_descriptor(to: &UnixStream, fd: RawFd) -> Result<()> {
    let (mut byte, mut control) = (0u8, Control([0; 24]));
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let message = message(&mut part, &mut control);
    // SAFETY: the header and all that it points to are there, with room for one descriptor.
    let sent = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(head).cast::<RawFd>().write_unaligned(fd);
        libc::sendmsg(to.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    ensure!(sent == 1, "{}", io::Error::last_os_error());
    Ok(())
}

fn receive_descriptor(from: &UnixStream) -> Option<OwnedFd> {
    let (mut byte, mut control) = (0u8, Control([0; 24]));
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut message = message(&mut part, &mut control);
    // SAFETY: as above; the kernel writes a descriptor that is ours.
    unsafe {
        let flags = libc::MSG_CMSG_CLOEXEC;
        let got = libc::recvmsg(from.as_raw_fd(), &raw mut message, flags);
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if got != 1 || head.is_null() {
            return None;
        }
        Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(head).cast::<RawFd>().read_unaligned()))
    }
}

/// Instructions that are remembered as libc's.
const KNOWN_MAX: usize = 4_096;

/// What was reported, one sentence each, and what needs no second look.
#[derive(Default)]
struct Reported {
    io_uring: bool,
    raw_socket: bool,
    /// Threads and instructions: to read a process's map takes longer than its call.
    known: HashSet<(u32, u64)>,
}

/// Answers until no process has the filter.
fn watch(from: &UnixStream) -> ! {
    if let Some(listener) = receive_descriptor(from) {
        let mut reported = Reported::default();
        while answer(listener.as_raw_fd(), &mut reported) {}
    }
    // SAFETY: it always succeeds.
    unsafe { libc::_exit(0) }
}

const NOTIFICATION_RECEIVE: libc::c_ulong = request(0, 3, size_of::<libc::seccomp_notif>());
const NOTIFICATION_SEND: libc::c_ulong = request(1, 3, size_of::<libc::seccomp_notif_resp>());

/// A request of ioctl that reads and writes, as `<linux/seccomp.h>` defines it.
const fn request(number: usize, directions: usize, bytes: usize) -> libc::c_ulong {
    (directions << 30 | bytes << 16 | (b'!' as usize) << 8 | number) as libc::c_ulong
}

fn answer(listener: RawFd, reported: &mut Reported) -> bool {
    let mut ready = libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry; the structures are those of the requests.
    unsafe {
        libc::poll(&raw mut ready, 1, -1);
        if ready.revents & libc::POLLIN == 0 {
            return ready.revents == 0;
        }
        let mut asked: libc::seccomp_notif = std::mem::zeroed();
        if libc::ioctl(listener, NOTIFICATION_RECEIVE as _, &raw mut asked) != 0 {
            // The process was killed meanwhile.
            return true;
        }
        let sentence = sentence(&asked, reported);
        let mut reply: libc::seccomp_notif_resp = std::mem::zeroed();
        reply.id = asked.id;
        reply.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        libc::ioctl(listener, NOTIFICATION_SEND as _, &raw mut reply);
        if let Some(sentence) = sentence {
            // Nothing can be done about an error stream that fails.
            let _ = writeln!(io::stderr(), "atp-run: {sentence}");
        }
    }
    true
}

/// The sentence about a call, unless its kind was reported or it is libc's.
fn sentence(asked: &libc::seccomp_notif, reported: &mut Reported) -> Option<String> {
    let process = || {
        let name = fs::read_to_string(format!("/proc/{}/comm", asked.pid)).unwrap_or_default();
        format!("{} (process {})", name.trim_end(), asked.pid)
    };
    if i64::from(asked.data.nr) == libc::SYS_io_uring_setup {
        let is_new = !std::mem::replace(&mut reported.io_uring, true);
        return is_new
            .then(|| format!("{} uses io_uring: datagrams sent with it stay plain", process()));
    }
    let call = (asked.pid, asked.data.instruction_pointer);
    if reported.raw_socket || reported.known.contains(&call) {
        return None;
    }
    let maps = fs::read_to_string(format!("/proc/{}/maps", asked.pid)).ok()?;
    if is_known(&maps, call.1) {
        if reported.known.len() >= KNOWN_MAX {
            reported.known.clear();
        }
        reported.known.insert(call);
        return None;
    }
    reported.raw_socket = true;
    Some(format!("{} makes raw socket calls: its datagrams and connections stay plain", process()))
}

/// Whether the instruction lies in libc, or in a place that nobody knows.
fn is_known(maps: &str, instruction: u64) -> bool {
    let holds = |line: &&str| {
        let bounds = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        bounds.is_some_and(|(start, end)| {
            number(start).is_some_and(|start| start <= instruction)
                && number(end).is_some_and(|end| instruction < end)
        })
    };
    maps.lines().find(holds).is_none_or(|line| {
        let file = line.rsplit('/').next().unwrap_or_default();
        file.starts_with("libc.so") || file.starts_with("libc-") || file.starts_with("ld-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_known__finds_libc_by_the_instruction() {
        let maps = "1000-2000 r-xp 00000000 08:01 7 /usr/bin/program\n\
                    3000-4000 r-xp 00001000 08:01 8 /lib/x86_64-linux-gnu/libc.so.6\n\
                    5000-6000 r-xp 00000000 00:00 0\n";
        let known = [(0x1fff, false), (0x3000, true), (0x4000, true), (0x5000, false)];
        for (instruction, expected) in known {
            assert_eq!(is_known(maps, instruction), expected, "{instruction:x}");
        }
    }
}
