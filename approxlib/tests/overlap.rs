//! Jobs whose windows overlap: the next is sent while the end of the last is confirmed.

mod common;

use approxlib::{Error, Event, Job, JobBuilder, LostIds, Receiver, Summary};
use common::{LossyNetwork, message};
use nix::poll::{PollFd, PollFlags, poll};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const LEN: usize = 700;

fn builder() -> JobBuilder {
    Job::builder().control_socket(None).overlap_windows(true).name_lost(true)
}

/// The ids of messages by window, and the summaries.
type Got = (BTreeMap<u32, Vec<u32>>, Vec<Summary>);

fn receive(mut receiver: Receiver) -> JoinHandle<(Got, Receiver)> {
    thread::spawn(move || {
        let (mut messages, mut summaries) = (BTreeMap::<u32, Vec<u32>>::new(), vec![]);
        loop {
            match receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event") {
                Event::Message { window, message: id, data, .. } => {
                    assert_eq!(data, message(id + 1_000 * window, LEN));
                    messages.entry(window).or_default().push(id);
                }
                Event::Started { .. } | Event::TermsChanged { .. } => {}
                Event::WindowEnded { summary, .. } => summaries.push(summary),
                Event::Finished { summary, .. } => {
                    summaries.push(summary);
                    return ((messages, summaries), receiver);
                }
            }
        }
    })
}

fn network(loss: f64) -> (LossyNetwork, SocketAddr, JoinHandle<(Got, Receiver)>) {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let network = LossyNetwork::start(receiver.local_addr().unwrap(), loss, 5);
    let address = network.address;
    (network, address, receive(receiver))
}

fn send(job: &mut Job, window: u32, number: u32) {
    for id in 0..number {
        assert_eq!(job.send(&message(id + 1_000 * window, LEN)).unwrap(), id);
    }
}

#[test]
fn windows__windows_end_in_order_while_the_next_is_sent() {
    let (_network, address, receiving) = network(0.2);
    let mut job = builder().msr(0.7).connect(address).unwrap();
    let mut reports = vec![];
    assert_eq!(job.next_window().unwrap(), None);
    for window in 0..30 {
        send(&mut job, window, 60 + window);
        job.begin_end_window().unwrap();
        while let Some(report) = job.try_window().unwrap() {
            reports.push(report);
        }
    }
    while let Some(report) = job.next_window().unwrap() {
        reports.push(report);
    }
    let report = job.finish().unwrap();
    let ((messages, summaries), _receiver) = receiving.join().unwrap();
    assert_eq!((reports.len(), report.windows as usize), (30, summaries.len()));
    for (window, report) in (0..).zip(&reports) {
        let (number, summary) = (60 + window, &summaries[window as usize]);
        assert!(report.complete && summary.complete);
        assert_eq!((report.window, summary.window), (window, window));
        assert_eq!((report.groups[0].messages, summary.messages), (number, number));
        assert_eq!(messages[&window].len() as u32, summary.delivered);
        assert_eq!(report.groups[0].lost_ids, LostIds::Known(summary.groups[0].lost.clone()));
    }
}

/// Windows with deadlines, of announced size: a window that is late doesn't hold up the others for
/// longer than its deadline.
#[test]
fn windows__of_windows_with_deadlines() {
    let (_network, address, receiving) = network(0.4);
    let deadline = Duration::from_millis(30);
    let mut job = builder().messages(40).window_deadline(deadline).connect(address).unwrap();
    let mut complete = 0;
    for window in 0..20 {
        send(&mut job, window, 40);
        job.begin_end_window().unwrap();
        if window > 0 {
            complete += u32::from(job.next_window().unwrap().unwrap().complete);
        }
    }
    assert_eq!(job.next_window().unwrap().unwrap().window, 19);
    assert!(complete < 20);
    job.finish().unwrap();
    let ((messages, summaries), _receiver) = receiving.join().unwrap();
    assert_eq!(summaries.len(), 21);
    for summary in &summaries[..20] {
        let got = messages.get(&summary.window).map_or(0, Vec::len) as u32;
        assert_eq!(got, summary.delivered);
    }
}

