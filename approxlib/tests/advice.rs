//! Tests that a receiver names its lanes to the daemon, and sends the daemon's advice in receipts.

mod common;

use approxlib::Receiver;
use atp_common::{
    maps::{ArrivingLane, ArrivingLanes, RECEIVER_LANES},
    wire::{Advice, Features, Fields, FinBody, FinGroup, Flags, Header, Kind},
};
use common::daemon::{TestDaemon, registered};
use nix::sys::{
    eventfd::{EfdFlags, EventFd},
    memfd::{MFdFlags, memfd_create},
};
use std::{
    fs::File,
    mem::offset_of,
    net::UdpSocket,
    os::{fd::AsFd, unix::fs::FileExt},
    thread,
    time::{Duration, Instant},
};

const LANE_BYTES: usize = size_of::<ArrivingLane>();
const SOON: Duration = Duration::from_secs(60);

/// The memory that a receiver shares with its daemon.
struct Shared {
    map: File,
    wake: EventFd,
}

impl Shared {
    fn new() -> Self {
        let map = File::from(memfd_create(c"atp-test", MFdFlags::MFD_CLOEXEC).unwrap());
        map.set_len((RECEIVER_LANES * LANE_BYTES) as u64).unwrap();
        Self { map, wake: EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap() }
    }

    fn lane(&self, element: usize) -> ArrivingLane {
        let mut lane = ArrivingLane::default();
        let bytes = bytemuck::bytes_of_mut(&mut lane);
        self.map.read_exact_at(bytes, (element * LANE_BYTES) as u64).unwrap();
        lane
    }

    fn write(&self, element: usize, offset: usize, value: u32) {
        let at = (element * LANE_BYTES + offset) as u64;
        self.map.write_all_at(&value.to_ne_bytes(), at).unwrap();
    }

    fn advise(&self, element: usize, number: u32, advice: Advice) {
        self.write(element, offset_of!(ArrivingLane, advice), advice.to_wire());
        self.write(element, offset_of!(ArrivingLane, advised), number);
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn packet(kind: Kind, flags: Flags, group: u8, slot: u32, body: &[u8]) -> Vec<u8> {
    let header = Header::new(&Fields {
        flags,
        group,
        job: 7,
        cookie: 99,
        // That of a FIN is the number of all messages.
        message: if kind == Kind::Fin { 201 } else { slot },
        index: u32::from(kind == Kind::Fin),
        count: 1,
        slot,
        ..Fields::of(kind)
    });
    [header.as_bytes(), body].concat()
}

fn received(socket: &UdpSocket) -> Option<(Header, Kind)> {
    let mut bytes = [0; 2_000];
    let len = socket.recv(&mut bytes).ok()?;
    Some(Header::parse(&bytes[..len]).unwrap())
}

/// The newest receipt that comes within a moment after the first.
fn receipt(socket: &UdpSocket) -> Option<Header> {
    let within = |limit| {
        socket.set_read_timeout(Some(limit)).unwrap();
        std::iter::from_fn(|| received(socket)).filter(|(_, kind)| *kind == Kind::Receipt)
    };
    let first = within(SOON).next();
    let last = within(Duration::from_millis(300)).last();
    socket.set_read_timeout(Some(SOON)).unwrap();
    last.or(first).map(|(header, _)| header)
}

#[test]
fn receiver__names_its_lanes_and_sends_their_advice() {
    let shared = Shared::new();
    shared.write(0, offset_of!(ArrivingLanes, asleep), 1);
    let own = (shared.map.try_clone().unwrap(), shared.wake.as_fd().try_clone_to_owned().unwrap());
    let daemon = TestDaemon::start(move |_, _| {
        let (reply, mut fds) = registered(&[nix::net::if_::if_nametoindex("lo").unwrap()]);
        fds.extend([own.0.try_clone().unwrap().into(), own.1.try_clone().unwrap()]);
        (reply, fds)
    });
    let receiver = Receiver::builder().control_socket(Some(daemon.socket.clone()));
    let receiver = receiver.bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();

    socket.send(&packet(Kind::Data, Flags::ORDERED, 1, 0, b"exact")).unwrap();
    let first = receipt(&socket).unwrap();
    // The first receipt already says that there may be advice.
    assert!(Features::from_wire(first.epoch()).contains(Features::ADVICE));
    wait_until("the exact lane was not named", || shared.lane(1).number != 0);
    assert_eq!(shared.lane(1).group, 1);
    wait_until("the daemon was not woken", || shared.wake.read().is_ok());

    socket.send(&packet(Kind::Data, Flags::NONE, 0, 1, b"approximate")).unwrap();
    wait_until("no lane was named", || shared.lane(2).number != 0);
    let lane = shared.lane(2);
    let source = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
    let port = socket.local_addr().unwrap().port();
    assert_eq!((lane.source, lane.source_port, lane.cookie, lane.group), (source, port, 99, 0));
    wait_until("the daemon was not woken", || shared.wake.read().is_ok());

    // Advice to an earlier lane of the element is not for this one.
    let advice = Advice::of(640_000);
    shared.advise(2, lane.number.wrapping_sub(1), advice);
    socket.send(&packet(Kind::Data, Flags::NONE, 0, 2, b"more")).unwrap();
    assert_eq!(receipt(&socket).map(|receipt| receipt.message()), Some(0));
    shared.advise(2, lane.number, advice);
    let of_lane = (3..200).find_map(|slot| {
        socket.send(&packet(Kind::Data, Flags::NONE, 0, slot, b"more")).unwrap();
        receipt(&socket).filter(|receipt| receipt.group() == 0 && receipt.message() != 0)
    });
    let of_lane = of_lane.expect("no receipt had the advice");
    assert_eq!(Advice::from_wire(of_lane.message()), advice);
    assert!(Features::from_wire(of_lane.epoch()).contains(Features::ADVICE));

    // The end of the job ends its lanes.
    let mut body = [0; 40];
    let group = |group, messages| FinGroup { group, messages, needed: 0, delivered: 0 };
    let len = FinBody::write(&mut body, 0, &[group(0, 200), group(1, 1)]).unwrap();
    socket.send(&packet(Kind::Fin, Flags::NONE, 0, 200, &body[..len])).unwrap();
    wait_until("the lanes were not ended", || {
        shared.lane(1).number == 0 && shared.lane(2).number == 0
    });

    // A late packet begins no lane.
    let changes = |shared: &Shared| shared.lane(0);
    let before = changes(&shared);
    socket.send(&packet(Kind::Data, Flags::NONE, 0, 3, b"late")).unwrap();
    socket.send(&packet(Kind::Fin, Flags::NONE, 0, 200, &body[..len])).unwrap();
    // The answer to the second FIN comes after the packet was read.
    for _ in 0..2 {
        while received(&socket).expect("no answer to a FIN").1 != Kind::FinAck {}
    }
    assert_eq!((changes(&shared), shared.lane(1).number), (before, 0));
}
