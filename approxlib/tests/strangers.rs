//! Packets of senders that the application doesn't expect.

mod common;

use approxlib::{Error, Event, Job, Receiver, ReceiverBuilder, ShortCause};
use atp_common::{
    units::Msr,
    wire::{
        Fields, FinBody, FinGroup, GroupName, Header, Kind, Order, ResetReason, TermsBody,
        TermsGroup,
    },
};
use common::message;
use std::{
    net::UdpSocket,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// How long a test looks for a packet or an event that must not come.
const SOON: Duration = Duration::from_millis(300);
/// The limit on an event that must come.
const LIMIT: Duration = Duration::from_secs(60);

fn bind(builder: ReceiverBuilder) -> Receiver {
    builder.control_socket(None).bind("127.0.0.1:0").unwrap()
}

/// A socket at `address`, connected to the receiver.
fn stranger(address: &str, receiver: &Receiver) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

/// A packet of job 7. A FIN's `message` is the job's number of messages, here 1.
fn packet(kind: Kind, body: &[u8]) -> Vec<u8> {
    let message = u32::from(kind == Kind::Fin);
    let header = Header::new(&Fields {
        job: 7,
        cookie: 99,
        message,
        index: u32::from(kind == Kind::Fin),
        count: 1,
        slot: message,
        ..Fields::of(kind)
    });
    [header.as_bytes(), body].concat()
}

fn fin() -> Vec<u8> {
    let mut body = [0; 20];
    let group = FinGroup { group: 0, messages: 1, needed: 0, delivered: 0 };
    let len = FinBody::write(&mut body, 0, &[group]).unwrap();
    packet(Kind::Fin, &body[..len])
}

/// The kinds of the packets that come back until none comes for a while.
fn answers(socket: &UdpSocket) -> Vec<(Kind, Header)> {
    let mut bytes = [0; 2_000];
    let next = || {
        let len = socket.recv(&mut bytes).ok()?;
        let (header, kind) = Header::parse(&bytes[..len]).unwrap();
        Some((kind, header))
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn fin__without_a_message_is_answered_but_no_event() {
    let mut receiver = bind(Receiver::builder());
    let socket = stranger("127.0.0.1", &receiver);
    socket.send(&fin()).unwrap();
    let answers = answers(&socket);
    assert!(answers.iter().any(|(kind, _)| *kind == Kind::FinAck), "{answers:?}");
    assert_eq!(receiver.recv(Some(SOON)).unwrap(), None);
}

#[test]
fn fin__after_a_message_is_an_event() {
    let mut receiver = bind(Receiver::builder());
    let socket = stranger("127.0.0.1", &receiver);
    socket.send(&packet(Kind::Data, b"x")).unwrap();
    socket.send(&fin()).unwrap();
    assert!(matches!(receiver.recv(Some(LIMIT)).unwrap(), Some(Event::Message { job: 7, .. })));
    assert!(matches!(receiver.recv(Some(LIMIT)).unwrap(), Some(Event::Finished { job: 7, .. })));
}

/// Terms of the run that `packet_of` sends.
fn terms_of(cookie: u32) -> Vec<u8> {
    let group = TermsGroup {
        group: 0,
        exact: false,
        messages: None,
        msr: Msr::EXACT,
        order: Order::Ordered,
        shortest_first: false,
        name: GroupName::default(),
    };
    let mut body = [0; 100];
    let len = TermsBody::write(&mut body, 0, 0, [group].into_iter()).unwrap();
    let fields = Fields { job: 7, cookie, index: 1, count: 1, ..Fields::of(Kind::Terms) };
    [Header::new(&fields).as_bytes(), &body[..len]].concat()
}

/// A host that forges a sender's address and job has a run of its own. It ends nothing of the
/// sender, and gets no request that is meant for the sender.
#[test]
fn run__tells_a_sender_from_a_host_that_forges_its_address() {
    const SENDER: u32 = 1;
    let mut receiver = bind(Receiver::builder());
    let socket = stranger("127.0.0.1", &receiver);
    let next = |receiver: &mut Receiver| receiver.recv(Some(LIMIT)).unwrap().unwrap();
    let forged = [packet(Kind::Data, b"forged"), terms_of(99)];
    for packet in [packet_of(SENDER, 0, 1, b"x"), terms_of(SENDER)].iter().chain(&forged) {
        socket.send(packet).unwrap();
    }
    let events = [(); 4].map(|()| next(&mut receiver));
    let [
        Event::Message { source, run, .. },
        Event::Started { run: started, .. },
        Event::Message { source: other_source, run: other, .. },
        Event::Started { run: other_started, .. },
    ] = events
    else {
        panic!("{events:?}")
    };
    assert_eq!((source, started, other_started), (other_source, run, other));
    assert_ne!(run, other);
    receiver.request_end(run);
    let asked: Vec<_> = answers(&socket)
        .iter()
        .filter(|(kind, _)| *kind == Kind::Request)
        .map(|(_, header)| header.cookie())
        .collect();
    assert!(!asked.is_empty() && asked.iter().all(|cookie| *cookie == SENDER), "{asked:?}");
    socket.send(&fin()).unwrap();
    assert!(matches!(next(&mut receiver), Event::Finished { run, .. } if run == other));
    assert_eq!(receiver.recv(Some(SOON)).unwrap(), None);
}

#[test]
fn peer__admits_named_addresses_only() {
    let mut receiver = bind(Receiver::builder().peer("127.0.0.2".parse().unwrap()));
    let (other, named) = (stranger("127.0.0.1", &receiver), stranger("127.0.0.2", &receiver));
    other.send(&packet(Kind::Data, b"other")).unwrap();
    let refusals = answers(&other);
    let [(Kind::Reset, header)] = refusals[..] else { panic!("{refusals:?}") };
    assert_eq!(ResetReason::from_wire(header.epoch()), Some(ResetReason::NotWanted));
    named.send(&packet(Kind::Data, b"named")).unwrap();
    let Some(Event::Message { data, .. }) = receiver.recv(Some(LIMIT)).unwrap() else { panic!() };
    assert_eq!(data, b"named");
    assert_eq!(receiver.recv(Some(SOON)).unwrap(), None);
}

/// An IPv4 sender has an IPv4-mapped address at a dual-stack socket.
#[test]
fn peer__ipv4_at_a_dual_stack_socket() {
    let builder = Receiver::builder().control_socket(None).peer("127.0.0.1".parse().unwrap());
    let mut receiver = builder.bind("[::]:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .send_to(&packet(Kind::Data, b"x"), ("127.0.0.1", receiver.local_addr().unwrap().port()))
        .unwrap();
    assert!(matches!(receiver.recv(Some(LIMIT)).unwrap(), Some(Event::Message { .. })));
}

#[test]
fn job__that_is_not_named_fails_at_once() {
    let receiver = bind(Receiver::builder().job(7));
    let builder = Job::builder().control_socket(None).id(8);
    let mut job = builder.connect(receiver.local_addr().unwrap()).unwrap();
    job.send(b"x").unwrap();
    let Err(Error::Short(shortfall)) = job.finish() else { panic!() };
    assert!(matches!(shortfall.cause, ShortCause::Refused(Some(ResetReason::NotWanted))));
}

/// A packet of a run of its own.
fn packet_of(cookie: u32, message: u32, count: u32, body: &[u8]) -> Vec<u8> {
    let header = Header::new(&Fields {
        job: 7,
        cookie,
        message,
        count,
        slot: message,
        ..Fields::of(Kind::Data)
    });
    [header.as_bytes(), body].concat()
}

/// Runs a job of 200 messages of several packets at 127.0.0.1 while `flood` runs again and again,
/// at most each millisecond.
fn job_during(receiver: &Receiver, mut flood: impl FnMut(u32) + Send) -> approxlib::Report {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..20_000 {
                flood(round);
                thread::sleep(Duration::from_millis(1));
                if done.load(Relaxed) {
                    return;
                }
            }
        });
        thread::sleep(SOON);
        let job = Job::builder().control_socket(None).id(8).msr(1.0).messages(200);
        let mut job = job.connect(receiver.local_addr().unwrap()).unwrap();
        for id in 0..200 {
            job.send(&message(id, 5_000)).unwrap();
        }
        let report = job.finish();
        done.store(true, Relaxed);
        report.unwrap()
    })
}

