//! Tests of the complete path over real sockets on the loopback interface, with the userspace
//! datapath.

mod common;

use approxlib::{Error, Event, Job, RateLaw, Receiver, Report, Rules, ShortCause};
use atp_common::wire::{HEADER_LEN, Header, Kind, ReceiptBody};
use common::{ClosedPort, LossyNetwork, Received, message, receive};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

struct Case {
    bind: &'static str,
    messages: u32,
    bytes: usize,
    msr: f64,
    packing: bool,
    announce: bool,
    loss: f64,
    seed: u64,
}

const PLAIN: Case = Case {
    bind: "127.0.0.1:0",
    messages: 1_000,
    bytes: 200,
    msr: 1.0,
    packing: true,
    announce: true,
    loss: 0.0,
    seed: 1,
};

/// Runs a job over a network and checks what must hold of every job.
fn run(case: &Case) -> (Report, Received) {
    let receiver = Receiver::builder().control_socket(None).bind(case.bind).unwrap();
    let at = receiver.local_addr().unwrap();
    let network = (case.loss > 0.0).then(|| LossyNetwork::start(at, case.loss, case.seed));
    let peer = network.as_ref().map_or(at, |network| network.address);
    let received = receive(receiver);

    let mut job = Job::builder().control_socket(None).msr(case.msr).packing(case.packing);
    if case.announce {
        job = job.messages(case.messages);
    }
    let mut job = job.connect(peer).unwrap();
    for id in 0..case.messages {
        assert_eq!(job.send(&message(id, case.bytes)).unwrap(), id);
    }
    let report = job.finish().unwrap();
    let received = received.join().unwrap();
    check(case, &report, &received);
    (report, received)
}

fn check(case: &Case, report: &Report, received: &Received) {
    let group = &report.groups[0];
    let needed = (case.msr * f64::from(case.messages) - 1e-6).ceil() as u32;
    assert_eq!((group.messages, group.needed), (case.messages, needed));
    assert!(group.delivered >= needed, "{} of {needed}", group.delivered);
    assert_eq!(group.messages, group.delivered + group.lost);
    for (id, data) in &received.messages {
        assert_eq!(*data, message(*id, case.bytes), "message {id} was altered");
    }
    let summary = &received.summary;
    assert_eq!(received.messages.len(), summary.delivered as usize);
    assert!(summary.delivered >= group.needed);
    for lost in &summary.groups[0].lost {
        assert!(lost.clone().all(|id| !received.messages.contains_key(&id)));
    }
    assert_eq!((report.datapath.as_str(), report.pacing.as_str()), ("userspace", "userspace"));
}

#[test]
fn job__exact_delivers_everything() {
    let (report, received) = run(&Case { packing: false, ..PLAIN });
    assert_eq!(received.messages.len(), 1_000);
    assert!(received.summary.groups[0].lost.is_empty());
    assert!(report.packets_sent >= 1_000 && report.packets_arrived >= 1_000);
    assert_eq!(report.messages_packed, 0);
    // The first sample is older than any ACK.
    assert_eq!(report.timeline[0].rtt_us, None);
    assert!(report.timeline.iter().all(|sample| sample.rtt_us != Some(0.0)));
}

#[test]
fn job__short_messages_share_packets() {
    for (msr, loss) in [(1.0, 0.0), (0.9, 0.0), (1.0, 0.1), (0.8, 0.3)] {
        let (report, received) = run(&Case { messages: 5_000, bytes: 100, msr, loss, ..PLAIN });
        assert!(received.messages.len() >= (5_000.0 * msr) as usize);
        assert!(report.messages_packed > 3_000, "{report:?}");
        assert!(report.packets_sent < 3_000, "{report:?}");
    }
}

