//! Streams whose windows overlap: the next is sent while the end of the last is confirmed.

mod common;

use approxlib::{Error, Event, Job, JobBuilder, LostIds, Receiver, Stream, Summary};
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

fn send(stream: &mut Stream, window: u32, number: u32) {
    for id in 0..number {
        assert_eq!(stream.send(&message(id + 1_000 * window, LEN)).unwrap(), id);
    }
}

#[test]
fn stream__windows_end_in_order_while_the_next_is_sent() {
    let (_network, address, receiving) = network(0.2);
    let mut stream = builder().msr(0.7).stream(address).unwrap();
    let mut reports = vec![];
    assert_eq!(stream.next_window().unwrap(), None);
    for window in 0..30 {
        send(&mut stream, window, 60 + window);
        stream.begin_end_window();
        while let Some(report) = stream.try_window().unwrap() {
            reports.push(report);
        }
    }
    while let Some(report) = stream.next_window().unwrap() {
        reports.push(report);
    }
    let report = stream.finish().unwrap();
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
fn stream__of_windows_with_deadlines() {
    let (_network, address, receiving) = network(0.4);
    let deadline = Duration::from_millis(30);
    let mut stream = builder().messages(40).window_deadline(deadline).stream(address).unwrap();
    let mut complete = 0;
    for window in 0..20 {
        send(&mut stream, window, 40);
        stream.begin_end_window();
        if window > 0 {
            complete += u32::from(stream.next_window().unwrap().unwrap().complete);
        }
    }
    assert_eq!(stream.next_window().unwrap().unwrap().window, 19);
    assert!(complete < 20);
    stream.finish().unwrap();
    let ((messages, summaries), _receiver) = receiving.join().unwrap();
    assert_eq!(summaries.len(), 21);
    for summary in &summaries[..20] {
        let got = messages.get(&summary.window).map_or(0, Vec::len) as u32;
        assert_eq!(got, summary.delivered);
    }
}

/// Empty windows between others, and a stream that ends with two windows open.
#[test]
fn stream__of_empty_windows_and_an_early_finish() {
    let (_network, address, receiving) = network(0.1);
    let mut stream = builder().msr(0.9).stream(address).unwrap();
    for window in 0..12 {
        send(&mut stream, window, if window % 3 == 1 { 0 } else { 50 });
        stream.begin_end_window();
    }
    let report = stream.finish().unwrap();
    let ((messages, summaries), _receiver) = receiving.join().unwrap();
    assert_eq!(report.windows as usize, summaries.len());
    assert!((12..=13).contains(&summaries.len()), "{}", summaries.len());
    assert!(summaries.iter().all(|summary| summary.complete));
    assert!(messages.iter().all(|(window, ids)| ids.len() >= 45 && window % 3 != 1));
}

#[test]
fn stream__canceled_with_two_windows_open() {
    let (_network, address, receiving) = network(0.3);
    // So slow that the first window lasts until the cancel.
    let mut stream = builder().rate_max_bytes_per_s(1_000_000).stream(address).unwrap();
    send(&mut stream, 0, 900);
    stream.begin_end_window();
    send(&mut stream, 1, 900);
    // A sender of which nothing has arrived gives no event.
    while stream.job().progress().delivered == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    let report = stream.cancel().unwrap();
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
        let mut stream = builder().rate_max_bytes_per_s(1_000_000).stream(address).unwrap();
        send(&mut stream, 0, 1_500);
        stream.begin_end_window();
        if delivered != 200 {
            send(&mut stream, 1, 900);
        }
        while stream.job().progress().delivered < delivered {
            thread::sleep(Duration::from_millis(1));
        }
        let report = stream.cancel().unwrap();
        assert!(report.canceled, "after {delivered} of 1,500 messages: {report:?}");
    }
}

#[test]
fn try_send__reports_that_two_windows_are_open() {
    // The peer never answers: no window ends.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut stream = builder().stream(silent.local_addr().unwrap()).unwrap();
    for _ in 0..2 {
        assert_eq!(stream.try_send_all(0, &[b"a message"]).unwrap(), 0..1);
        stream.begin_end_window();
    }
    let error = stream.try_send_all(0, &[b"a message"]).unwrap_err();
    assert!(matches!(error, Error::WindowEnding), "{error}");
}

