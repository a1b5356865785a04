//! Tests of jobs with windows, and of the deadline of a window.

mod common;

use approxlib::{
    Error, Event, Job, LostIds, RateLaw, Receiver, Report, Rules, Summary, UnknownIds, WindowReport,
};
use common::{LossyNetwork, message};
use std::{
    collections::BTreeMap,
    thread::{self, JoinHandle},
    time::Duration,
};

/// Message ids by window, and the summary of each window. The last summary is the job's.
type Got = (BTreeMap<u32, Vec<u32>>, Vec<Summary>);

/// Receives until the job ends. Also returns the receiver, to be kept until the sender has the
/// answer to its FIN.
fn receive(mut receiver: Receiver) -> JoinHandle<(Got, Receiver)> {
    thread::spawn(move || {
        let (mut messages, mut summaries) = (BTreeMap::<u32, Vec<u32>>::new(), vec![]);
        loop {
            match receiver.recv(Some(Duration::from_secs(20))).unwrap() {
                Some(Event::Message { window, message: id, data, .. }) => {
                    assert_eq!(data, message(id + 1_000 * window, 700));
                    messages.entry(window).or_default().push(id);
                }
                Some(Event::Started { .. } | Event::TermsChanged { .. }) => {}
                Some(Event::WindowEnded { summary, .. }) => {
                    assert_eq!(summary.window as usize, summaries.len());
                    summaries.push(summary);
                }
                Some(Event::Finished { summary, .. }) => {
                    summaries.push(summary);
                    return ((messages, summaries), receiver);
                }
                None => panic!("no event for 20 s"),
            }
        }
    })
}

fn run(
    loss: f64,
    open: impl FnOnce(std::net::SocketAddr) -> Job,
    send: impl FnOnce(Job) -> (Vec<WindowReport>, Report),
) -> (Vec<WindowReport>, Report, Got) {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let network = LossyNetwork::start(receiver.local_addr().unwrap(), loss, 9);
    let received = receive(receiver);
    let (windows, report) = send(open(network.address));
    (windows, report, received.join().unwrap().0)
}

fn send_window(job: &mut Job, window: u32, number: u32) {
    for id in 0..number {
        assert_eq!(job.send(&message(id + 1_000 * window, 700)).unwrap(), id);
    }
}

#[test]
fn windows__windows_end_one_by_one_and_begin_empty() {
    let open = |peer| Job::builder().control_socket(None).msr(0.8).connect(peer).unwrap();
    let (windows, report, (messages, summaries)) = run(0.3, open, |mut job| {
        let windows = (0..5).map(|window| {
            send_window(&mut job, window, 100 + 10 * window);
            job.end_window().unwrap()
        });
        let windows: Vec<_> = windows.collect();
        (windows, job.finish().unwrap())
    });
    // An empty window follows, because the receiver was told to expect another one.
    assert_eq!((report.windows, summaries.len()), (6, 6));
    assert_eq!(summaries[5].messages, 0);
    for (window, report) in (0..).zip(&windows) {
        let (number, summary) = (100 + 10 * window, &summaries[window as usize]);
        assert!(report.complete && summary.complete);
        assert_eq!((report.window, report.groups[0].messages), (window, number));
        assert_eq!((summary.messages, messages[&window].len() as u32), (number, summary.delivered));
        assert!(summary.delivered >= (number * 4).div_ceil(5));
        let lost = summary.groups[0].lost.iter().cloned().flatten();
        let all = messages[&window].iter().copied().chain(lost);
        assert!(all.collect::<std::collections::BTreeSet<_>>().into_iter().eq(0..number));
    }
}

#[test]
fn windows__with_announced_windows_ends_each_before_all_is_sent() {
    let builder = Job::builder().control_socket(None).windows(true).msr(0.5).messages(400);
    let (windows, _, (_, summaries)) = run(
        0.0,
        |peer| builder.connect(peer).unwrap(),
        |mut job| {
            let mut windows = vec![];
            for window in 0..3 {
                send_window(&mut job, window, 400);
                windows.push(job.end_window().unwrap());
                job.set_messages(0, 400);
            }
            (windows, job.finish().unwrap())
        },
    );
    assert!(windows.iter().all(|window| window.complete && window.groups[0].needed == 200));
    assert!(summaries[..3].iter().all(|summary| summary.messages == 400));
}

