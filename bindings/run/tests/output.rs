//! `atp-run` with a standard output that takes nothing, or that was closed.

#[path = "../../../atp-output/tests/outputs/mod.rs"]
mod outputs;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

const ATP_RUN: &str = env!("CARGO_BIN_EXE_atp-run");

#[test]
fn output__that_is_lost() {
    for word in ["--help", "--version"] {
        outputs::check(|| {
            let mut command = Command::new(ATP_RUN);
            command.arg(word);
            command
        });
    }
}

/// A program that was started with closed streams has them closed under `atp-run` too.
#[test]
fn streams__that_were_closed_stay_closed() {
    let library = std::env::current_exe().unwrap().with_file_name("libatp_run.so");
    // Which of its streams are open.
    let program = ["sh", "-c", "for n in 0 1 2; do test -e /proc/self/fd/$n; echo $? >&3; done"];
    let open = |under: bool, redirections: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        let script = format!("exec \"$0\" \"$@\" 3>{} {redirections}", file.path().display());
        shell.arg("-c").arg(script);
        if under {
            shell.args([ATP_RUN, "--map", "9", "--library"]).arg::<&PathBuf>(&library).arg("--");
        }
        let status = shell.args(program).stdin(Stdio::null()).status().unwrap();
        (status.code(), std::fs::read_to_string(file.path()).unwrap())
    };
    for redirections in ["", ">&-", "<&-", "2>&-", "<&- >&- 2>&-"] {
        let plain = open(false, redirections);
        assert!(!plain.1.is_empty());
        assert_eq!(open(true, redirections), plain, "{redirections:?}");
    }
}
