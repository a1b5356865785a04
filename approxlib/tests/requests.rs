//! The terms that a receiver learns when a sender starts, and its requests.

mod common;

use approxlib::{
    Error, Event, Group, GroupTerms, Job, Order, RateRequest, Receiver, Requests, Terms,
};
use std::{net::SocketAddr, thread, time::Duration};

const SOON: Duration = Duration::from_secs(20);

fn receiver() -> (Receiver, SocketAddr) {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    (receiver, address)
}

/// The next event that is no message.
fn next(receiver: &mut Receiver) -> Event {
    loop {
        match receiver.recv(Some(SOON)).unwrap().expect("an event") {
            Event::Message { .. } => {}
            event => return event,
        }
    }
}

fn started(receiver: &mut Receiver) -> (u32, u64, Terms) {
    match next(receiver) {
        Event::Started { job, run, terms, .. } => (job, run, terms),
        event => panic!("{event:?}"),
    }
}

fn changed(receiver: &mut Receiver) -> Terms {
    match next(receiver) {
        Event::TermsChanged { terms, .. } => terms,
        event => panic!("{event:?}"),
    }
}

#[test]
fn started__tells_n_msr_and_name() {
    let (mut receiver, address) = receiver();
    let shuffled = Order::Shuffled { buffer: None };
    let among = |messages| Order::Shuffled { buffer: Some(messages) };
    let groups = [
        Group::new(1).msr(0.5).messages(100).name("flights").order(shuffled),
        Group::new(9).name("totals é").messages(4),
        Group::new(200).msr(0.25).order(among(1_500)),
    ];
    let mut job =
        Job::builder().control_socket(None).id("sums").groups(groups).connect(address).unwrap();
    job.send_in(1, b"a message").unwrap();
    let (id, _, terms) = started(&mut receiver);
    assert_eq!((id, terms.window), (job.id(), 0));
    let group = |group, name: &str, exact, messages, msr, order| GroupTerms {
        group,
        name: name.to_owned(),
        exact,
        messages,
        msr,
        order,
        shortest_first: false,
    };
    let expected = [
        group(1, "flights", false, Some(100), 0.5, shuffled),
        group(9, "totals é", true, Some(4), 1.0, Order::Unknown),
        group(200, "", false, None, 0.25, among(1_024)),
    ];
    assert_eq!(terms.groups, expected);
    job.set_msr(1, 0.75).unwrap();
    assert_eq!(changed(&mut receiver).groups[0].msr, 0.75);
    // The number of group 200 is known once the input ends.
    (0..99).for_each(|_| _ = job.send_in(1, b"a message").unwrap());
    (0..4).for_each(|_| _ = job.send_in(9, b"a total").unwrap());
    let sending = thread::spawn(move || job.finish().unwrap());
    let summary = loop {
        match next(&mut receiver) {
            Event::Finished { summary, .. } => break summary,
            Event::TermsChanged { terms, .. } => assert_eq!(terms.groups[2].messages, Some(0)),
            event => panic!("{event:?}"),
        }
    };
    assert_eq!(summary.messages, 104);
    assert_eq!(sending.join().unwrap().groups[0].msr, 0.75);
}

#[test]
fn group__with_a_bad_name_is_refused() {
    for name in ["x".repeat(33), "a\u{7}b".to_owned()] {
        let groups = [Group::new(3).name(&name)];
        let error = Job::builder().groups(groups).connect("127.0.0.1:9").unwrap_err();
        assert!(matches!(error, Error::GroupName(3)), "{error}");
    }
}

