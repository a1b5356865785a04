//! The processes of a group, as /proc shows them, and the processor time that they have used.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::Pid;

/// The kernel's USER_HZ, the unit of times in /proc: the same on all architectures that Rust has a
/// standard library for.
const TICKS_PER_S: u64 = 100;

/// One process, from /proc/PID/stat.
struct Process {
    folder: PathBuf,
    id: i32,
    parent: i32,
    group: i32,
    /// The processor time of the process, and of its children that ended and were waited for.
    ticks: u64,
}

/// The processor time that the group's processes and all their descendants have used. The time of a
/// process that ended is in that of its parent, so that the sum falls only if the parent was
/// another one.
pub fn processor_time(group: Pid) -> Duration {
    let ticks: u64 = tree(all(), group).iter().map(|process| process.ticks).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_S)
}

/// The time since boot in which a process of the machine waited for a processor; 0 if the kernel
/// doesn't say (without PSI).
pub fn processor_pressure() -> Duration {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = text.lines().find(|line| line.starts_with("some "));
    let total = some.and_then(|line| line.rsplit_once("total=")?.1.parse().ok());
    Duration::from_micros(total.unwrap_or(0))
}

/// The folders in /proc of the group's processes and all their descendants.
pub fn folders(group: Pid) -> Vec<PathBuf> {
    tree(all(), group).into_iter().map(|process| process.folder).collect()
}

fn all() -> Vec<Process> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    folders
        .filter_map(|folder| {
            let id = folder.file_name()?.to_str()?.parse().ok()?;
            // Processes that end meanwhile are left out.
            let stat = fs::read_to_string(folder.join("stat")).ok()?;
            parse(folder, id, &stat)
        })
        .collect()
}

/// The second field, in brackets, may hold any character.
fn parse(folder: PathBuf, id: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // utime, stime, cutime and cstime are the fields 14 to 17; the state, here the first, is 3.
    let times = fields.get(11..15)?.iter().map(|field| field.parse::<i64>());
    let ticks = times.sum::<Result<i64, _>>().ok()?;
    let (parent, group) = (fields.get(1)?.parse().ok()?, fields.get(2)?.parse().ok()?);
    Some(Process { folder, id, parent, group, ticks: u64::try_from(ticks).ok()? })
}

fn tree(mut all: Vec<Process>, group: Pid) -> Vec<Process> {
    let mut members = BTreeSet::new();
    loop {
        let before = members.len();
        for process in &all {
            // A child may have a group, a session or namespaces of its own.
            if process.group == group.as_raw() || members.contains(&process.parent) {
                members.insert(process.id);
            }
        }
        if members.len() == before {
            break;
        }
    }
    all.retain(|process| members.contains(&process.id));
    all
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;
    use crate::group::{BUSY_LOOP, Group, POLL};

    fn read(stat: &str) -> Option<Process> {
        parse(PathBuf::new(), 7, stat)
    }

    #[test]
    fn parse__adds_the_times_of_children() {
        let process =
            read("7 (a (b) c) S 5 6 6 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1").unwrap();
        assert_eq!((process.parent, process.group, process.ticks), (5, 6, 4_330));
        assert!(read("7 (a) S 5 6").is_none());
        assert!(read("").is_none());
    }

    #[test]
    fn tree__has_descendants_outside_of_the_group() {
        let process = |(id, parent, group): (i32, i32, i32)| Process {
            folder: PathBuf::from(id.to_string()),
            id,
            parent,
            group,
            ticks: 1,
        };
        // Children may come before their parents: numbers of processes begin anew.
        let all = [(3, 12, 3), (10, 1, 10), (12, 11, 12), (11, 10, 10), (20, 1, 20), (21, 1, 10)];
        let found = tree(all.map(process).into(), Pid::from_raw(10));
        assert_eq!(found.iter().map(|process| process.id).collect::<Vec<_>>(), [3, 10, 12, 11, 21]);
    }

    #[test]
    fn processor_time__counts_a_grandchild_with_a_session_of_its_own() {
        let mut shell = Command::new("sh");
        // It ends with the shell.
        shell.args(["-c", "setsid sh -c \"$1\" sh $$ & wait", "sh", BUSY_LOOP]);
        let mut group = Group::start(&mut shell).unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        while processor_time(group.id()) < Duration::from_millis(200) {
            assert!(Instant::now() < limit, "no processor time was counted");
            std::thread::sleep(POLL);
        }
        group.end();
    }
}
