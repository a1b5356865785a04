//! Tests receivers and jobs that are given by name.

mod common;

use approxlib::{Error, Event, Job, JobId, Receiver};
use common::receive;
use std::time::Duration;

fn receiver() -> Receiver {
    Receiver::builder().control_socket(None).bind("localhost:0").unwrap()
}

#[test]
fn connect__takes_a_host_name() {
    let receiver = receiver();
    let port = receiver.local_addr().unwrap().port();
    let receiving = receive(receiver);
    let mut job = Job::builder().control_socket(None).connect(("localhost", port)).unwrap();
    assert!(job.peer().ip().is_loopback() && job.peer().port() == port);
    job.send(b"by name").unwrap();
    job.finish().unwrap();
    assert_eq!(receiving.join().unwrap().messages[&0], b"by name");
}

#[test]
fn connect__says_which_name_has_no_address() {
    for name in ["no-such-host.invalid:4747", "localhost"] {
        let error = Job::builder().control_socket(None).connect(name).unwrap_err();
        assert!(matches!(&error, Error::Name { .. }) && error.to_string().contains(name));
    }
    let peers = ["127.0.0.1:9", "no-such-host.invalid:4747"];
    let error = Job::builder().control_socket(None).connect_all(&peers).unwrap_err();
    assert!(matches!(error, Error::Name { .. }), "{error}");
}

#[test]
fn connect__refuses_what_no_job_can_have() {
    let job = || Job::builder().control_socket(None);
    for (job, words) in [
        (job().payload_bytes(0), "choose 1 to 8900"),
        (job().payload_bytes(8_901), "choose 1 to 8900"),
        (job().payload_bytes(1), "a larger payload_bytes, or a smaller message_bytes_max"),
    ] {
        let error = job.connect("127.0.0.1:9").unwrap_err();
        assert!(matches!(error, Error::Options(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    for address in ["255.255.255.255:9", "224.0.0.1:9", "127.0.0.1:0"] {
        let error = job().connect(address).unwrap_err();
        assert!(matches!(error, Error::Peer(_)), "{error}");
    }
}

/// A receiver that admits a job by name admits no other.
#[test]
fn id__is_the_same_at_both_ends() {
    let mut receiver =
        Receiver::builder().control_socket(None).job("training").bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    let send = |id| {
        let job = Job::builder().control_socket(None).id(id);
        let mut job = job.peer_timeout(Duration::from_secs(5)).connect(address).unwrap();
        job.send(b"gradient").unwrap();
        job.finish()
    };
    let refused = send("another").unwrap_err();
    assert!(refused.to_string().contains("refused the job"), "{refused}");
    assert_eq!(send("training").unwrap().job, JobId::from("training").number());
    let Some(Event::Message { job, data, .. }) = receiver.recv(None).unwrap() else { panic!() };
    assert_eq!((job, data), (JobId::from("training").number(), b"gradient".to_vec()));
}
