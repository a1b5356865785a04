//! The automatic choice of the datapath: jobs and receivers use the daemon at the default socket if
//! it serves them, and continue in userspace if it can't.
//!
//! This file holds one test, because the default socket is a variable of the process's environment.

mod common;

use approxlib::{
    Error, Job, Receiver,
    control::{ClientError, Refusal, RefusalKind, Reply},
};
use common::{
    daemon::{TestDaemon, reply},
    message, receive,
};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::mpsc,
};

/// A daemon that refuses every socket for one reason, and reports the sockets' ports.
fn refusing(kind: RefusalKind) -> (TestDaemon, mpsc::Receiver<u16>) {
    let refusal = Reply::Refused(Refusal { kind, message: "not this one".into() });
    answering(reply(&refusal).0)
}

fn answering(answer: Vec<u8>) -> (TestDaemon, mpsc::Receiver<u16>) {
    let (sender, ports) = mpsc::channel();
    let daemon = TestDaemon::start(move |_, mut fds| {
        let socket = UdpSocket::from(fds.pop().unwrap());
        let _ = sender.send(socket.local_addr().unwrap().port());
        (answer.clone(), Vec::new())
    });
    // SAFETY: the only test of this process; no other thread reads or writes the environment.
    unsafe { std::env::set_var("ATP_SOCKET", &daemon.socket) };
    (daemon, ports)
}

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[test]
fn automatic__userspace_after_a_refused_socket_but_not_after_a_refused_request() {
    a_port_in_use_allows_userspace();
    a_named_daemon_that_refuses_is_an_error();
    the_kind_of_refusal_decides();
}

fn a_port_in_use_allows_userspace() {
    let (_daemon, _) = refusing(RefusalKind::InUse);
    let receiver = Receiver::builder().bind(local()).unwrap();
    assert_eq!(receiver.datapath(), "userspace");
    let peer = receiver.local_addr().unwrap();
    let received = receive(receiver);

    let (_daemon, ports) = refusing(RefusalKind::InUse);
    let mut job = Job::builder().connect(peer).unwrap();
    assert_eq!(job.datapath(), "userspace");
    // The job has tried several ports.
    let ports: Vec<_> = ports.try_iter().collect();
    assert!(ports.len() > 1 && ports.windows(2).all(|pair| pair[0] != pair[1]), "{ports:?}");
    for id in 0..100 {
        job.send(&message(id, 1_000)).unwrap();
    }
    assert_eq!(job.finish().unwrap().groups[0].delivered, 100);
    assert_eq!(received.join().unwrap().messages.len(), 100);
}

fn a_named_daemon_that_refuses_is_an_error() {
    let (daemon, _) = refusing(RefusalKind::InUse);
    let job = Job::builder().control_socket(Some(daemon.socket.clone()));
    expect_refused(job.connect("127.0.0.1:9").map(drop));
    let (daemon, _) = refusing(RefusalKind::InUse);
    let receiver = Receiver::builder().control_socket(Some(daemon.socket.clone()));
    expect_refused(receiver.bind(local()).map(drop));
}

fn the_kind_of_refusal_decides() {
    use RefusalKind::{BadRequest, InUse, Internal, NoRoom, NotYours, UnknownJob};
    for kind in [BadRequest, UnknownJob] {
        let (_daemon, _) = refusing(kind);
        expect_refused(Job::builder().connect("127.0.0.1:9").map(drop));
        let (_daemon, _) = refusing(kind);
        expect_refused(Receiver::builder().bind(local()).map(drop));
    }
    // A daemon of an earlier version refuses an id of another user's job.
    for kind in [InUse, NoRoom, Internal, NotYours] {
        let (_daemon, _) = refusing(kind);
        let job = Job::builder().connect("127.0.0.1:9").unwrap();
        assert_eq!(job.datapath(), "userspace", "{kind:?}");
    }
    // A newer daemon may have kinds that this library doesn't know.
    let unknown = br#"{"reply":"refused","kind":"full-moon","message":"not tonight"}"#;
    let (_daemon, _) = answering(unknown.to_vec());
    let job = Job::builder().connect("127.0.0.1:9").unwrap();
    assert_eq!(job.datapath(), "userspace");
}

fn expect_refused(opened: Result<(), Error>) {
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::Daemon(ClientError::Refused(_))), "{error}");
}
