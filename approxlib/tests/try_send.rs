//! Tests of sending, and of ending windows, without waiting.

mod common;

use approxlib::{Error, Event, Job, JobBuilder, Receiver};
use common::receive;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(20);

fn job() -> JobBuilder {
    Job::builder().control_socket(None)
}

fn bind() -> Receiver {
    Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap()
}

/// Waits for a change of the job. Fails after some seconds.
fn wait(job: &Job) {
    let fd = job.changed_fd().unwrap();
    let ready = poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::from(20_000u16));
    assert_eq!(ready, Ok(1), "nothing has changed for 20 s");
}

#[test]
fn try_send_all__takes_what_fits_and_signals_room() {
    let receiver = bind();
    let mut job = job().buffer_bytes(20_000).connect(receiver.local_addr().unwrap()).unwrap();
    let receiving = receive(receiver);
    let messages: Vec<_> = (0..2_000u32).map(|id| common::message(id, 700)).collect();
    let mut left = &messages[..];
    let (mut next, mut waits) = (0, 0);
    while !left.is_empty() {
        let ids = job.try_send_all(0, left).unwrap();
        assert_eq!(ids.start, next, "ids follow each other");
        (next, left) = (ids.end, &left[ids.len()..]);
        if ids.is_empty() {
            waits += 1;
            wait(&job);
        }
    }
    assert!(waits > 0 && next == 2_000);
    assert_eq!(job.try_send_all(0, &messages[..0]).unwrap(), 2_000..2_000);
    job.finish().unwrap();
    let received = receiving.join().unwrap();
    assert_eq!(received.messages.len(), 2_000);
    assert!((0..2_000).all(|id| received.messages[&id] == common::message(id, 700)));
}

#[test]
fn try_send_owned__gives_back_what_it_does_not_take() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut job = job().buffer_bytes(1_000).connect(silent.local_addr().unwrap()).unwrap();
    let released = Arc::new(AtomicU32::new(0));
    let mut send = |len: usize| {
        let released = released.clone();
        let count = move |_| {
            released.fetch_add(1, Ordering::Relaxed);
        };
        job.try_send_owned(0, vec![0; len], count).unwrap()
    };
    assert_eq!(send(800), Some(0));
    assert_eq!((send(800), released.load(Ordering::Relaxed)), (None, 1));
    assert_eq!(send(100), Some(1));
    drop(job);
    assert_eq!(released.load(Ordering::Relaxed), 3);
}

fn end_window(job: &mut Job) -> approxlib::WindowReport {
    job.begin_end_window().unwrap();
    loop {
        if let Some(report) = job.try_window().unwrap() {
            return report;
        }
        wait(job);
    }
}

#[test]
fn try_window__returns_each_window_once() {
    let mut receiver = bind();
    let mut job = job().connect(receiver.local_addr().unwrap()).unwrap();
    let receiving = thread::spawn(move || {
        let mut ended = 0;
        loop {
            match receiver.recv(Some(LIMIT)).unwrap() {
                Some(Event::WindowEnded { .. }) => ended += 1,
                Some(Event::Finished { .. }) => return (ended, receiver),
                Some(_) => {}
                None => panic!("no event for {LIMIT:?}"),
            }
        }
    });
    assert!(job.try_window().unwrap().is_none(), "no window's end was asked for");
    for window in 0..3 {
        assert_eq!(job.try_send_all(0, &[b"one", b"two"]).unwrap(), 0..2);
        let report = end_window(&mut job);
        assert_eq!((report.window, report.groups[0].delivered), (window, 2));
        assert!(job.try_window().unwrap().is_none());
    }
    job.finish().unwrap();
    assert_eq!(receiving.join().unwrap().0, 3);
}

#[test]
fn try_window__refuses_messages_and_keeps_a_failure() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = job().peer_timeout(Duration::from_secs(1));
    let mut job = builder.connect(silent.local_addr().unwrap()).unwrap();
    job.send(b"message").unwrap();
    job.begin_end_window().unwrap();
    assert!(job.try_window().unwrap().is_none());
    assert!(matches!(job.send(b"of the next"), Err(Error::WindowEnding)));
    assert!(matches!(job.try_send_all(0, &[b"too"]), Err(Error::WindowEnding)));
    let failed = loop {
        match job.try_window() {
            Ok(None) => wait(&job),
            other => break other,
        }
    };
    assert!(matches!(failed, Err(Error::Short(_))));
    assert!(matches!(job.end_window(), Err(Error::Short(_))));
    assert!(matches!(job.finish(), Err(Error::Short(_))), "the failure was told twice");
}