/// A stranger with any number of ports and cookies gets its share of the places, and no more.
#[test]
fn sources_max__one_address_does_not_fill_the_places() {
    let receiver = bind(Receiver::builder().sources_max(16));
    let sockets: Vec<_> = (0..8).map(|_| stranger("127.0.0.3", &receiver)).collect();
    let report = job_during(&receiver, |round| {
        for cookie in 0..40 {
            let socket = &sockets[cookie as usize % sockets.len()];
            // An error is the answer of a receiver that has gone.
            let _ = socket.send(&packet_of(cookie, round, 1, b"mine"));
        }
    });
    assert_eq!((report.groups[0].delivered, report.refusals), (200, 0));
    let stats = receiver.stats();
    // 12 of the 16 places were the stranger's, and no sender that sends lost its own.
    assert!((12..=14).contains(&stats.sources) && stats.evicted == 0, "{stats:?}");
}

/// Memory is bounded for all senders together, and one address leaves room for others.
#[test]
fn memory_bytes_max__one_address_does_not_fill_the_memory() {
    const MEMORY_BYTES_MAX: u64 = 3 * (100_000 + (4 << 20));
    let builder = Receiver::builder().message_bytes_max(100_000).memory_bytes_max(0);
    let receiver = bind(builder);
    let socket = stranger("127.0.0.4", &receiver);
    let (mut most_bytes, resident_bytes) = (0, resident_bytes());
    let body = [7; 1_400];
    let report = job_during(&receiver, |round| {
        // The first packets of messages that never end: 60 times 70 kB per millisecond.
        for i in 0..60 {
            let packet = packet_of(i % 8, (i / 8 + 8 * round) % 10_000, 50, &body);
            let _ = socket.send(&packet);
        }
        most_bytes = most_bytes.max(receiver.stats().memory_bytes);
        assert!(most_bytes <= MEMORY_BYTES_MAX, "{most_bytes}");
    });
    assert_eq!(report.groups[0].delivered, 200);
    // The stranger got its half of the memory, beside what the job held.
    assert!(most_bytes >= MEMORY_BYTES_MAX / 3, "{most_bytes}");
    assert!(receiver.stats().refusals.no_room > 0, "{:?}", receiver.stats());
    // Twice the budget: the allocator, and the buffers of both sides.
    let grown_bytes = self::resident_bytes().saturating_sub(resident_bytes);
    assert!(grown_bytes < 4 * MEMORY_BYTES_MAX, "{grown_bytes} bytes");
    // Each refused packet may get a RESET, but no flood of them.
    socket.set_nonblocking(true).unwrap();
    let resets = answers(&socket).iter().filter(|(kind, _)| *kind == Kind::Reset).count();
    assert!((1..4_000).contains(&resets), "{resets} RESETs");
}

