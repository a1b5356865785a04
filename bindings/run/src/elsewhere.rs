//! The sockets of other processes, as `/proc` lists them.

use std::{collections::HashSet, fs, io, path::Path, process};

/// A kernel thread (PF_KTHREAD), which has no descriptors.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The numbers of the sockets that other processes may have inherited from this one. `None`: one
/// process may be a descendant, and can't be looked at.
///
/// The kernel lists processes by their numbers, and a child's is higher as a rule. So a descendant
/// that begins meanwhile is listed too.
pub fn sockets() -> Option<HashSet<u64>> {
    let own = process::id();
    let start = Stat::of(own)?.start;
    let (mut sockets, mut is_whole) = (HashSet::new(), false);
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for number in numbers {
        // Root's first process is hidden if others' are (hidepid).
        is_whole |= number == 1;
        if number == own {
            continue;
        }
        match add_sockets(number, &mut sockets) {
            Err(error) if !has_gone(&error) => {
                let stat = Stat::of(number)?;
                if stat.start >= start && stat.flags & KERNEL_THREAD == 0 {
                    return None;
                }
            }
            _ => {}
        }
    }
    is_whole.then_some(sockets)
}

fn add_sockets(process: u32, sockets: &mut HashSet<u64>) -> io::Result<()> {
    for entry in fs::read_dir(Path::new("/proc").join(process.to_string()).join("fd"))? {
        match fs::read_link(entry?.path()) {
            Ok(link) => {
                let number = link.to_str().and_then(|link| link.strip_prefix("socket:["));
                let number =
                    number.and_then(|number| number.strip_suffix(']')?.parse::<u64>().ok());
                sockets.extend(number);
            }
            // It was closed meanwhile.
            Err(error) if has_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a process or descriptor has ended since it was listed.
fn has_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// A process's line of proc_pid_stat(5).
struct Stat {
    flags: u64,
    /// In clock ticks since the boot.
    start: u64,
}

impl Stat {
    fn of(process: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name, in parentheses, may have any characters.
        let mut fields = stat.rsplit(") ").next()?.split(' ');
        let flags = fields.nth(6)?.parse().ok()?;
        Some(Self { flags, start: fields.nth(12)?.parse().ok()? })
    }
}
