//! Tests jobs and receivers under tokio.

mod common;

use approxlib::{AsyncJob, AsyncReceiver, Error, Event, Job, JobBuilder, Receiver, Report};
use common::message;
use std::{
    collections::HashSet,
    net::{SocketAddr, UdpSocket},
    sync::mpsc,
    time::Duration,
};
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(20);

fn job() -> JobBuilder {
    Job::builder().control_socket(None)
}

async fn bind() -> (AsyncReceiver, SocketAddr) {
    let builder = Receiver::builder().control_socket(None);
    let receiver = builder.bind_async("127.0.0.1:0").await.unwrap();
    let address = receiver.local_addr().unwrap();
    (receiver, address)
}

/// Receives one job, whose messages are those of `common::message`.
async fn receive(mut receiver: AsyncReceiver) -> HashSet<u32> {
    let mut ids = HashSet::new();
    loop {
        match timeout(SOON, receiver.recv()).await.expect("an event").unwrap() {
            Event::Message { message: id, data, .. } => {
                assert_eq!(data, message(id, data.len()));
                assert!(ids.insert(id), "{id} came twice");
            }
            Event::Started { .. } | Event::TermsChanged { .. } => {}
            Event::WindowEnded { .. } => panic!("a window of a job without any"),
            Event::Finished { summary, .. } => {
                assert!(summary.complete);
                receiver.close().await.unwrap();
                return ids;
            }
        }
    }
}

/// Sends one message to an address that lives as long as the call.
async fn send_one(to: &str) -> Report {
    let mut job = job().connect_async(to).await.unwrap();
    job.send(&message(0, 100)).await.unwrap();
    finish(&mut job).await
}

#[tokio::test]
async fn connect_async__takes_a_borrowed_address() {
    let (receiver, address) = bind().await;
    let receiving = tokio::spawn(receive(receiver));
    let to = address.to_string();
    assert_eq!(send_one(&to).await.groups[0].delivered, 1);
    assert_eq!(receiving.await.unwrap().len(), 1);
    for name in ["no-such-host.invalid:4747", "localhost"] {
        let error = job().connect_async(name).await.unwrap_err();
        assert!(matches!(&error, Error::Name { .. }) && error.to_string().contains(name));
    }
    // A task may move to another thread.
    tokio::spawn(async move { job().connect_async(&to[..]).await.map(drop) })
        .await
        .unwrap()
        .unwrap();
}

async fn finish(job: &mut AsyncJob) -> Report {
    timeout(SOON, job.finish()).await.expect("an end").unwrap()
}

/// Polls a future once, and drops it.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = std::future::ready(()) => None,
    }
}

/// Everything runs on one thread, so a call that blocks would stop the test.
#[tokio::test]
async fn job__sends_through_a_full_buffer() {
    let (receiver, address) = bind().await;
    let receiving = tokio::spawn(receive(receiver));
    let mut job = job().msr(0.9).buffer_bytes(20_000).connect_async(address).await.unwrap();
    for id in 0..500 {
        assert_eq!(job.send(&message(id, 3_000)).await.unwrap(), id);
    }
    let rest: Vec<_> = (500..1_000).map(|id| message(id, 100)).collect();
    assert_eq!(job.send_all(0, &rest).await.unwrap(), 500..1_000);
    let report = finish(&mut job).await;
    assert!(report.groups[0].delivered >= 900, "{report:?}");
    assert!(receiving.await.unwrap().len() >= 900);
    assert!(matches!(job.finish().await, Err(Error::Thread(_))), "the report came before");
}