/// Empty windows between others, and a job that ends with two windows open.
#[test]
fn windows__of_empty_windows_and_an_early_finish() {
    let (_network, address, receiving) = network(0.1);
    let mut job = builder().msr(0.9).connect(address).unwrap();
    for window in 0..12 {
        send(&mut job, window, if window % 3 == 1 { 0 } else { 50 });
        job.begin_end_window().unwrap();
    }
    let report = job.finish().unwrap();
    let ((messages, summaries), _receiver) = receiving.join().unwrap();
    assert_eq!(report.windows as usize, summaries.len());
    assert!((12..=13).contains(&summaries.len()), "{}", summaries.len());
    assert!(summaries.iter().all(|summary| summary.complete));
    assert!(messages.iter().all(|(window, ids)| ids.len() >= 45 && window % 3 != 1));
}

#[test]
fn windows__canceled_with_two_windows_open() {
    let (_network, address, receiving) = network(0.3);
    // So slow that the first window lasts until the cancel.
    let mut job = builder().rate_max_bytes_per_s(1_000_000).connect(address).unwrap();
    send(&mut job, 0, 900);
    job.begin_end_window().unwrap();
    send(&mut job, 1, 900);
    // A sender of which nothing has arrived gives no event.
    while job.progress().delivered == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    let report = job.cancel().unwrap();
    assert!(report.canceled);
    let ((_, summaries), _receiver) = receiving.join().unwrap();
    assert!(summaries.last().is_some_and(|summary| summary.delivered < 900));
}

/// With and without a window that waits for the first one.
#[test]
fn cancel__of_windows_that_lack_messages_is_reported() {
    for delivered in [0, 200, 400] {
        let (_network, address, _receiving) = network(0.3);
        // The first window takes a second.
        let mut job = builder().rate_max_bytes_per_s(1_000_000).connect(address).unwrap();
        send(&mut job, 0, 1_500);
        job.begin_end_window().unwrap();
        if delivered != 200 {
            send(&mut job, 1, 900);
        }
        while job.progress().delivered < delivered {
            thread::sleep(Duration::from_millis(1));
        }
        let report = job.cancel().unwrap();
        assert!(report.canceled, "after {delivered} of 1,500 messages: {report:?}");
    }
}

#[test]
fn try_send__takes_nothing_while_two_windows_are_open() {
    // The peer never answers: no window ends.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut job = builder().connect(silent.local_addr().unwrap()).unwrap();
    for _ in 0..2 {
        assert_eq!(job.try_send_all(0, &[b"a message"]).unwrap(), 0..1);
        job.begin_end_window().unwrap();
    }
    assert_eq!(job.try_send_all(0, &[b"a message"]).unwrap(), 0..0);
    assert_eq!(job.try_send_in(0, b"a message").unwrap(), None);
}

#[test]
fn windows__ended_by_its_receiver() {
    let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    let sending = thread::spawn(move || {
        let mut job = builder().msr(0.5).connect(address).unwrap();
        for window in 0..100_000 {
            match job.send(&message(1_000 * window, LEN)) {
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
            job.begin_end_window().unwrap();
            match job.next_window() {
                Ok(_) => {}
                Err(Error::EndedByReceiver) => return job.finish().unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("never ended");
    });
    loop {
        match receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event") {
            Event::WindowEnded { run, .. } => receiver.request_end(run),
            Event::Finished { .. } => break,
            _ => {}
        }
    }
    assert!(sending.join().unwrap().ended_by_receiver);
}

/// The input ends while the end of a window is being confirmed: a FIN has said that another
/// follows. A send after that began a window that nobody ended.
#[test]
fn windows__ends_although_a_send_follows_the_end_of_input() {
    for round in 0..20 {
        let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
        let network = LossyNetwork::start(receiver.local_addr().unwrap(), 0.3, round);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    receiver.recv(Some(Duration::from_millis(10))).unwrap();
                }
            });
            let mut job = builder().msr(0.7).connect(network.address).unwrap();
            send(&mut job, 0, 5);
            job.begin_end_window().unwrap();
            // In some rounds a FIN has left, and isn't answered.
            thread::sleep(Duration::from_micros(500 * (round / 2)));
            match round % 2 {
                0 => job.begin_cancel(),
                _ => job.begin_finish(),
            }
            let refused = job.send(&message(0, LEN)).unwrap_err();
            assert!(matches!(refused, Error::Ended), "{refused}");
            let deadline = Instant::now() + Duration::from_secs(20);
            let has_ended = loop {
                match job.try_outcome().unwrap() {
                    None if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                    outcome => break outcome.is_some(),
                }
            };
            over.store(true, Ordering::Relaxed);
            assert!(has_ended, "the job doesn't end, in round {round}");
        });
    }
}

