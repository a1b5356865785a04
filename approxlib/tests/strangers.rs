//! Packets of senders that the application doesn't expect.

mod common;

use approxlib::{Error, Event, Job, Receiver, ReceiverBuilder, ShortCause};
use atp_common::wire::{Fields, FinBody, FinGroup, Flags, Header, Kind, ResetReason};
use std::{net::UdpSocket, time::Duration};

const SOON: Duration = Duration::from_millis(300);

fn bind(builder: ReceiverBuilder) -> Receiver {
    builder.control_socket(None).bind("127.0.0.1:0".parse().unwrap()).unwrap()
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
        kind,
        flags: Flags::NONE,
        group: 0,
        job: 7,
        cookie: 99,
        message,
        index: u32::from(kind == Kind::Fin),
        count: 1,
        epoch: 0,
        slot: message,
        time: 0,
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
    assert!(matches!(receiver.recv(Some(SOON)).unwrap(), Some(Event::Message { job: 7, .. })));
    assert!(matches!(receiver.recv(Some(SOON)).unwrap(), Some(Event::Finished { job: 7, .. })));
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
    let Some(Event::Message { data, .. }) = receiver.recv(Some(SOON)).unwrap() else { panic!() };
    assert_eq!(data, b"named");
    assert_eq!(receiver.recv(Some(SOON)).unwrap(), None);
}

/// An IPv4 sender has an IPv4-mapped address at a dual-stack socket.
#[test]
fn peer__ipv4_at_a_dual_stack_socket() {
    let builder = Receiver::builder().control_socket(None).peer("127.0.0.1".parse().unwrap());
    let mut receiver = builder.bind("[::]:0".parse().unwrap()).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .send_to(&packet(Kind::Data, b"x"), ("127.0.0.1", receiver.local_addr().unwrap().port()))
        .unwrap();
    assert!(matches!(receiver.recv(Some(SOON)).unwrap(), Some(Event::Message { .. })));
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
