//! Commands whose standard output is lost.

#[path = "../../atp-output/tests/outputs/mod.rs"]
mod outputs;

use std::process::Command;

#[test]
fn output__that_is_lost() {
    for words in [&["--help"][..], &["test", "--help"], &["--version"], &["book", "--check"]] {
        outputs::check(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
            command.args(words);
            command
        });
    }
}
