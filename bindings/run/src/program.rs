//! Finds the program to run, and refuses those into which no library can be loaded.

use anyhow::{Context, Result, bail, ensure};
use std::{
    ffi::{CString, OsStr},
    fs::{self, File},
    io::Read,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// Interpreters of interpreters are a mistake.
const INTERPRETERS_MAX: usize = 4;
const PT_INTERP: u32 = 3;

/// The path of `name`, as a shell finds it.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    let is_program = |file: &PathBuf| {
        fs::metadata(file)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    found.into_iter().find(is_program).with_context(|| {
        format!("{} is in no folder of PATH: give its path", name.to_string_lossy())
    })
}

/// Refuses a program that the dynamic linker doesn't start, or starts without the library.
pub fn check(program: &Path) -> Result<()> {
    check_at(program, INTERPRETERS_MAX)
}

fn check_at(program: &Path, interpreters_left: usize) -> Result<()> {
    let shown = program.display();
    let mut start = Vec::new();
    let file = File::open(program).with_context(|| format!("can't read {shown}"))?;
    file.take(1 << 20).read_to_end(&mut start).with_context(|| format!("can't read {shown}"))?;
    if let Some(line) = start.strip_prefix(b"#!") {
        ensure!(interpreters_left > 0, "{shown}: its interpreter is a script of a script");
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words =
            line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let first = words.next().with_context(|| format!("{shown} names no interpreter"))?;
        let named = Path::new(OsStr::from_bytes(first));
        let interpreter = match named.file_name() {
            // `#!/usr/bin/env python3`
            Some(env) if env == "env" => match words.find(|word| !word.starts_with(b"-")) {
                Some(name) => find(OsStr::from_bytes(name))?,
                None => named.into(),
            },
            _ => named.into(),
        };
        return check_at(&interpreter, interpreters_left - 1);
    }
    let mode = fs::metadata(program)?.permissions().mode();
    if mode & 0o6000 != 0 || has_capabilities(program) {
        bail!(
            "{shown} runs with privileges of its own (setuid, setgid or file capabilities), so the \
             dynamic linker loads no library into it: run a copy without them"
        );
    }
    let own = File::open("/proc/self/exe").and_then(|mut file| {
        let mut start = [0; 20];
        file.read_exact(&mut start).map(|()| start)
    });
    let is_like_this = own.is_ok_and(|own| {
        start.len() > 64 && own[4..6] == start[4..6] && own[18..20] == start[18..20]
    });
    if !start.starts_with(b"\x7fELF") || !is_like_this {
        bail!("{shown} is no program for this machine's architecture: atp-run can't load into it");
    }
    if !has_interpreter(&start) {
        bail!(
            "{shown} is statically linked, so the dynamic linker loads no library into it: use a \
             dynamically linked build"
        );
    }
    Ok(())
}

/// Whether an ELF file of 64 bits names the dynamic linker.
fn has_interpreter(elf: &[u8]) -> bool {
    let number = |at: usize, len: usize| {
        let bytes = elf.get(at..at + len).unwrap_or_default();
        bytes.iter().rev().fold(0usize, |number, byte| number << 8 | usize::from(*byte))
    };
    let (first, size, len) = (number(32, 8), number(54, 2), number(56, 2));
    let kind = |index: usize| number(first.saturating_add(index * size).min(elf.len()), 4) as u32;
    (0..len).any(|index| kind(index) == PT_INTERP)
}

fn has_capabilities(program: &Path) -> bool {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability".as_ptr();
    // SAFETY: two texts; no value is asked for, only its length.
    unsafe { libc::getxattr(path.as_ptr(), name, std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8], mode: u32) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        check(file.path()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn check__takes_dynamic_programs_and_scripts() {
        let this = fs::read("/proc/self/exe").unwrap();
        assert_eq!(refusal(&this, 0o755), "");
        assert_eq!(refusal(b"#!/bin/sh\n", 0o755), "");
        assert_eq!(refusal(b"#!/usr/bin/env -S sh\n", 0o755), "");
    }

    #[test]
    fn check__refuses_with_one_sentence() {
        let this = fs::read("/proc/self/exe").unwrap();
        assert!(refusal(&this, 0o4755).contains("privileges"));
        assert!(refusal(&this, 0o2755).contains("privileges"));
        assert!(refusal(b"#!\n", 0o755).contains("interpreter"));
        assert!(refusal(b"text", 0o755).contains("architecture"));
        assert!(refusal(b"", 0o755).contains("architecture"));
        let mut fixed = this.clone();
        fixed[56..58].fill(0);
        assert!(refusal(&fixed, 0o755).contains("statically linked"));
        let mut other = this;
        other[18] ^= 1;
        assert!(refusal(&other, 0o755).contains("architecture"));
    }

    #[test]
    fn find__looks_into_the_path() {
        assert!(find(OsStr::new("sh")).unwrap().ends_with("sh"));
        assert!(find(OsStr::new("no-such-program")).unwrap_err().to_string().contains("PATH"));
    }
}
