//! Tests of the shortest and the longest messages with the userspace datapath: they must arrive
//! complete and unaltered.

mod common;

use approxlib::{Error, Job, JobBuilder, Receiver, Report, ShortCause};
use atp_common::wire::ResetReason;
use common::{Received, message, receive};
use std::collections::HashMap;

/// The default limit of a message: 64 MiB.
const LONGEST_BYTES: usize = 64 << 20;

fn receiver(at: &str) -> Receiver {
    Receiver::builder().control_socket(None).bind(at).unwrap()
}

fn job() -> JobBuilder {
    // A fast port, to keep the test short.
    Job::builder().control_socket(None).rate_max_bytes_per_s(1_000_000_000)
}

/// Sends `messages` and checks what must hold of every job.
fn run(at: &str, job: JobBuilder, messages: &[Vec<u8>], msr: f64) -> (Report, Received) {
    let receiver = receiver(at);
    let peer = receiver.local_addr().unwrap();
    let received = receive(receiver);
    let mut job = job.messages(messages.len() as u32).msr(msr).connect(peer).unwrap();
    for message in messages {
        job.send(message).unwrap();
    }
    let report = job.finish().unwrap();
    let received = received.join().unwrap();
    let needed = (msr * messages.len() as f64).ceil() as u32;
    assert_eq!(report.groups[0].needed, needed);
    assert!(report.groups[0].delivered >= needed && received.summary.delivered >= needed);
    assert_eq!(received.messages.len(), received.summary.delivered as usize);
    for (id, data) in &received.messages {
        // Not `assert_eq`, which would print the data.
        assert!(*data == messages[*id as usize], "message {id} was altered");
    }
    (report, received)
}

#[test]
fn message__of_one_byte() {
    let messages: Vec<_> = (0..1_000).map(|id| message(id, 1)).collect();
    for at in ["127.0.0.1:0", "[::1]:0"] {
        for msr in [1.0, 0.5] {
            let (_, received) = run(at, job(), &messages, msr);
            assert!(received.messages.values().all(|data| data.len() == 1));
        }
    }
}

/// Each message is longer than the sender's buffer, so they are sent one after the other.
#[test]
fn message__of_64_mib_exact() {
    let messages = [long(1), long(2)];
    let (_, received) = run("127.0.0.1:0", job(), &messages, 1.0);
    assert_eq!(received.messages.len(), 2);
}

/// All messages fit the sender's buffer at once, and half of them need not be sent.
#[test]
fn message__of_64_mib_approximate() {
    let messages = [long(1), long(2), long(3), long(4)];
    let job = job().buffer_bytes(4 * LONGEST_BYTES as u64);
    let (_, received) = run("[::1]:0", job, &messages, 0.5);
    let lost: u32 = received.summary.groups[0].lost.iter().map(|ids| ids.end - ids.start).sum();
    assert_eq!(lost + received.summary.delivered, 4);
}

#[test]
fn message__longer_than_64_mib_is_refused_at_once() {
    let receiver = receiver("127.0.0.1:0");
    let peer = receiver.local_addr().unwrap();
    let received = receive(receiver);
    let mut job = job().connect(peer).unwrap();
    let error = job.send(&vec![0; LONGEST_BYTES + 1]).unwrap_err();
    let expected = "a message of 67108865 bytes is too long: at most 67108864 are allowed";
    assert!(error.to_string().starts_with(expected), "{error}");
    // The job continues after the error.
    job.send(b"short").unwrap();
    job.finish().unwrap();
    assert_eq!(received.join().unwrap().messages, HashMap::from([(0, b"short".to_vec())]));
}

#[test]
fn message__longer_than_its_receiver_takes() {
    let receiver = Receiver::builder().control_socket(None).message_bytes_max(1 << 20);
    let receiver = receiver.bind("127.0.0.1:0").unwrap();
    let mut job = job().connect(receiver.local_addr().unwrap()).unwrap();
    job.send(&vec![0; (1 << 20) + 1]).unwrap();
    let error = job.finish().unwrap_err();
    let Error::Short(shortfall) = &error else { panic!("{error}") };
    assert_eq!(shortfall.cause, ShortCause::Refused(Some(ResetReason::TooLarge)));
    assert!(error.to_string().contains("a message is larger than the receiver accepts"), "{error}");
}

/// A message of which no part equals another part, or a part of another message.
fn long(id: u64) -> Vec<u8> {
    let (mut data, mut state) = (vec![0; LONGEST_BYTES], id);
    for chunk in data.chunks_exact_mut(8) {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    data
}
