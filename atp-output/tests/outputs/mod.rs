//! Standard outputs that take nothing, for the tests of all programs.

#![allow(dead_code, reason = "most programs print nothing beside it")]

use std::process::{Command, Output, Stdio};

/// Standard outputs that lose what is written, as a shell opens them.
const LOSING: [&str; 3] = [">/dev/full", ">&-", "1</dev/null"];

/// Checks that the program says in one sentence that its output was lost, and ends with 1; and that
/// it ends without a word, with 141, if the output's reader has exited.
pub fn check(command: impl Fn() -> Command) {
    check_beside(None, command);
}

/// As [`check`], for a program whose standard error has lines with `note` as well.
pub fn check_beside(note: Option<&str>, command: impl Fn() -> Command) {
    let said = |output: &Output| {
        let text = String::from_utf8(output.stderr.clone()).unwrap();
        let lines = text.lines().filter(|line| note.is_none_or(|note| !line.contains(note)));
        lines.map(|line| line.to_owned() + "\n").collect::<String>()
    };
    for redirection in LOSING {
        let command = command();
        let output = losing(&command, redirection);
        let said = said(&output);
        let what = format!("{command:?} {redirection}: {}: {said}", output.status);
        assert_eq!(output.status.code(), Some(1), "{what}");
        assert_eq!(said.matches("can't write to standard output: ").count(), 1, "{what}");
        assert_eq!(said.lines().count(), 1, "{what}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command();
    let child = command.stdout(writer).stderr(Stdio::piped()).stdin(Stdio::null()).spawn();
    let output = child.unwrap().wait_with_output().unwrap();
    let said = said(&output);
    let what = format!("{command:?} without a reader: {}: {said}", output.status);
    assert_eq!((output.status.code(), said.as_str()), (Some(141), ""), "{what}");
}

/// Runs the program in a shell with this redirection of its output.
fn losing(command: &Command, redirection: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec \"$0\" \"$@\" {redirection}"));
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    child.unwrap().wait_with_output().unwrap()
}
