//! Tests of a receiver whose daemon stops, hangs, or comes back.

mod common;

use approxlib::{Job, Receiver, control::Request};
use common::{
    daemon::{Answer, TestDaemon, listen_at, registered as answer},
    message, receive,
};
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// The programs cover the loopback.
fn registered_everywhere() -> Answer {
    answer(&[nix::net::if_::if_nametoindex("lo").unwrap()])
}

/// A receiver that is registered with the daemon.
fn registered(daemon: &TestDaemon) -> Receiver {
    let receiver = Receiver::builder().control_socket(Some(daemon.socket.clone()));
    let receiver = receiver.bind("127.0.0.1:0").unwrap();
    assert_eq!(receiver.datapath(), "ebpf");
    receiver
}

#[test]
fn receiver__continues_reading_while_a_daemon_hangs() {
    let daemon = TestDaemon::start(|_, _| registered_everywhere());
    let receiver = registered(&daemon);
    let peer = receiver.local_addr().unwrap();
    let _hangs = listen_at(&daemon.socket);
    daemon.hang_up();
    // After this time the receiver has sent a request to the daemon that hangs.
    thread::sleep(Duration::from_millis(700));
    let received = receive(receiver);
    let started = Instant::now();
    // A packet, and thus an ACK, for each message.
    let builder = Job::builder().control_socket(None).packing(false);
    let mut job = builder.connect(peer).unwrap();
    for id in 0..10 {
        job.send(&message(id, 1_000)).unwrap();
    }
    job.finish().unwrap();
    // A receiver that waits for the daemon does so for 5 s. The job takes 50 ms at most on average
    // on a busy machine, and by an exponential tail 4 s with probability e^-80.
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let receiver = received.join().unwrap().receiver;
    assert!(receiver.stats().acks_sent >= 10);
    // The thread that waits for the daemon must not keep the port in use.
    drop(receiver);
    Receiver::builder().control_socket(None).bind(peer).unwrap();
}

#[test]
fn receiver__registers_again_when_the_daemon_is_back() {
    let daemon = TestDaemon::start(|_, _| registered_everywhere());
    let _receiver = registered(&daemon);
    let (sender, requests) = mpsc::channel();
    let _back = TestDaemon::start_at(&daemon.socket, move |request, _| {
        sender.send(request).unwrap();
        registered_everywhere()
    });
    daemon.hang_up();
    assert_eq!(requests.recv_timeout(Duration::from_secs(20)), Ok(Request::ReceiverOpen {}));
}
