//! Copies of the programs that a guest runs. It reads this machine's files slowly, and again each
//! time that a program starts: so it takes copies into memory once, without debug information.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::setup;
use crate::test::kernel::{KernelTests, Start};

/// The folder of the copies in the guest, on a filesystem in memory.
pub const IN_MEMORY: &str = "/run/atp-tests";

/// Copies the daemon, the eBPF programs and the binaries of `starts` to `folder`, which the guest
/// can read.
pub fn pack(tests: &KernelTests, starts: &[Start], folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("can't empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    let binaries = starts.iter().map(|start| start.binary.path.as_path());
    for program in binaries.chain([tests.daemon.as_path()]) {
        strip(program, &folder.join(name(program)))?;
    }
    for object in tests.objects() {
        copy(&object, &folder.join(name(&object)))?;
    }
    Ok(())
}

/// The copy in the guest of a file that was packed.
pub fn in_guest(path: &Path) -> PathBuf {
    Path::new(IN_MEMORY).join(name(path))
}

fn name(path: &Path) -> &Path {
    Path::new(path.file_name().unwrap_or_default())
}

/// Without `strip`, the copy has the debug information, and the guest reads for a minute.
fn strip(program: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    let Some(strip) = setup::find_command("strip") else { return copy(program, to) };
    setup::output(Command::new(strip).arg("-o").arg(to).arg(program)).map(drop)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let words = || format!("can't copy {} to {}", from.display(), to.display());
    fs::copy(from, to).map(drop).with_context(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::kernel::Binary;

    #[test]
    fn pack_copies_what_the_guest_runs() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let object = folder.path().join("atp-ebpf.o");
        for file in [&object, &object.with_file_name("faults.o")] {
            fs::write(file, "programs").unwrap();
        }
        let tests = KernelTests {
            binaries: vec![Binary { name: "netns".to_owned(), path: own.clone() }],
            object: Ok(object),
            daemon: "/bin/sh".into(),
        };
        let packed = folder.path().join("packed");
        let start = Start { binary: &tests.binaries[0], filter: None, exact: false };
        // A repetition finds the copies of an earlier boot.
        for _ in 0..2 {
            pack(&tests, &[start, start], &packed).unwrap();
            for file in ["sh", "atp-ebpf.o", "faults.o"] {
                assert!(packed.join(file).exists(), "{file}");
            }
            let copy = packed.join(name(&own));
            setup::output(Command::new(copy).arg("--list")).unwrap();
        }
        assert_eq!(in_guest(&own), Path::new(IN_MEMORY).join(name(&own)));
    }
}
