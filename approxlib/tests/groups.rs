//! Tests of jobs with several groups over a network that loses a third of all packets: the rate of
//! each group, the order of exact groups, changed rates, and early ends.

mod common;

use approxlib::{Error, Event, Group, Job, JobBuilder, Receiver, Report, Summary};
use common::{LossyNetwork, message};
use std::{collections::BTreeMap, thread, time::Duration};

const LOSS: f64 = 0.33;

/// The outcome at a receiver: ids by group, in the order of delivery.
struct Got {
    ids: BTreeMap<u8, Vec<u32>>,
    summary: Summary,
    /// Kept until the sender has the answer to its FIN.
    _receiver: Receiver,
}

/// Runs a job with the caller's options and messages, and returns the outcome at both sides.
fn run(
    seed: u64,
    build: impl FnOnce(JobBuilder) -> JobBuilder,
    send: impl FnOnce(Job) -> Result<Report, Error>,
) -> (Result<Report, Error>, Got) {
    let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let network = LossyNetwork::start(receiver.local_addr().unwrap(), LOSS, seed);
    let received = thread::spawn(move || {
        let mut ids: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        loop {
            match receiver.recv(Some(Duration::from_secs(20))).unwrap() {
                Some(Event::Message { group, message: id, data, window, .. }) => {
                    assert_eq!((data, window), (message(id ^ u32::from(group), 700), 0));
                    ids.entry(group).or_default().push(id);
                }
                Some(Event::Started { .. } | Event::TermsChanged { .. }) => {}
                Some(Event::Finished { summary, .. }) => {
                    return Got { ids, summary, _receiver: receiver };
                }
                other => panic!("{other:?}"),
            }
        }
    });
    let job = build(Job::builder().control_socket(None)).connect(network.address).unwrap();
    // The receiver is joined after the sender has ended, because it must answer until then.
    let report = send(job);
    (report, received.join().unwrap())
}

fn send_each(job: &mut Job, groups: &[u8], number: u32) -> Result<(), Error> {
    for id in 0..number {
        for &group in groups {
            assert_eq!(job.send_in(group, &message(id ^ u32::from(group), 700))?, id);
        }
    }
    Ok(())
}

#[test]
fn groups__each_reaches_its_own_rate_and_the_exact_one_comes_in_order() {
    // Sampling by importance.
    let rates = [(3, 0.0), (8, 0.125), (9, 0.925), (200, 1.0)];
    let groups = rates.map(|(id, msr)| Group::new(id).msr(msr).messages(200));
    let (report, got) = run(
        1,
        |builder| builder.groups(groups),
        |mut job| {
            assert!(matches!(job.send(b"x"), Err(Error::NoGroup(0))));
            send_each(&mut job, &rates.map(|(id, _)| id), 200)?;
            assert!(matches!(job.send_in(9, b"x"), Err(Error::TooMany { messages: 200 })));
            job.finish()
        },
    );
    let report = report.unwrap();
    for ((id, msr), group) in rates.into_iter().zip(&got.summary.groups) {
        let needed = (msr * 200.0f64 - 1e-6).ceil() as u32;
        assert_eq!((group.group, group.messages, group.needed), (id, 200, needed));
        let ids = got.ids.get(&id).cloned().unwrap_or_default();
        assert!(group.delivered >= needed && ids.len() == group.delivered as usize, "{group:?}");
        let lost = group.lost.iter().cloned().flatten();
        let all: std::collections::BTreeSet<_> = ids.iter().copied().chain(lost).collect();
        assert!(all.into_iter().eq(0..200), "group {id}");
    }
    assert!(got.ids[&200].iter().copied().eq(0..200), "the exact group came out of order");
    assert!(report.groups.iter().all(|group| group.delivered >= group.needed));
    assert!(report.timeline.iter().any(|sample| sample.group == 200 && sample.queue == 0));
    assert!(report.timeline.iter().all(|sample| sample.group == 200 || sample.queue > 0));
}

#[test]
fn groups__all_256() {
    let all: Vec<u8> = (0..=255).collect();
    let groups = all.clone().into_iter().map(|id| Group::new(id).msr(f64::from(id) / 255.0));
    let (report, got) = run(
        2,
        |builder| builder.groups(groups),
        |mut job| {
            send_each(&mut job, &all, 4)?;
            job.finish()
        },
    );
    assert_eq!((report.unwrap().groups.len(), got.summary.groups.len()), (256, 256));
    assert!(got.summary.complete && got.summary.messages == 1_024);
}

