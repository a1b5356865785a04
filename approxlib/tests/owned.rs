//! Tests messages in memory of the application, which it gets back.

mod common;

use approxlib::{Error, Job, JobBuilder, Receiver};
use common::{message, receive};
use std::{
    collections::HashSet,
    net::UdpSocket,
    sync::{Arc, Mutex, mpsc},
};

fn job() -> JobBuilder {
    Job::builder().control_socket(None)
}

fn bind() -> Receiver {
    Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap()
}

/// Messages of one packet and of many. The job must not copy them, so each comes back at its own
/// address, and once.
#[test]
fn send_owned__gives_every_message_back_once() {
    let receiver = bind();
    let mut job = job().msr(0.5).connect(receiver.local_addr().unwrap()).unwrap();
    let receiving = receive(receiver);
    let (release, released) = mpsc::channel();
    let mut given = HashSet::new();
    for id in 0..300 {
        let bytes = message(id, if id % 3 == 0 { 20_000 } else { 100 });
        given.insert((id, bytes.as_ptr() as usize));
        let release = release.clone();
        let sent = job.send_owned(0, bytes, move |bytes: Vec<u8>| {
            release.send((id, bytes.as_ptr() as usize)).unwrap();
        });
        assert_eq!(sent.unwrap(), id);
    }
    drop(release);
    job.finish().unwrap();
    let back: Vec<_> = released.iter().collect();
    assert_eq!(back.len(), 300);
    assert_eq!(back.into_iter().collect::<HashSet<_>>(), given);
    let received = receiving.join().unwrap();
    assert!(received.messages.len() >= 150);
    for (id, data) in received.messages {
        assert_eq!(data, message(id, data.len()));
    }
}

/// A counter of released messages.
#[derive(Clone, Default)]
struct Released(Arc<Mutex<u32>>);

impl Released {
    fn count(&self) -> u32 {
        *self.0.lock().unwrap()
    }

    fn callback(&self) -> impl FnOnce(&'static [u8]) + Send + use<> {
        let count = self.0.clone();
        move |_| *count.lock().unwrap() += 1
    }
}

#[test]
fn send_owned__gives_refused_messages_back_too() {
    let released = Released::default();
    let receiver = bind();
    let limited = job().messages(1).message_bytes_max(9);
    let mut job = limited.connect(receiver.local_addr().unwrap()).unwrap();
    let mut send = |group, bytes| job.send_owned(group, bytes, released.callback());
    assert!(matches!(send(0, &b"ten bytes."[..]), Err(Error::TooLarge { .. })));
    assert_eq!(released.count(), 1);
    assert!(matches!(send(1, &b"nobody's"[..]), Err(Error::NoGroup(1))));
    assert_eq!(released.count(), 2);
    send(0, b"one").unwrap();
    assert!(matches!(send(0, &b"another"[..]), Err(Error::TooMany { messages: 1 })));
    drop(job);
    assert_eq!(released.count(), 4, "a job that is dropped keeps nothing");
}

/// Several messages are dropped at once with the job, so a second panic would abort the process.
#[test]
fn send_owned__survives_callbacks_that_panic() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut job = job().connect(silent.local_addr().unwrap()).unwrap();
    let released = Released::default();
    for bytes in [&b"one"[..], b"two", b"three"] {
        let released = released.callback();
        job.send_owned(0, bytes, move |bytes| {
            released(bytes);
            panic!("on purpose");
        })
        .unwrap();
    }
    drop(job);
    assert_eq!(released.count(), 3);
}

/// The callback may use the job's other handles: no lock is held.
#[test]
fn send_owned__releases_without_a_lock() {
    let receiver = bind();
    let mut job = job().messages(1).connect(receiver.local_addr().unwrap()).unwrap();
    let receiving = receive(receiver);
    let (asks, asked) = mpsc::channel::<()>();
    let (answers, answer) = mpsc::channel::<()>();
    job.send_owned(0, b"first".to_vec(), move |_| {
        asks.send(()).unwrap();
        answer.recv().unwrap();
    })
    .unwrap();
    // The job's thread is in the callback now, and this call takes the lock.
    asked.recv().unwrap();
    assert_eq!(job.progress().messages, 1);
    answers.send(()).unwrap();
    job.finish().unwrap();
    receiving.join().unwrap();
}

/// The sender thread of a job that was canceled may have ended. A message is then refused as at any
/// other end of the input, and comes back.
#[test]
fn send_owned__after_a_cancel_finds_the_input_ended() {
    let receiver = bind();
    let mut job = job().connect(receiver.local_addr().unwrap()).unwrap();
    job.begin_cancel();
    let (release, released) = mpsc::channel();
    for attempt in 0..200 {
        let release = release.clone();
        let sent = job.send_owned(0, vec![7], move |bytes: Vec<u8>| release.send(bytes).unwrap());
        assert!(matches!(sent, Err(Error::Ended)), "{attempt}: {sent:?}");
        assert_eq!(released.recv().unwrap(), [7]);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    job.try_outcome().unwrap().expect("the job has ended");
    let sent = job.send_owned(0, vec![7], drop);
    assert!(matches!(sent, Err(Error::Ended)), "{sent:?}");
}
