//! Tests with many senders, slow applications, and strangers that send malformed packets.

mod common;

use approxlib::{Error, Event, Job, Receiver, Refusals, ShortCause};
use atp_common::wire::{Fields, HEADER_LEN, Header, Kind};
use common::message;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{HashMap, HashSet},
    net::{SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

fn bind() -> Receiver {
    Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap()
}

fn send_job(id: u32, peer: SocketAddr, messages: u32, msr: f64) -> approxlib::Report {
    let job = Job::builder().id(id).messages(messages).msr(msr).control_socket(None);
    let mut job = job.connect(peer).unwrap();
    for index in 0..messages {
        job.send(&message(index ^ id << 20, 1_000)).unwrap();
    }
    job.finish().unwrap()
}

#[test]
fn receiver__keeps_jobs_and_senders_apart() {
    let mut receiver = bind();
    let peer = receiver.local_addr().unwrap();
    // Two senders of each job.
    let senders: Vec<_> =
        (0..6).map(|i| thread::spawn(move || send_job(i / 2, peer, 300, 0.9))).collect();
    let mut messages: HashMap<(SocketAddr, u32), HashSet<u32>> = HashMap::new();
    let mut finished = 0;
    while finished < 6 {
        match receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event") {
            Event::Message { source, job, message: id, data, .. } => {
                assert_eq!(data, message(id ^ job << 20, 1_000));
                assert!(messages.entry((source, job)).or_default().insert(id));
            }
            Event::Started { .. } | Event::TermsChanged { .. } => {}
            Event::WindowEnded { .. } => panic!("a window of a job without any"),
            Event::Finished { source, job, summary, .. } => {
                assert_eq!(messages[&(source, job)].len(), summary.delivered as usize);
                assert!(summary.delivered >= 270);
                finished += 1;
            }
        }
    }
    assert_eq!(messages.len(), 6);
    for sender in senders {
        assert!(sender.join().unwrap().groups[0].delivered >= 270);
    }
}

#[test]
fn receiver__senders_beyond_its_limit_wait_for_room() {
    let receiver = Receiver::builder().control_socket(None).sources_max(2);
    let mut receiver = receiver.bind("127.0.0.1:0").unwrap();
    let peer = receiver.local_addr().unwrap();
    let mut unfinished = Vec::new();
    for _ in 0..2 {
        let mut job = Job::builder().control_socket(None).connect(peer).unwrap();
        job.send(b"and more to come").unwrap();
        while !matches!(
            receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event"),
            Event::Message { .. }
        ) {}
        unfinished.push(job);
    }
    let third = move |peer_timeout| {
        let builder = Job::builder().control_socket(None).peer_timeout(peer_timeout);
        let mut third = builder.connect(peer).unwrap();
        third.send(b"one too many").unwrap();
        third.finish()
    };
    let begun = std::time::Instant::now();
    let Err(Error::Short(shortfall)) = third(Duration::from_secs(1)) else { panic!() };
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(matches!(shortfall.cause, ShortCause::NoRoom { refused_s } if refused_s >= 1.0));
    assert!(shortfall.to_string().contains("had no room for 1."), "{shortfall}");
    // As soon as one has ended, there is room for a job that waits.
    let waiting = thread::spawn(move || third(Duration::from_secs(20)));
    thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished());
    unfinished.pop().unwrap().finish().unwrap();
    let report = waiting.join().unwrap().unwrap();
    assert!(report.refusals > 0 && report.groups[0].delivered == 1, "{report:?}");
}

#[test]
fn receiver__jobs_that_ended_make_room_for_the_next() {
    let receiver = Receiver::builder().control_socket(None).sources_max(2);
    let receiver = receiver.bind("127.0.0.1:0").unwrap();
    let peer = receiver.local_addr().unwrap();
    for id in 0..20 {
        assert_eq!(send_job(id, peer, 1, 1.0).groups[0].delivered, 1);
    }
}

/// As many strangers as the receiver admits senders, each at its own address, and with the largest
/// message id.
#[test]
fn receiver__a_few_forged_packets_do_not_keep_others_out() {
    let mut receiver = bind();
    let peer = receiver.local_addr().unwrap();
    for cookie in 0..256 {
        let address = std::net::Ipv4Addr::from_bits(0x7f00_0200 + cookie);
        let stranger = UdpSocket::bind((address, 0)).unwrap();
        stranger.send_to(forged(cookie).as_bytes(), peer).unwrap();
        assert!(receiver.recv(Some(Duration::from_secs(20))).unwrap().is_some());
    }
    thread::sleep(Duration::from_secs(4));
    let stats = receiver.stats();
    assert_eq!((stats.sources, stats.evicted), (256, 0));
    assert_eq!(send_job(1, peer, 10, 1.0).groups[0].delivered, 10);
    assert_eq!(receiver.stats().evicted, 1);
}

fn forged(cookie: u32) -> Header {
    Header::new(&Fields { job: 1, cookie, message: 0xff_ffff, count: 1, ..Fields::of(Kind::Data) })
}