/// The futures are dropped again and again while they wait. No message is lost or comes twice.
#[tokio::test]
async fn job__futures_may_be_dropped() {
    let (receiver, address) = bind().await;
    let receiving = tokio::spawn(receive(receiver));
    let slow = job().rate_max_bytes_per_s(4_000_000).buffer_bytes(8_000);
    let mut job = slow.connect_async(address).await.unwrap();
    let (mut dropped, mut id) = (0, 0);
    while id < 300 {
        let bytes = message(id, 1_000);
        match once(job.send(&bytes)).await {
            Some(sent) => {
                assert_eq!(sent.unwrap(), id);
                id += 1;
            }
            None => {
                dropped += 1;
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
    assert!(dropped > 10, "only {dropped} futures were dropped");
    let report = match once(job.finish()).await {
        Some(report) => report.unwrap(),
        None => finish(&mut job).await,
    };
    assert_eq!(report.groups[0].delivered, 300);
    assert_eq!(receiving.await.unwrap().len(), 300);
}

/// A message that waits for room when its future is dropped is given back, and never sent.
#[tokio::test]
async fn send_owned__gives_a_waiting_message_back() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tiny = job().buffer_bytes(100);
    let mut job = tiny.connect_async(silent.local_addr().unwrap()).await.unwrap();
    job.send(&[7; 1_000]).await.unwrap();
    let (release, released) = mpsc::channel();
    for polled in [false, true] {
        let release = release.clone();
        let waiting = job.send_owned(0, vec![8; 1_000], move |bytes| release.send(bytes).unwrap());
        if polled {
            assert!(once(waiting).await.is_none(), "there was room");
        } else {
            drop(waiting);
        }
        assert_eq!(released.try_recv().unwrap(), vec![8; 1_000]);
    }
    assert_eq!(job.progress().messages, 1);
}

#[tokio::test]
async fn recv__future_may_be_dropped() {
    let (mut receiver, address) = bind().await;
    let early = timeout(Duration::from_millis(10), receiver.recv()).await;
    assert!(early.is_err(), "an event without a sender");
    let mut job = job().connect_async(address).await.unwrap();
    for id in 0..100 {
        job.send(&message(id, 10)).await.unwrap();
    }
    let sending = tokio::spawn(async move { finish(&mut job).await });
    sleep(Duration::from_millis(100)).await;
    // The descriptor became readable while nobody waited.
    assert_eq!(receive(receiver).await.len(), 100);
    assert_eq!(sending.await.unwrap().groups[0].delivered, 100);
}

#[tokio::test]
async fn cancel__ends_a_job_whose_end_is_awaited() {
    let (receiver, address) = bind().await;
    // At this rate the first message takes a second, and the others twenty.
    let slow = job().rate_max_bytes_per_s(20_000);
    let mut job = slow.connect_async(address).await.unwrap();
    for id in 0..20 {
        job.send(&message(id, 20_000)).await.unwrap();
    }
    assert!(once(job.finish()).await.is_none(), "too fast");
    assert!(matches!(job.send(b"late").await, Err(Error::Ended)));
    let report = timeout(SOON, job.cancel()).await.expect("an end").unwrap();
    assert!(report.canceled, "{report:?}");
    drop(receiver);
}

/// Sends that never have to wait must not keep the runtime's only thread.
#[tokio::test]
async fn job__lets_other_tasks_run() {
    let (receiver, address) = bind().await;
    let receiving = tokio::spawn(receive(receiver));
    let (asks, asked) = mpsc::channel();
    let mut job = job().connect_async(address).await.unwrap();
    // It runs when this task waits for the first time.
    let other = tokio::spawn(async move { asks.send(()).unwrap() });
    let mut id = 0;
    while asked.try_recv().is_err() {
        assert!(id < 10_000, "the other task never runs");
        job.send(&message(id, 1)).await.unwrap();
        id += 1;
    }
    other.await.unwrap();
    finish(&mut job).await;
    assert_eq!(receiving.await.unwrap().len(), id as usize);
}

/// Windows that overlap: a message of the third one waits until the first has ended.
#[tokio::test]
async fn end_window__in_tasks() {
    let builder = Receiver::builder().control_socket(None);
    let mut receiver = builder.bind_async("127.0.0.1:0").await.unwrap();
    let address = receiver.local_addr().unwrap();
    let receiving = tokio::spawn(async move {
        let mut ended = 0;
        loop {
            match timeout(SOON, receiver.recv()).await.expect("an event").unwrap() {
                Event::WindowEnded { .. } => ended += 1,
                Event::Finished { .. } => return (ended, receiver),
                _ => {}
            }
        }
    });
    let mut job = job().overlap_windows(true).connect_async(address).await.unwrap();
    assert!(job.next_window().await.unwrap().is_none());
    for _ in 0..5 {
        assert_eq!(timeout(SOON, job.send(b"a message")).await.expect("a window").unwrap(), 0);
        timeout(SOON, job.begin_end_window()).await.expect("a window").unwrap();
    }
    for window in 0..3 {
        let report = timeout(SOON, job.next_window()).await.expect("a window").unwrap().unwrap();
        assert_eq!((report.window, report.complete), (window, true));
    }
    job.send(b"a message").await.unwrap();
    let last = timeout(SOON, job.end_window()).await.expect("a window").unwrap();
    assert_eq!((last.window, last.groups[0].delivered), (5, 1));
    finish(&mut job).await;
    assert_eq!(receiving.await.unwrap().0, 6);
}