#[test]
fn request_msr__is_answered_and_reported() {
    let (mut receiver, address) = receiver();
    let mut job =
        Job::builder().control_socket(None).messages(1_000).msr(0.9).connect(address).unwrap();
    job.send(b"a message").unwrap();
    let (_, run, _) = started(&mut receiver);
    let request = RateRequest { run, group: 0, msr: 0.3 };
    receiver.request_msr(&request).unwrap();
    assert_eq!(changed(&mut receiver).groups[0].msr, 0.3);
    let wrong = receiver.request_msr(&RateRequest { msr: f64::NAN, ..request }).unwrap_err();
    assert!(matches!(wrong, Error::Msr(_)), "{wrong}");
    // Of an unknown run and group: nothing happens but an answer to the last.
    receiver.request_msr(&RateRequest { run: run + 1, ..request }).unwrap();
    receiver.request_msr(&RateRequest { group: 77, ..request }).unwrap();
    assert_eq!(changed(&mut receiver).groups[0].msr, 0.3);
    for _ in 1..1_000 {
        job.send(b"a message").unwrap();
    }
    let sending = thread::spawn(move || job.finish().unwrap());
    let received = common::receive(receiver).join().unwrap();
    let report = sending.join().unwrap();
    assert_eq!((report.groups[0].msr, report.groups[0].needed, report.requests), (0.3, 300, 2));
    assert!(received.summary.complete && received.summary.groups[0].needed == 300);
    assert!(!report.ended_by_receiver);
}

#[test]
fn request_end__ends_a_job_that_still_sends() {
    let (mut receiver, address) = receiver();
    let mut job = Job::builder().control_socket(None).connect(address).unwrap();
    job.send(b"a message").unwrap();
    let (_, run, _) = started(&mut receiver);
    receiver.request_end(run);
    // An exact job without an announced N ends too.
    while !job.progress().complete {
        job.send(b"a message").unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    let Event::Finished { summary, .. } = next(&mut receiver) else { panic!() };
    assert!(summary.complete && summary.delivered > 0);
    job.send(b"too late, and no error").unwrap();
    let report = job.finish().unwrap();
    assert!(report.ended_by_receiver && !report.canceled);
    assert_eq!((report.groups[0].needed, report.groups[0].msr), (0, 0.0));
}

#[test]
fn request_end__ends_a_job_in_and_between_windows() {
    for between in [false, true] {
        let (mut receiver, address) = receiver();
        let mut sender = Job::builder().control_socket(None).msr(0.5).connect(address).unwrap();
        for _ in 0..10 {
            sender.send(b"a message").unwrap();
        }
        // A sender whose terms are unknown gets no request: the window may be over before them.
        started(&mut receiver);
        sender.end_window().unwrap();
        if !between {
            sender.send(b"of the next window").unwrap();
        }
        loop {
            match next(&mut receiver) {
                Event::Started { run, terms, .. } if !between && terms.window == 1 => {
                    receiver.request_end(run);
                }
                Event::WindowEnded { run, .. } if between => {
                    receiver.request_end(run);
                }
                Event::Finished { .. } => break,
                _ => {}
            }
        }
        // The window that was open ends with its part.
        let mut ended = 0;
        while sender.send(b"a message").is_ok() {
            match sender.end_window() {
                Ok(_) => ended += 1,
                Err(Error::EndedByReceiver) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(ended <= 1, "{ended}");
        assert!(sender.finish().unwrap().ended_by_receiver);
    }
}

#[test]
fn requests__policy_of_the_sender() {
    let within = Requests::Within { msr_min: 0.4, msr_max: 0.6, may_end: false };
    for (requests, set) in [(Requests::Refuse, [0.5, 0.5]), (within, [0.4, 0.6])] {
        let (mut receiver, address) = receiver();
        let builder = Job::builder().control_socket(None).messages(100).msr(0.5);
        let mut job = builder.requests(requests).connect(address).unwrap();
        job.send(b"a message").unwrap();
        let (_, run, _) = started(&mut receiver);
        for (asked, set) in [0.1, 0.9].into_iter().zip(set) {
            let request = RateRequest { run, group: 0, msr: asked };
            receiver.request_msr(&request).unwrap();
            assert_eq!(changed(&mut receiver).groups[0].msr, set, "{requests:?}");
        }
        receiver.request_end(run);
        changed(&mut receiver);
        assert!(!job.progress().complete, "{requests:?}");
        for _ in 1..100 {
            job.send(b"a message").unwrap();
        }
        let report = thread::spawn(move || job.finish().unwrap());
        common::receive(receiver).join().unwrap();
        assert!(!report.join().unwrap().ended_by_receiver);
    }
    let wrong = Requests::Within { msr_min: 0.6, msr_max: 0.4, may_end: true };
    let error = Job::builder().requests(wrong).connect("127.0.0.1:9").unwrap_err();
    assert!(matches!(error, Error::RequestBounds { .. }), "{error}");
}
