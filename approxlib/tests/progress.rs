//! The progress of running jobs, at the receiver and at the sender.

mod common;

use approxlib::{Event, GroupArrivals, Job, Receiver};
use std::{
    thread,
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_secs(20);

/// Calls `look` until it returns something.
fn soon<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "nothing for {SOON:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn progress__counts_by_job_window_and_group() {
    let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    assert_eq!(receiver.progress().unwrap(), []);
    let address = receiver.local_addr().unwrap();
    let builder = || Job::builder().control_socket(None);
    let mut job = builder().id(3).connect(address).unwrap();
    let mut with_windows = builder().id(4).connect(address).unwrap();
    (0..40).for_each(|_| _ = job.send(b"a message").unwrap());
    (0..7).for_each(|_| _ = with_windows.send(b"a message").unwrap());
    let of =
        |receiver: &Receiver, job| receiver.progress().unwrap().into_iter().find(|p| p.job == job);
    let arrivals = |delivered| vec![GroupArrivals { group: 0, delivered }];
    // The application has taken no event so far.
    let found = soon(|| of(&receiver, 3).filter(|p| p.groups == arrivals(40)));
    assert_eq!((found.source.ip(), found.window), (address.ip(), 0));
    soon(|| of(&receiver, 4).filter(|p| p.groups == arrivals(7)));
    with_windows.end_window().unwrap();
    with_windows.send(b"a message").unwrap();
    soon(|| of(&receiver, 4).filter(|p| p.window == 1 && p.groups == arrivals(1)));
    job.finish().unwrap();
    soon(|| of(&receiver, 3).is_none().then_some(()));
    with_windows.finish().unwrap();
    soon(|| receiver.progress().unwrap().is_empty().then_some(()));
    let mut events = 0;
    while let Some(event) = receiver.recv(Some(Duration::ZERO)).unwrap() {
        events += u32::from(matches!(event, Event::Message { .. }));
    }
    assert_eq!(events, 48);
}

/// A receiver that reads no more, because its application takes nothing, answers too.
#[test]
fn progress__of_a_full_receiver() {
    let builder = Receiver::builder().control_socket(None).buffer_bytes(10_000);
    let receiver = builder.bind("127.0.0.1:0").unwrap();
    let mut job =
        Job::builder().control_socket(None).connect(receiver.local_addr().unwrap()).unwrap();
    (0..200).for_each(|_| _ = job.send(&[0; 1_000]).unwrap());
    soon(|| receiver.progress().unwrap().first().filter(|p| p.groups[0].delivered > 0).map(|_| ()));
}

/// A message at a time: the sender's thread sleeps between them.
#[test]
fn progress__of_a_job_that_waits_is_current() {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let builder = Job::builder().control_socket(None);
    let mut job = builder.connect(receiver.local_addr().unwrap()).unwrap();
    let until = Instant::now() + 3 * SOON;
    for sent in 1..=100 {
        job.send(b"a message").unwrap();
        while job.progress().delivered < sent {
            assert!(Instant::now() < until, "message {sent} of 100 after {:?}", 3 * SOON);
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(job.progress().messages, 100);
}