#[test]
fn windows__reports_a_missed_deadline_and_begins_the_next_window() {
    // At 125 packets a second, no window of 500 messages can be complete. One of 10 needs 80 ms.
    let builder = Job::builder()
        .control_socket(None)
        .rate_max_bytes_per_s(100_000)
        .msr(1.0)
        .window_deadline(Duration::from_millis(1_500));
    let (windows, report, (messages, summaries)) = run(
        0.0,
        |peer| builder.connect(peer).unwrap(),
        |mut job| {
            let mut windows = vec![];
            for (window, number) in [(0, 500), (1, 10), (2, 500)] {
                send_window(&mut job, window, number);
                windows.push(job.end_window().unwrap());
            }
            (windows, job.cancel().unwrap())
        },
    );
    let complete: Vec<bool> = windows.iter().map(|window| window.complete).collect();
    assert_eq!(complete, [false, true, false]);
    assert_eq!(summaries[..3].iter().map(|s| s.complete).collect::<Vec<_>>(), complete);
    for window in [0, 2] {
        let (delivered, got) = (windows[window].groups[0].delivered, &messages[&(window as u32)]);
        assert!(delivered > 0 && delivered < 500 && got.len() == delivered as usize);
    }
    assert_eq!(report.windows as usize, summaries.len());
}

/// A window that is late because it yields does so less, and the report says so. Without a
/// deadline, or under a law without windows of packets, none does.
#[test]
fn windows__a_late_window_hurries() {
    // Half of the packets and of the ACKs are lost, and each keeps its room in the window for a
    // while. Far more messages than arrive in the time.
    let late = || Job::builder().control_socket(None).windows(true).msr(0.9);
    let deadline = Duration::from_millis(1_500);
    let polite = Rules::new(RateLaw::Tfrc);
    for (builder, messages, hurried) in [
        (late().messages(30_000).window_deadline(deadline), 30_000, 1),
        (late().messages(30_000).window_deadline(deadline).rules(polite), 30_000, 0),
        (late(), 500, 0),
    ] {
        let open = |peer| builder.clone().connect(peer).unwrap();
        let (_, report, _) = run(0.5, open, |mut job| {
            send_window(&mut job, 0, messages);
            let windows = vec![job.end_window().unwrap()];
            (windows, job.cancel().unwrap())
        });
        assert_eq!(report.windows_hurried, hurried, "{report:?}");
    }
}

/// The sender has asked the receiver to confirm the window's end and announced another window. Then
/// the application ends the job.
#[test]
fn windows__finish_while_the_window_is_ending_by_itself() {
    for cancels in [false, true] {
        for _ in 0..20 {
            let builder = Job::builder().control_socket(None).windows(true).msr(0.5).messages(400);
            let (_, report, (_, summaries)) = run(
                0.0,
                |peer| builder.connect(peer).unwrap(),
                |mut job| {
                    // A receiver that has no message yet gives no event, so a window goes ahead.
                    send_window(&mut job, 0, 400);
                    let first = job.end_window().unwrap();
                    job.set_messages(0, 400);
                    send_window(&mut job, 1, 400);
                    let report = if cancels { job.cancel() } else { job.finish() };
                    (vec![first], report.unwrap())
                },
            );
            assert_eq!(
                report.windows as usize,
                summaries.len(),
                "cancels: {cancels}, {report:?} {summaries:?}"
            );
            assert!(cancels || summaries[1].delivered >= 200);
        }
    }
}

/// Messages sent after the deadline count, because they were accepted.
#[test]
fn windows__a_deadline_waits_for_n() {
    let deadline = Duration::from_millis(100);
    let builder = Job::builder().control_socket(None).msr(0.9).window_deadline(deadline);
    let (windows, _, (_, summaries)) = run(
        0.0,
        |peer| builder.connect(peer).unwrap(),
        |mut job| {
            send_window(&mut job, 0, 10);
            thread::sleep(3 * deadline);
            for id in 10..100 {
                assert_eq!(job.send(&message(id, 700)).unwrap(), id);
            }
            (vec![job.end_window().unwrap()], job.finish().unwrap())
        },
    );
    let (group, summary) = (&windows[0].groups[0], &summaries[0]);
    assert_eq!((group.messages, group.needed, summary.messages), (100, 90, 100));
    assert_eq!(windows[0].complete, group.delivered >= 90);
    assert_eq!(summary.complete, summary.delivered >= 90);
}

/// Both sides name the same lost messages at each window's end, also when receipts are lost.
#[test]
fn windows__both_sides_name_the_lost_messages() {
    let builder = Job::builder().control_socket(None).windows(true).msr(0.6);
    let builder = builder.messages(300).name_lost(true);
    let open = |peer| builder.connect(peer).unwrap();
    let (windows, _, (_, summaries)) = run(0.3, open, |mut job| {
        let windows = (0..4).map(|window| {
            send_window(&mut job, window, 300);
            job.end_window().unwrap()
        });
        (windows.collect(), job.finish().unwrap())
    });
    for (window, summary) in windows.iter().zip(&summaries) {
        let LostIds::Known(lost) = &window.groups[0].lost_ids else { panic!("{window:?}") };
        assert_eq!(*lost, summary.groups[0].lost);
        let number: u32 = lost.iter().map(|ids| ids.end - ids.start).sum();
        assert_eq!((number, number > 0), (window.groups[0].lost, true));
    }
}

