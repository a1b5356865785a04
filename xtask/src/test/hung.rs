//! Describes a program that hangs, before it is ended: where each of its threads waits.

use std::fs;
use std::path::Path;

use nix::unistd::Pid;

/// One line for each thread of the process group: the program, the thread, and the kernel function
/// in which it waits. Processes that end meanwhile are left out.
pub fn describe(group: Pid) -> String {
    let Ok(processes) = fs::read_dir("/proc") else { return String::new() };
    let mut lines = String::new();
    for process in processes.flatten() {
        let path = process.path();
        if group_of(&path) == Some(group) {
            lines.push_str(&threads(&path));
        }
    }
    lines
}

/// The fifth field of /proc/PID/stat. The second field, in brackets, may hold any character.
fn group_of(process: &Path) -> Option<Pid> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let group = stat.rsplit_once(')')?.1.split_whitespace().nth(2)?;
    Some(Pid::from_raw(group.parse().ok()?))
}

fn threads(process: &Path) -> String {
    let command = text(&process.join("cmdline")).replace('\0', " ");
    let Ok(threads) = fs::read_dir(process.join("task")) else { return String::new() };
    let lines = threads.flatten().map(|thread| {
        let [name, waits_in] = ["comm", "wchan"].map(|file| text(&thread.path().join(file)));
        let id = thread.file_name();
        let (id, command) = (id.to_string_lossy(), command.trim());
        format!("hung: {command}: thread {id} ({}) waits in {}\n", name.trim(), waits_in.trim())
    });
    lines.collect()
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn describe_names_a_program_of_the_group() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        // Until exec, it still has this process's name.
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut said = describe(group);
        while !said.contains("sleep 60") && Instant::now() < deadline {
            said = describe(group);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.starts_with("hung: sleep 60: thread "), "{said}");
        assert_eq!(describe(group), "");
    }
}