#[test]
fn set_msr__raised_and_lowered_while_the_job_runs() {
    let (report, got) = run(
        3,
        |builder| builder.msr(0.2).groups([Group::new(1).msr(0.9)]),
        |mut job| {
            send_each(&mut job, &[0, 1], 300)?;
            job.set_msr(0, 0.95)?;
            job.set_msr(1, 0.1)?;
            assert!(matches!(job.set_msr(1, 1.5), Err(Error::Msr(_))));
            assert!(matches!(job.set_msr(7, 0.5), Err(Error::MsrRefused(_))));
            job.finish()
        },
    );
    let needed: Vec<u32> = report.unwrap().groups.iter().map(|group| group.needed).collect();
    assert_eq!(needed, [285, 30]);
    assert!(got.summary.groups[0].delivered >= 285);
}

#[test]
fn set_msr__an_exact_group_stays_exact() {
    let (report, got) = run(
        4,
        |builder| builder.msr(1.0),
        |mut job| {
            send_each(&mut job, &[0], 50)?;
            assert!(matches!(job.set_msr(0, 0.5), Err(Error::MsrRefused(_))));
            job.finish()
        },
    );
    assert_eq!(report.unwrap().groups[0].delivered, 50);
    assert!(got.ids[&0].iter().copied().eq(0..50));
}

#[test]
fn cancel__tells_the_receiver_what_it_wont_get() {
    let (report, got) = run(
        5,
        |builder| builder.msr(0.9).messages(100_000),
        |mut job| {
            send_each(&mut job, &[0], 2_000)?;
            // On a busy machine no message may have been delivered yet.
            while job.progress().delivered == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            job.cancel()
        },
    );
    let report = report.unwrap();
    assert!(report.canceled && !got.summary.complete);
    let group = &got.summary.groups[0];
    assert_eq!(report.groups[0].delivered, group.delivered);
    assert_eq!(got.ids[&0].len(), group.delivered as usize);
    assert_eq!((group.messages, group.needed), (100_000, 90_000));
}

#[test]
fn finish__early_with_fewer_messages_than_announced() {
    let (report, got) = run(
        6,
        |builder| builder.msr(0.5).messages(10_000),
        |mut job| {
            send_each(&mut job, &[0], 100)?;
            job.finish()
        },
    );
    let report = report.unwrap();
    assert_eq!((report.groups[0].messages, report.groups[0].needed), (100, 50));
    assert!(got.summary.complete && !report.canceled);
}

#[test]
fn try_every_message__sends_each_at_least_once() {
    let (report, _) = run(
        7,
        |builder| builder.msr(0.1).messages(500).try_every_message(true).packing(false),
        |mut job| {
            send_each(&mut job, &[0], 500)?;
            job.finish()
        },
    );
    assert!(report.unwrap().packets_sent >= 500);
}

#[test]
fn connect_all__each_receiver_gets_what_it_needs() {
    let mut receivers = vec![];
    let mut networks = vec![];
    for seed in 0..3 {
        let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
        networks.push(LossyNetwork::start(receiver.local_addr().unwrap(), LOSS, seed));
        receivers.push(receiver);
    }
    let peers: Vec<_> = networks.iter().map(|network| network.address).collect();
    let builder = Job::builder().control_socket(None).msr(0.75).messages(300);
    let mut job = builder.connect_all(&peers).unwrap();
    assert_eq!((job.peers(), job.to(0).id()), (3, job.id()));
    for id in 0..300 {
        for to in 0..3 {
            job.to(to).send(&message(id, 700)).unwrap();
        }
    }
    let reports = job.finish().unwrap();
    for (report, receiver) in reports.iter().zip(receivers) {
        assert!(report.groups[0].delivered >= 225 && report.job == reports[0].job);
        assert_eq!(receiver.stats().messages, u64::from(report.groups[0].delivered));
    }
    assert!(matches!(Job::builder().connect_all::<std::net::SocketAddr>(&[]), Err(Error::NoPeers)));
}
