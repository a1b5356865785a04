//! The shell script that a guest runs. Its output comes back through a file.

use std::{path::Path, time::Duration};

use anyhow::Result;
use test_report::TestName;

use crate::setup;
use crate::test::kernel::{self, KernelTests, Start};

use super::programs::{IN_MEMORY, in_guest};
use super::{BACKEND, FAULT_ROWS};

/// The limit of each test in the guest. Emulation is about ten times slower than the machine, and
/// other work may double that.
pub const TEST_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The tests to run. An emulated machine is slow: it runs those that depend on the backend, if the
/// host rung ran the others. They load the programs, so this kernel's verifier sees them.
pub fn selected(
    tests: &KernelTests,
    filter: Option<&str>,
    emulated: bool,
) -> Result<Vec<TestName>> {
    let pacing_only = emulated && tests.can_run_here();
    let binaries = tests.binaries.iter().filter(|own| !pacing_only || own.depends_on_backend());
    let names: Result<Vec<_>> = binaries.map(|own| own.tests(filter, pacing_only)).collect();
    Ok(names?.concat())
}

/// The script. All its output goes to `words`, each binary's part between two marks. `packed` has
/// the programs.
pub fn text(
    tests: &KernelTests,
    starts: &[Start],
    [words, packed]: [&Path; 2],
    emulated: bool,
) -> String {
    let mut script = format!("exec >{} 2>&1\n", quoted(words));
    script.push_str("mount -t bpf bpf /sys/fs/bpf\nip link set lo up\n");
    script.push_str(&format!("cp -r {} {IN_MEMORY}\n", quoted(packed)));
    let programs = tests.environment().into_iter().map(|(name, path)| (name, in_guest(path)));
    let mut variables: Vec<_> = programs.collect();
    variables.push((kernel::BACKEND_VARIABLE, BACKEND.into()));
    variables.push((kernel::FAULT_ROWS_VARIABLE, words.with_file_name(FAULT_ROWS)));
    if emulated {
        variables.push((kernel::EMULATED_VARIABLE, "1".into()));
    }
    if emulated && tests.can_run_here() {
        // An emulated machine is slow, and the host rung ran the tests that all backends share.
        variables.push((kernel::PACING_ONLY_VARIABLE, "1".into()));
    }
    for (name, value) in variables {
        script.push_str(&format!("export {name}={}\n", quoted(&value)));
    }
    script.push_str(&format!("cd {}\n", quoted(&setup::paths().workspace)));
    for start in starts {
        script.push_str(&commands(start));
    }
    // The output must be on disk before the guest ends.
    script.push_str("sync\n");
    script
}

fn commands(start: &Start) -> String {
    let (name, path) = (&start.binary.name, quoted(&in_guest(&start.binary.path)));
    let arguments = start.arguments(1);
    let arguments: Vec<String> = arguments.iter().map(|word| quoted(Path::new(word))).collect();
    let (limit, arguments) = (TEST_LIMIT.as_secs(), arguments.join(" "));
    // The second mark has a line of its own, also after a test that was ended within a line.
    format!(
        "echo '== {name}'\ntimeout -k 5 {limit} {path} {arguments}\n\
         printf '\\n== {name} ended %s\\n' \"$?\"\n"
    )
}

/// Quotes a word for the shell.
pub fn quoted(word: &Path) -> String {
    format!("'{}'", word.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::test::kernel::Binary;
    use crate::test::vm::tests::two_binaries;

    #[test]
    fn text_runs_each_test_by_its_whole_name() {
        let tests = two_binaries();
        let names = [TestName::new("netns", "rates"), TestName::new("netns", "job's_end")];
        let starts = tests.each_alone(&names).unwrap();
        let files = ["/shared/guest.log", "/shared/programs"].map(Path::new);
        let script = text(&tests, &starts, files, true);
        let runs: Vec<&str> = script.lines().filter(|line| line.starts_with("timeout")).collect();
        let run = "timeout -k 5 900 '/run/atp-tests/netns' '--test-threads=1' '--color=never'";
        assert_eq!(
            runs,
            [format!("{run} 'rates' '--exact'"), format!(r"{run} 'job'\''s_end' '--exact'"),]
        );
        assert_eq!(script.matches("echo '== netns'\n").count(), 2, "{script}");
        assert!(script.contains("export ATP_BACKEND='fq'\n"), "{script}");
    }

    #[test]
    fn selected_leaves_out_what_does_not_pace_when_emulated() {
        let folder = tempfile::tempdir().unwrap();
        let mut tests = two_binaries();
        for binary in &mut tests.binaries {
            let Binary { name, path } = binary;
            *path = folder.path().join(&*name);
            fs::write(&*path, format!("#!/bin/sh\nprintf '{name}_a: test\\nb: test\\n'\n"))
                .unwrap();
            fs::set_permissions(&*path, Permissions::from_mode(0o755)).unwrap();
        }
        let names = |emulated| -> Vec<String> {
            let selected = selected(&tests, None, emulated).unwrap();
            selected.iter().map(ToString::to_string).collect()
        };
        let all = ["prog_run::prog_run_a", "prog_run::b", "netns::netns_a", "netns::b"];
        assert_eq!(names(false), all);
        // Where this machine runs no kernel tests, the guest runs all.
        let expected = if tests.can_run_here() { &all[2..] } else { &all[..] };
        assert_eq!(names(true), expected);
    }

    #[test]
    fn quoted_survives_an_apostrophe() {
        assert_eq!(quoted(Path::new("/a'b")), r"'/a'\''b'");
    }
}
