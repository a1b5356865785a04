//! Every input that a fuzzer found worth keeping, run once more: those that were findings as well.

use atp_fuzz_targets::TARGETS;
use std::{fs, path::PathBuf};

fn corpora() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus")
}

/// By name, so that a failure comes at the same place every time.
fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = fs::read_dir(corpora().join(target)).expect("every target has a corpus");
    let mut inputs: Vec<_> = folder.map(|entry| entry.expect("a corpus is read").path()).collect();
    inputs.sort();
    inputs
}

fn replay(target: &str) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("it is in the list");
    for input in inputs(target) {
        let data = fs::read(&input).expect("an input is read");
        let shown = input.display();
        std::panic::catch_unwind(|| run(&data)).unwrap_or_else(|_| panic!("broken by {shown}"));
    }
}

#[test]
fn corpus__of_control_holds() {
    replay("control");
}

#[test]
fn corpus__of_receiver_holds() {
    replay("receiver");
}

#[test]
fn corpus__of_sender_holds() {
    replay("sender");
}

#[test]
fn corpus__of_wire_holds() {
    replay("wire");
}

/// A corpus that is lost would be replayed with success.
#[test]
fn corpus__is_there_and_small() {
    let mut bytes = 0;
    for (target, _) in TARGETS {
        let inputs = inputs(target);
        assert!(inputs.len() >= 10, "{target} has {} inputs", inputs.len());
        bytes += inputs.iter().map(|input| input.metadata().unwrap().len()).sum::<u64>();
    }
    assert!(bytes <= 300 << 10, "{bytes} bytes of corpora: minimise them");
    let folders = fs::read_dir(corpora()).unwrap().count();
    assert_eq!(folders, TARGETS.len(), "a corpus without a target");
}
