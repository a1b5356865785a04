//! The shell script that a guest runs. Its output comes back through a file.

use std::{path::Path, time::Duration};

use crate::setup;
use crate::test::kernel::{self, KernelTests, Start};

use super::programs::{IN_MEMORY, in_guest};
use super::{BACKEND, FAULT_ROWS};

/// The processors of the guest.
pub const PROCESSORS: usize = 2;
/// The limit of each start of a binary in the guest. Emulation is about ten times slower than the
/// machine, and other work may double that.
pub const BINARY_LIMIT: Duration = Duration::from_secs(25 * 60);

/// Starts every binary once. An emulated machine is slow: it runs those that pace, if the host rung
/// ran the others. Their tests load the programs, so this kernel's verifier sees them.
pub fn every_binary<'a>(
    tests: &'a KernelTests,
    filter: Option<&'a str>,
    emulated: bool,
) -> Vec<Start<'a>> {
    let leaves_out = emulated && tests.can_run_here();
    let binaries = tests.binaries.iter().filter(|own| !leaves_out || own.depends_on_backend());
    binaries.map(|binary| Start { binary, filter, exact: false }).collect()
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
    // Jobs between hosts need the processors for themselves where those are emulated.
    let tests_at_once = if start.binary.depends_on_backend() { 1 } else { PROCESSORS };
    let arguments = start.arguments(tests_at_once);
    let arguments: Vec<String> = arguments.iter().map(|word| quoted(Path::new(word))).collect();
    let (limit, arguments) = (BINARY_LIMIT.as_secs(), arguments.join(" "));
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
    use super::*;
    use crate::test::vm::tests::two_binaries;
    use test_report::TestName;

    fn script(starts: &[Start]) -> String {
        let files = ["/shared/guest.log", "/shared/programs"].map(Path::new);
        text(&two_binaries(), starts, files, true)
    }

    #[test]
    fn text_runs_every_binary_with_the_filter() {
        let tests = two_binaries();
        let script = script(&every_binary(&tests, Some("fq"), false));
        for (binary, threads) in [("prog_run", 2), ("netns", 1)] {
            let run = format!("{binary}' '--test-threads={threads}' '--color=never' 'fq'\n");
            assert!(script.contains(&run), "{script}");
        }
        assert!(script.contains("export ATP_BACKEND='fq'\n"), "{script}");
        assert!(!script.contains("--exact"), "{script}");
    }

    #[test]
    fn every_binary_leaves_out_those_that_do_not_pace_when_emulated() {
        let tests = two_binaries();
        let starts = every_binary(&tests, None, true);
        let names: Vec<&str> = starts.iter().map(|start| start.binary.name.as_str()).collect();
        // Where this machine runs no kernel tests, the guest runs all.
        let expected = if tests.can_run_here() { &["netns"][..] } else { &["prog_run", "netns"] };
        assert_eq!(names, expected);
    }

    #[test]
    fn text_runs_repeated_tests_by_their_whole_names_in_their_binary_only() {
        let tests = two_binaries();
        let names = [TestName::new("netns", "rates"), TestName::new("netns", "job's_end")];
        let script = script(&tests.each_alone(&names).unwrap());
        let runs: Vec<&str> = script.lines().filter(|line| line.starts_with("timeout")).collect();
        assert_eq!(
            runs,
            [
                "timeout -k 5 1500 '/run/atp-tests/netns' '--test-threads=1' '--color=never' 'rates' '--exact'",
                r"timeout -k 5 1500 '/run/atp-tests/netns' '--test-threads=1' '--color=never' 'job'\''s_end' '--exact'",
            ]
        );
        assert_eq!(script.matches("echo '== netns'\n").count(), 2, "{script}");
    }

    #[test]
    fn quoted_survives_an_apostrophe() {
        assert_eq!(quoted(Path::new("/a'b")), r"'/a'\''b'");
    }
}