#[test]
fn stream__ended_by_its_receiver() {
    let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    let sending = thread::spawn(move || {
        let mut stream = builder().msr(0.5).stream(address).unwrap();
        for window in 0..100_000 {
            match stream.send(&message(1_000 * window, LEN)) {
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
            stream.begin_end_window();
            match stream.next_window() {
                Ok(_) => {}
                Err(Error::EndedByReceiver) => return stream.finish().unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("never ended");
    });
    loop {
        match receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event") {
            Event::WindowEnded { source, job, .. } => receiver.request_end(source, job),
            Event::Finished { .. } => break,
            _ => {}
        }
    }
    assert!(sending.join().unwrap().ended_by_receiver);
}

/// The input ends while the end of a window is being confirmed: a FIN has said that another
/// follows. A send after that began a window that nobody ended.
#[test]
fn stream__ends_although_a_send_follows_the_end_of_input() {
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
            let mut stream = builder().msr(0.7).stream(network.address).unwrap();
            send(&mut stream, 0, 5);
            stream.begin_end_window();
            // In some rounds a FIN has left, and isn't answered.
            thread::sleep(Duration::from_micros(500 * (round / 2)));
            match round % 2 {
                0 => stream.job().begin_cancel(),
                _ => stream.job().begin_finish(),
            }
            let refused = stream.send(&message(0, LEN)).unwrap_err();
            assert!(matches!(refused, Error::Ended), "{refused}");
            let deadline = Instant::now() + Duration::from_secs(20);
            let has_ended = loop {
                match stream.try_outcome().unwrap() {
                    None if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                    outcome => break outcome.is_some(),
                }
            };
            over.store(true, Ordering::Relaxed);
            assert!(has_ended, "the stream doesn't end, in round {round}");
        });
    }
}

/// No window ends, because the peer never answers: both calls waited for that.
#[test]
fn set_msr__waits_for_no_window() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = builder().msr(0.9).peer_timeout(Duration::from_secs(3));
    let mut stream = builder.stream(silent.local_addr().unwrap()).unwrap();
    send(&mut stream, 0, 10);
    stream.begin_end_window();
    send(&mut stream, 1, 10);
    stream.set_msr(0, 0.5).unwrap();
    assert!(matches!(stream.set_msr(7, 0.5), Err(Error::MsrRefused(_))));
    stream.begin_end_window();
    assert!(!stream.try_begin_end_window(), "two windows are open");
    stream.set_msr(0, 0.7).unwrap();
    assert!(matches!(stream.set_msr(7, 0.5), Err(Error::MsrRefused(_))));
    stream.job().begin_cancel();
    while stream.try_outcome().is_ok_and(|outcome| outcome.is_none()) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(stream.set_msr(0, 0.8), Err(Error::MsrRefused(_))));
}

/// A rate that is set after the end of a window's input holds from the next one on, and one that is
/// set in a window holds for that one, whether or not the windows have begun on the wire.
#[test]
fn set_msr__holds_from_the_window_being_filled_on() {
    let (_network, address, receiving) = network(0.3);
    let mut stream = builder().msr(0.9).stream(address).unwrap();
    let (mut rates, mut rate, mut reports) = (vec![], 0.9, vec![]);
    for window in 0..40 {
        if window % 4 == 1 {
            rate = f64::from(20 + window) / 100.0;
            stream.set_msr(0, rate).unwrap();
        }
        send(&mut stream, window, 30);
        if window % 4 == 3 {
            rate = f64::from(30 + window) / 100.0;
            stream.set_msr(0, rate).unwrap();
        }
        rates.push(rate);
        stream.begin_end_window();
        while let Some(report) = stream.try_window().unwrap() {
            reports.push(report);
        }
    }
    while let Some(report) = stream.next_window().unwrap() {
        reports.push(report);
    }
    stream.finish().unwrap();
    assert_eq!(reports.iter().map(|report| report.groups[0].msr).collect::<Vec<_>>(), rates);
    assert!(reports.iter().all(|report| report.complete));
    receiving.join().unwrap();
}

/// Messages of a window that never began give their memory back before the job's end is told.
#[test]
fn send_owned__of_a_window_that_never_begins() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = builder().peer_timeout(Duration::from_secs(1));
    let mut stream = builder.stream(silent.local_addr().unwrap()).unwrap();
    send(&mut stream, 0, 1);
    stream.begin_end_window();
    let changed = stream.job().changed_fd().unwrap().try_clone_to_owned().unwrap();
    let was_told = Arc::new(AtomicBool::new(true));
    let told = was_told.clone();
    let look = move |_| told.store(is_readable(&changed), Ordering::Relaxed);
    stream.send_owned(0, vec![7; LEN], look).unwrap();
    assert!(stream.try_window().unwrap().is_none());
    while stream.try_window().is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    drop(stream);
    assert!(!was_told.load(Ordering::Relaxed));
}

fn is_readable(fd: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], 0u8) == Ok(1)
}
