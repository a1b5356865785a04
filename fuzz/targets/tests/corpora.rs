//! Replays every corpus: the inputs that reach new code, and the inputs that once found a bug.

use approxlib::control::Request;
use fuzz_targets::{TARGETS, corpus};
use std::{io::Write, panic::catch_unwind};

fn replay(target: &str) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a listed target");
    let inputs = corpus::read(target).expect("a readable archive");
    for (name, data) in &inputs {
        catch_unwind(|| run(data)).unwrap_or_else(|_| panic!("{target} fails on input {name}"));
    }
    // Written directly, because the test runner hides what `println!` writes.
    writeln!(std::io::stderr(), "replayed {} inputs of {target}", inputs.len()).ok();
}

#[test]
fn corpus__of_c_interface_holds() {
    replay("c_interface");
}

#[test]
fn corpus__of_control_holds() {
    replay("control");
}

#[test]
fn corpus__of_endpoint_holds() {
    replay("endpoint");
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

/// Inputs of another protocol version end at their hello, and test nothing behind it.
#[test]
fn corpus__of_control_passes_the_hello() {
    let inputs = corpus::read("control").expect("a readable archive");
    let says_hello = |input: &&Vec<u8>| {
        let mut packets = input.split(|&byte| byte == b'\n');
        packets.any(|packet| Request::parse(packet, &mut None).is_ok())
    };
    let with_hello = inputs.values().filter(says_hello).count();
    assert!(with_hello >= 10, "{with_hello} inputs say hello in the current protocol version");
}

/// The replay of a corpus that lost its inputs would succeed.
#[test]
fn corpus__is_there_and_small() {
    let mut bytes = 0;
    for (target, _) in TARGETS {
        let inputs = corpus::read(target).expect("a readable archive");
        assert!(inputs.len() >= 10, "{target} has {} inputs", inputs.len());
        bytes += inputs.values().map(Vec::len).sum::<usize>();
    }
    assert!(bytes <= 300 << 10, "the corpora have {bytes} bytes: minimize them");
    // Archives only: unpacked corpora of a fuzzer's run lie beside them.
    let entries = std::fs::read_dir(corpus::folder()).expect("the folder of the corpora");
    let archives = entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_file()));
    assert_eq!(archives.count(), TARGETS.len(), "every archive belongs to a target");
}