#[test]
fn receiver__a_slow_application_slows_the_sender_and_loses_no_message() {
    let receiver = Receiver::builder().control_socket(None).buffer_bytes(100_000);
    let mut receiver = receiver.bind("127.0.0.1:0").unwrap();
    let peer = receiver.local_addr().unwrap();
    let sender = thread::spawn(move || send_job(1, peer, 2_000, 1.0));
    let mut messages = 0;
    loop {
        match receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event") {
            Event::Message { .. } => messages += 1,
            Event::Started { .. } | Event::TermsChanged { .. } => {}
            Event::WindowEnded { .. } => panic!("a window of a job without any"),
            Event::Finished { summary, .. } => {
                assert_eq!((messages, summary.delivered), (2_000, 2_000));
                break;
            }
        }
        if messages % 100 == 0 {
            thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(sender.join().unwrap().groups[0].delivered, 2_000);
}

/// A packet with a header that is partly valid, or random bytes.
fn malformed(random: &mut ChaCha8Rng) -> Vec<u8> {
    let count = 1 + random.next_u32() % [3, 1 << 20][random.random_range(0..2)];
    let kind = Kind::ALL[random.random_range(0..Kind::ALL.len())];
    let header = Header::new(&Fields {
        group: random.random(),
        job: random.random_range(0..3),
        cookie: random.random_range(0..3),
        message: [random.random_range(0..50), random.random()][random.random_range(0..2)],
        index: random.next_u32() % count,
        count,
        epoch: random.random(),
        // Half of the slots are multiples of 32, where probes may begin.
        slot: random.random::<u32>() & [!0, !31][random.random_range(0..2)],
        time: random.random(),
        ..Fields::of(kind)
    });
    let mut packet = header.as_bytes().to_vec();
    packet.resize(HEADER_LEN + random.random_range(0..1_400), 0);
    random.fill_bytes(&mut packet[HEADER_LEN..]);
    match random.random_range(0..4) {
        0 => random.fill_bytes(&mut packet),
        1 => packet.truncate(random.random_range(0..HEADER_LEN + 20).min(packet.len())),
        _ => {}
    }
    packet
}

#[test]
fn receiver__survives_malformed_packets_and_serves_others() {
    let receiver = bind();
    let peer = receiver.local_addr().unwrap();
    let noise = thread::spawn(move || {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        for i in 0..6_000 {
            stranger.send_to(&malformed(&mut random), peer).unwrap();
            if i % 50 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let sender = thread::spawn(move || send_job(9, peer, 500, 1.0));
    let mut receiver = receiver;
    let mut delivered = 0;
    while delivered < 500 {
        let event = receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event");
        if let Event::Message { job: 9, message: id, data, .. } = event {
            assert_eq!(data, message(id ^ 9 << 20, 1_000));
            delivered += 1;
        }
    }
    sender.join().unwrap();
    noise.join().unwrap();
    let stats = receiver.stats();
    assert!(stats.refused > 500 && stats.sources <= 10, "{stats:?}");
    let Refusals { malformed, unwanted, too_large, no_room, forgotten } = stats.refusals;
    assert_eq!(stats.refused, malformed + unwanted + too_large + no_room + forgotten);
    assert!(malformed > 500, "{stats:?}");
}

#[test]
fn job__survives_malformed_answers() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let address = peer.local_addr().unwrap();
    let noise = thread::spawn(move || {
        let mut random = ChaCha8Rng::seed_from_u64(8);
        let mut packet = [0; 2_048];
        for _ in 0..1_000 {
            let Ok((_, sender)) = peer.recv_from(&mut packet) else { break };
            let mut answer = malformed(&mut random);
            // The right job and cookie, which the peer knows.
            if random.random_bool(0.9) && answer.len() >= HEADER_LEN {
                answer[4..12].copy_from_slice(&packet[4..12]);
                answer[0] = packet[0];
                // And a plausible time: after an absurd RTT the sender would only wait.
                answer[28..32].copy_from_slice(&packet[28..32]);
            }
            // No RESET, which would rightly end the job.
            if answer.get(1) != Some(&(0x10 | Kind::Reset as u8)) {
                let _ = peer.send_to(&answer, sender);
            }
        }
    });
    let job = Job::builder().messages(50).msr(1.0).control_socket(None);
    let mut job = job.peer_timeout(Duration::from_millis(500)).connect(address).unwrap();
    for id in 0..50 {
        job.send(&message(id, 3_000)).unwrap();
    }
    let error = job.finish().unwrap_err();
    let Error::Short(shortfall) = &error else { panic!("{error}") };
    assert!(shortfall.report.groups[0].delivered <= 50, "{error}");
    noise.join().unwrap();
}

#[test]
fn job__dropped_early_leaves_the_receiver_usable() {
    let mut receiver = bind();
    let peer = receiver.local_addr().unwrap();
    let mut job = Job::builder().id(1).control_socket(None).connect(peer).unwrap();
    job.send(b"never finished").unwrap();
    drop(job);
    let sender = thread::spawn(move || send_job(2, peer, 10, 1.0));
    loop {
        match receiver.recv(Some(Duration::from_secs(20))).unwrap().expect("an event") {
            Event::Message { .. } => {}
            Event::Started { .. } | Event::TermsChanged { .. } => {}
            Event::WindowEnded { .. } => panic!("a window of a job without any"),
            Event::Finished { job, summary, .. } => {
                assert_eq!((job, summary.delivered), (2, 10));
                break;
            }
        }
    }
    sender.join().unwrap();
}