#[test]
fn send_all__is_send_for_each_message() {
    for bytes in [0, 100, 3_000] {
        let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
        let peer = receiver.local_addr().unwrap();
        let received = receive(receiver);
        // A buffer of 64 KiB: most calls wait for room.
        let builder = Job::builder().control_socket(None).msr(1.0).buffer_bytes(64 << 10);
        let mut job = builder.messages(1_001).message_bytes_max(5_000).connect(peer).unwrap();
        let messages: Vec<_> = (0..1_001).map(|id| message(id, bytes)).collect();
        assert_eq!(job.send_all(0, &messages[..700]).unwrap(), 0..700);
        assert_eq!(job.send(&messages[700]).unwrap(), 700);
        assert_eq!(job.send_all::<&[u8]>(0, &[]).unwrap(), 701..701);
        // None of these is queued.
        let error = job.send_all(0, &[&messages[701][..], &[7; 5_001]]).unwrap_err();
        assert!(matches!(error, Error::TooLarge { bytes: 5_001, bytes_max: 5_000 }), "{error}");
        assert!(matches!(job.send_all(1, &messages), Err(Error::NoGroup(1))));
        assert_eq!(job.send_all(0, &messages[701..]).unwrap(), 701..1_001);
        assert!(matches!(job.send_all(0, &messages), Err(Error::TooMany { messages: 1_001 })));
        let report = job.finish().unwrap();
        let received = received.join().unwrap();
        assert_eq!((report.groups[0].delivered, received.messages.len()), (1_001, 1_001));
        for (id, data) in &received.messages {
            assert_eq!(*data, messages[*id as usize]);
        }
    }
}

#[test]
fn job__many_small_messages() {
    run(&Case { messages: 50_000, bytes: 20, msr: 0.9, ..PLAIN });
}

#[test]
fn job__large_messages() {
    run(&Case { messages: 12, bytes: 1_000_000, ..PLAIN });
}

#[test]
fn job__empty_messages() {
    run(&Case { bytes: 0, ..PLAIN });
}

#[test]
fn job__sampling_rate_of_zero_needs_nothing() {
    run(&Case { msr: 0.0, ..PLAIN });
}

#[test]
fn job__ipv6() {
    run(&Case { bind: "[::1]:0", messages: 300, bytes: 5_000, ..PLAIN });
}

#[test]
fn job__unannounced_number_of_messages() {
    run(&Case { announce: false, msr: 0.5, ..PLAIN });
}

#[test]
fn job__guarantee_over_a_lossy_network() {
    for (msr, loss, seed) in [(1.0, 0.1, 2), (0.8, 0.3, 3), (0.5, 0.5, 4), (0.0, 0.3, 5)] {
        for announce in [true, false] {
            run(&Case { messages: 400, bytes: 3_000, msr, loss, seed, announce, ..PLAIN });
        }
    }
}

#[test]
fn receiver__dual_stack_names_ipv4_sources_as_ipv4() {
    let mut receiver = Receiver::builder().control_socket(None).bind("[::]:0").unwrap();
    let port = receiver.local_addr().unwrap().port();
    let mut job = Job::builder().id(7).control_socket(None).connect(("127.0.0.1", port)).unwrap();
    assert_eq!(job.id(), 7);
    job.send(b"hello").unwrap();
    let Some(Event::Message { source, job: id, group, message, data, .. }) =
        receiver.recv(Some(Duration::from_secs(5))).unwrap()
    else {
        panic!("no message");
    };
    assert_eq!((source.ip(), id, group, message), ([127, 0, 0, 1].into(), 7, 0, 0));
    assert_eq!(data, b"hello");
    job.finish().unwrap();
    let stats = receiver.stats();
    // On a busy machine threads are late, and a packet may have been retransmitted.
    assert!(stats.packets_received >= 1 && stats.acks_sent >= 1, "{stats:?}");
    assert_eq!(stats.sources, 1);
}

#[test]
fn finish__early_makes_n_what_was_sent() {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let peer = receiver.local_addr().unwrap();
    let received = receive(receiver);
    let mut job =
        Job::builder().control_socket(None).messages(1_000).msr(0.5).connect(peer).unwrap();
    for id in 0..100 {
        job.send(&message(id, 100)).unwrap();
    }
    let report = job.finish().unwrap();
    assert_eq!((report.groups[0].messages, report.groups[0].needed), (100, 50));
    assert!(report.groups[0].delivered >= 50);
    assert!(received.join().unwrap().summary.delivered >= 50);
}

