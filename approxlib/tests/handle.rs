//! Other threads stop a job, and see its progress, while one waits for room.

use approxlib::{Error, Job, JobHandle};
use std::{net::UdpSocket, thread, time::Duration};

const LEN: usize = 1_000;

/// Runs a thread that sends until an error, to a peer that never answers, and `stop` once the
/// thread waits for room.
fn stopped_by(stop: fn(&JobHandle)) -> Error {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = Job::builder().control_socket(None).buffer_bytes(4 * LEN as u64);
    let builder = builder.peer_timeout(Duration::from_secs(600));
    let mut job = builder.connect(silent.local_addr().unwrap()).unwrap();
    let handle = job.handle();
    let sending = thread::spawn(move || {
        loop {
            if let Err(error) = job.send(&[0; LEN]) {
                return error;
            }
        }
    });
    while handle.progress().messages < 4 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(20));
    stop(&handle);
    let error = sending.join().unwrap();
    // The job is gone: nothing happens.
    stop(&handle);
    assert_eq!(handle.progress().messages, 4);
    error
}

#[test]
fn handle__stops_a_thread_that_waits_for_room() {
    for stop in [JobHandle::begin_cancel, JobHandle::begin_finish, JobHandle::abandon] {
        let error = stopped_by(stop);
        assert!(matches!(error, Error::Ended), "{error}");
    }
}

#[test]
fn abandon__stops_a_thread_that_waits_for_an_end() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = Job::builder().control_socket(None).peer_timeout(Duration::from_secs(600));
    let peer = silent.local_addr().unwrap();
    let (mut job, mut with_windows) =
        (builder.clone().connect(peer).unwrap(), builder.connect(peer).unwrap());
    let handles = [job.handle(), with_windows.handle()];
    let threads = [
        thread::spawn(move || {
            job.send(&[0; LEN]).unwrap();
            job.finish().map(|_| ()).unwrap_err()
        }),
        thread::spawn(move || {
            with_windows.send(&[0; LEN]).unwrap();
            with_windows.end_window().map(|_| ()).unwrap_err()
        }),
    ];
    for (handle, waiting) in handles.iter().zip(threads) {
        while handle.progress().messages == 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        handle.abandon();
        let error = waiting.join().unwrap();
        assert!(matches!(error, Error::Ended), "{error}");
    }
}
