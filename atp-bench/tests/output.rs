//! Commands whose standard output is lost.

#[path = "../../atp-output/tests/outputs/mod.rs"]
mod outputs;

use std::{fs, process::Command};

#[test]
fn output__that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.json");
    let row = r#"{"case": "loss", "kernel": "6.18", "backend": "htb", "injector": "eBPF",
        "injected": "loss", "jobs": [], "counters": {}, "failure": null}"#;
    fs::write(&rows, row.replace('\n', "")).unwrap();
    let rows = rows.to_str().unwrap();
    for words in [
        &["--help"][..],
        &["--version"],
        &["bench", "--help"],
        &["faults-table", rows],
        &["bench", "answers", "--rows", "1000", "--repetitions", "1"],
    ] {
        outputs::check(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_atp-bench"));
            command.args(words);
            command
        });
    }
}

/// Results are written even if their table can't be printed.
#[test]
fn bench__keeps_its_results_without_an_output() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("answers.json");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-bench"));
    command.args(["bench", "answers", "--rows", "1000", "--repetitions", "1", "--json"]);
    let status = command.arg(&json).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(fs::read_to_string(json).unwrap().contains("million_rows_per_cpu_s"));
}