/// No window ends, because the peer never answers: both calls waited for that.
#[test]
fn set_msr__waits_for_no_window() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = builder().msr(0.9).peer_timeout(Duration::from_secs(3));
    let mut job = builder.connect(silent.local_addr().unwrap()).unwrap();
    send(&mut job, 0, 10);
    job.begin_end_window().unwrap();
    send(&mut job, 1, 10);
    job.set_msr(0, 0.5).unwrap();
    assert!(matches!(job.set_msr(7, 0.5), Err(Error::MsrRefused(_))));
    job.begin_end_window().unwrap();
    assert!(!job.try_begin_end_window().unwrap(), "two windows are open");
    job.set_msr(0, 0.7).unwrap();
    assert!(matches!(job.set_msr(7, 0.5), Err(Error::MsrRefused(_))));
    job.begin_cancel();
    while job.try_outcome().is_ok_and(|outcome| outcome.is_none()) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(job.set_msr(0, 0.8), Err(Error::MsrRefused(_))));
}

/// A rate that is set after the end of a window's input holds from the next one on, and one that is
/// set in a window holds for that one, whether or not the windows have begun on the wire.
#[test]
fn set_msr__holds_from_the_window_being_filled_on() {
    let (_network, address, receiving) = network(0.3);
    let mut job = builder().msr(0.9).connect(address).unwrap();
    let (mut rates, mut rate, mut reports) = (vec![], 0.9, vec![]);
    for window in 0..40 {
        if window % 4 == 1 {
            rate = f64::from(20 + window) / 100.0;
            job.set_msr(0, rate).unwrap();
        }
        send(&mut job, window, 30);
        if window % 4 == 3 {
            rate = f64::from(30 + window) / 100.0;
            job.set_msr(0, rate).unwrap();
        }
        rates.push(rate);
        job.begin_end_window().unwrap();
        while let Some(report) = job.try_window().unwrap() {
            reports.push(report);
        }
    }
    while let Some(report) = job.next_window().unwrap() {
        reports.push(report);
    }
    job.finish().unwrap();
    assert_eq!(reports.iter().map(|report| report.groups[0].msr).collect::<Vec<_>>(), rates);
    assert!(reports.iter().all(|report| report.complete));
    receiving.join().unwrap();
}

/// Messages of a window that never began give their memory back before the job's end is told.
#[test]
fn send_owned__of_a_window_that_never_begins() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = builder().peer_timeout(Duration::from_secs(1));
    let mut job = builder.connect(silent.local_addr().unwrap()).unwrap();
    send(&mut job, 0, 1);
    job.begin_end_window().unwrap();
    let changed = job.changed_fd().unwrap().try_clone_to_owned().unwrap();
    let was_told = Arc::new(AtomicBool::new(true));
    let told = was_told.clone();
    let look = move |_| told.store(is_readable(&changed), Ordering::Relaxed);
    job.send_owned(0, vec![7; LEN], look).unwrap();
    assert!(job.try_window().unwrap().is_none());
    while job.try_window().is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    drop(job);
    assert!(!was_told.load(Ordering::Relaxed));
}

fn is_readable(fd: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], 0u8) == Ok(1)
}