#[test]
fn name_lost__only_on_request() {
    let open = |peer| Job::builder().control_socket(None).msr(0.6).connect(peer).unwrap();
    let (windows, report, _) = run(0.0, open, |mut job| {
        send_window(&mut job, 0, 100);
        (vec![job.end_window().unwrap()], job.finish().unwrap())
    });
    for group in [&windows[0].groups[0], &report.groups[0]] {
        assert_eq!(group.lost_ids, LostIds::Unknown(UnknownIds::NotAsked));
    }
}

/// The first error must not use up the job's outcome.
#[test]
fn end_window__of_a_failed_job_says_so_each_time() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let builder = Job::builder().control_socket(None).peer_timeout(Duration::from_millis(50));
    let mut job = builder.connect(silent.local_addr().unwrap()).unwrap();
    job.send(b"nobody reads it").unwrap();
    for _ in 0..3 {
        assert!(matches!(job.end_window(), Err(Error::Short(_))));
    }
    assert!(matches!(job.finish(), Err(Error::Short(_))));
}

/// The application has ended the job, not the receiver.
#[test]
fn end_window__of_a_canceled_job_names_who_ended_it() {
    let (_, report, (_, summaries)) = run(
        0.0,
        |address| Job::builder().control_socket(None).connect(address).unwrap(),
        |mut job| {
            send_window(&mut job, 0, 10);
            assert!(job.end_window().unwrap().complete);
            send_window(&mut job, 1, 10);
            job.handle().begin_cancel();
            // The canceled window has a report if it had begun on the wire.
            let _ = job.end_window();
            for _ in 0..2 {
                let error = job.end_window().unwrap_err();
                assert!(matches!(error, Error::Ended), "{error}");
            }
            (vec![], job.finish().unwrap())
        },
    );
    assert!(!report.ended_by_receiver && summaries.len() == 2);
}

/// A job that never ends a window ends at its deadline too, whether its N was announced or not, and
/// no empty window follows.
#[test]
fn window_deadline__ends_a_job_without_windows() {
    // At 125 packets a second, 500 messages take 4 s.
    let slow = || {
        let builder = Job::builder().control_socket(None).rate_max_bytes_per_s(100_000);
        builder.window_deadline(Duration::from_millis(500))
    };
    for builder in [slow(), slow().messages(500)] {
        let open = |peer| builder.connect(peer).unwrap();
        let (_, report, (_, summaries)) = run(0.0, open, |mut job| {
            send_window(&mut job, 0, 500);
            (vec![], job.finish().unwrap())
        });
        let (group, summary) = (&report.groups[0], &summaries[0]);
        assert!(report.canceled && !summary.complete);
        assert!(group.delivered > 0 && group.delivered < 500, "{report:?}");
        assert_eq!((report.windows, summaries.len(), group.messages), (1, 1, 500));
        assert_eq!(group.delivered, summary.delivered);
    }
}

/// The end of a job with an announced N is the end of its only window, whoever is faster: the
/// application, or the network.
#[test]
fn end_window__of_an_announced_job_needs_the_option() {
    let builder = Job::builder().control_socket(None).messages(10);
    let open = |peer| builder.connect(peer).unwrap();
    let (_, report, (_, summaries)) = run(0.0, open, |mut job| {
        send_window(&mut job, 0, 10);
        for error in [job.end_window().err(), job.try_begin_end_window().err()] {
            assert!(error.unwrap().to_string().contains("set the option windows"));
        }
        assert!(!job.awaits_window());
        (vec![], job.finish().unwrap())
    });
    assert_eq!((report.windows, summaries.len(), report.groups[0].delivered), (1, 1, 10));
}

/// Each receiver of a job has windows of its own.
#[test]
fn connect_all__windows_of_each_receiver() {
    let receivers: Vec<_> = (0..2)
        .map(|_| Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap())
        .collect();
    let peers: Vec<_> = receivers.iter().map(|receiver| receiver.local_addr().unwrap()).collect();
    let receiving: Vec<_> = receivers.into_iter().map(receive).collect();
    let mut job = Job::builder().control_socket(None).connect_all(&peers).unwrap();
    for window in 0..3 {
        send_window(job.to(0), window, 20);
        assert!(job.to(0).end_window().unwrap().complete);
    }
    send_window(job.to(1), 0, 20);
    let reports = job.finish().unwrap();
    let summaries = receiving.into_iter().map(|receiving| receiving.join().unwrap().0.1);
    assert_eq!(summaries.map(|of_one| of_one.len()).collect::<Vec<_>>(), [4, 1]);
    assert_eq!(reports.iter().map(|report| report.windows).collect::<Vec<_>>(), [4, 1]);
}