#[test]
fn send__messages_longer_than_the_buffer_follow_each_other_at_once() {
    const MESSAGES: u32 = 20;
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let peer = without_repeated_receipts(receiver.local_addr().unwrap());
    let received = receive(receiver);
    let mut job = Job::builder().control_socket(None).buffer_bytes(1_000).connect(peer).unwrap();
    let started = Instant::now();
    for id in 0..MESSAGES {
        job.send(&message(id, 10_000)).unwrap();
    }
    job.finish().unwrap();
    // Each message waits only for the one before it, and not for a sleep of the sender thread: of a
    // second. All take 0.5 s at most on average on a busy machine, and by an exponential tail ten
    // with probability e^-20.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let received = received.join().unwrap();
    assert!((0..MESSAGES).all(|id| received.messages[&id] == message(id, 10_000)));
}

/// Forwards all packets except receipts that report nothing new. After the receipt of a message, no
/// packet wakes the sender.
fn without_repeated_receipts(receiver: SocketAddr) -> SocketAddr {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.connect(receiver).unwrap();
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    let address = near.local_addr().unwrap();
    let (back_near, back_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let (learn, learned) = mpsc::channel();
    thread::spawn(move || {
        let mut packet = [0; 9_000];
        while let Ok((len, source)) = near.recv_from(&mut packet) {
            let _ = learn.send(source);
            let _ = far.send(&packet[..len]);
        }
    });
    thread::spawn(move || {
        let sender = learned.recv().unwrap();
        let mut packet = [0; 9_000];
        let mut delivered = 0;
        while let Ok(len) = back_far.recv(&mut packet) {
            if let Ok((_, Kind::Receipt)) = Header::parse(&packet[..len]) {
                let receipt = ReceiptBody::parse(&packet[HEADER_LEN..len]).unwrap();
                if receipt.delivered == delivered {
                    continue;
                }
                delivered = receipt.delivered;
            }
            let _ = back_near.send_to(&packet[..len], sender);
        }
    });
    address
}

#[test]
fn finish__a_silent_peer_is_an_error_with_counts() {
    // The socket is bound, so that the host sends no ICMP error, but it is never read.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = fail(silent.local_addr().unwrap());
    let Error::Short(shortfall) = &error else { panic!("{error}") };
    assert!(matches!(
        shortfall.cause,
        ShortCause::PeerSilent { port_unreachable: false, silence_s, .. } if silence_s >= 1.0
    ));
    assert_eq!((shortfall.groups[0].delivered, shortfall.groups[0].needed), (0, 8));
    let text = error.to_string();
    assert!(text.contains("did not answer for") && text.contains("0 of 8 needed"), "{text}");
}

#[test]
fn finish__a_closed_port_is_named_as_such() {
    let closed = ClosedPort::hold();
    let text = fail(closed.address).to_string();
    assert!(text.contains("nothing listens there"), "{text}");
}

#[test]
fn finish__a_port_that_was_closed_ends_the_job_earlier() {
    let closed = ClosedPort::hold();
    // The test fails by its own limit if the long timeout is what ends the job.
    let mut job = Job::builder()
        .control_socket(None)
        .peer_timeout(Duration::from_secs(600))
        .refused_timeout(Duration::from_millis(300))
        .connect(closed.address)
        .unwrap();
    job.send(b"message").unwrap();
    let error = job.finish().unwrap_err();
    let Error::Short(shortfall) = &error else { panic!("{error}") };
    assert!(
        matches!(
            shortfall.cause,
            ShortCause::PeerSilent { port_unreachable: true, silence_s, .. } if silence_s >= 0.3
        ),
        "{error}"
    );
}

/// Under every law, at every MSR: the first packets, until the host's answer, and then single
/// packets after pauses that grow to half a second.
#[test]
fn finish__a_closed_port_gets_few_packets() {
    const MESSAGES: u32 = 3_000;
    let jobs = RateLaw::ALL.into_iter().flat_map(|(law, _)| [(law, 0.5), (law, 1.0)]);
    let ended: Vec<_> = jobs
        .map(|(law, msr)| {
            thread::spawn(move || {
                let closed = ClosedPort::hold();
                let job = Job::builder().control_socket(None).messages(MESSAGES).msr(msr);
                let job = job.rules(Rules::new(law)).packing(false);
                let mut job = job.peer_timeout(Duration::from_secs(1)).connect(closed.address)?;
                for id in 0..MESSAGES {
                    job.send(&message(id, 1_000))?;
                }
                job.finish()
            })
        })
        .collect();
    for job in ended {
        let error = job.join().unwrap().unwrap_err();
        let Error::Short(shortfall) = &error else { panic!("{error}") };
        let cause = shortfall.cause;
        assert!(matches!(cause, ShortCause::PeerSilent { port_unreachable: true, .. }), "{error}");
        // The answer comes within the system call that sends the first packets. A job that takes a
        // minute instead of a second sends 120 single packets.
        let sent = shortfall.report.packets_sent;
        assert!(sent < 500, "{sent} packets");
    }
}

fn fail(peer: SocketAddr) -> Error {
    let mut job = Job::builder()
        .control_socket(None)
        .messages(10)
        .msr(0.8)
        .peer_timeout(Duration::from_secs(1))
        .connect(peer)
        .unwrap();
    for id in 0..10 {
        job.send(&message(id, 100)).unwrap();
    }
    job.finish().unwrap_err()
}

#[test]
fn finish__a_receiver_that_takes_other_jobs_only() {
    let receiver = Receiver::builder().control_socket(None).job(1);
    let receiver = receiver.bind("127.0.0.1:0").unwrap();
    let mut job = Job::builder().id(2).control_socket(None);
    job = job.peer_timeout(Duration::from_secs(2));
    let mut job = job.connect(receiver.local_addr().unwrap()).unwrap();
    job.send(b"unwanted").unwrap();
    let error = job.finish().unwrap_err();
    assert!(error.to_string().contains("does not accept this job"), "{error}");
}

#[test]
fn finish__a_receiver_that_goes_away() {
    let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let job = Job::builder().control_socket(None).messages(2);
    let mut job = job.connect(receiver.local_addr().unwrap()).unwrap();
    job.send(b"first").unwrap();
    assert!(receiver.recv(Some(Duration::from_secs(5))).unwrap().is_some());
    drop(receiver);
    // The receiver's RESET may have arrived already, or not yet.
    let error = job.send(b"second").map_or_else(|error| error, |_| job.finish().unwrap_err());
    let Error::Short(shortfall) = &error else { panic!("{error}") };
    assert_eq!((shortfall.groups[0].delivered, shortfall.groups[0].needed), (1, 2));
    assert!(error.to_string().contains("went away"), "{error}");
}

#[test]
fn connect__refuses_invalid_options() {
    let peer = "127.0.0.1:9";
    for msr in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let error = Job::builder().control_socket(None).msr(msr).connect(peer).unwrap_err();
        assert!(matches!(error, Error::Msr(_)), "{error}");
    }
    let none = Job::builder().control_socket(None).messages(0).connect(peer).unwrap_err();
    assert!(matches!(none, Error::NoMessages), "{none}");
    for invalid in ["127.0.0.1:0", "224.0.0.1:9", "[ff02::1]:9"] {
        let invalid = invalid.parse().unwrap();
        let error = Job::builder().control_socket(None).connect(invalid).unwrap_err();
        assert!(matches!(error, Error::Peer(address) if address == invalid), "{error}");
    }
    let slow = Job::builder().control_socket(None).rate_max_bytes_per_s(999).connect(peer);
    assert!(matches!(slow.unwrap_err(), Error::RateMax(999)));
}

#[test]
fn send__refuses_too_many_and_too_long() {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let job = Job::builder().control_socket(None).messages(1).message_bytes_max(1_000);
    let mut job = job.connect(receiver.local_addr().unwrap()).unwrap();
    assert!(matches!(job.send(&[0; 1_001]).unwrap_err(), Error::TooLarge { .. }));
    job.send(&[0; 1_000]).unwrap();
    assert!(matches!(job.send(&[0]).unwrap_err(), Error::TooMany { messages: 1 }));
}

#[test]
fn bind__names_an_address_in_use() {
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let used = holder.local_addr().unwrap();
    let error = Receiver::builder().control_socket(None).bind(used).unwrap_err();
    assert!(error.to_string().starts_with(&format!("listening at {used} failed")), "{error}");
    assert!(error.to_string().ends_with("or choose another one"), "{error}");
}

/// 192.0.2.1 is reserved for documentation (RFC 5737), so no host has it.
#[test]
fn bind__says_what_to_do_about_a_foreign_address() {
    let builder = Receiver::builder().control_socket(None);
    let error = builder.bind("192.0.2.1:4747").unwrap_err();
    assert!(error.to_string().ends_with("0.0.0.0 or [::] for all of them"), "{error}");
}