/// The physical memory of this process.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// A sender that was forgotten in the middle can't continue: nobody knows what it had delivered.
#[test]
fn sources_max__a_forgotten_sender_learns_that_it_is_forgotten() {
    let mut receiver = bind(Receiver::builder().sources_max(1));
    let (first, second) = (stranger("127.0.0.5", &receiver), stranger("127.0.0.6", &receiver));
    first.send(&packet_of(1, 0, 1, b"x")).unwrap();
    assert!(receiver.recv(Some(LIMIT)).unwrap().is_some());
    // Silent for longer than the limit of a sender that delivered one message.
    thread::sleep(Duration::from_millis(3_200));
    second.send(&packet_of(2, 0, 1, b"y")).unwrap();
    assert!(receiver.recv(Some(LIMIT)).unwrap().is_some());
    answers(&first);
    first.send(&packet_of(1, 1, 1, b"x")).unwrap();
    let reasons: Vec<_> = answers(&first)
        .iter()
        .filter(|(kind, _)| *kind == Kind::Reset)
        .map(|(_, header)| ResetReason::from_wire(header.epoch()))
        .collect();
    assert_eq!(reasons, [Some(ResetReason::Forgotten)]);
    assert_eq!(receiver.recv(Some(SOON)).unwrap(), None);
}
