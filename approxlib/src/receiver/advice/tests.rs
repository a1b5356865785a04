use super::*;
use crate::receiver::{acknowledger::Advising, arrival::Arrival, counted_lane::LANES_MAX};
use atp_common::{
    maps::RECEIVER_LANES,
    wire::{Fields, Header, Kind},
};
use atp_proto::endpoint::{Admission, Datagram, Ends, Lanes as _};
use std::{fs::File, os::unix::fs::FileExt};
use tempfile::NamedTempFile;

const MS: u64 = 1_000_000;
/// A thousandth of a line of 200 Mbit/s.
const LINE_BYTES_PER_MS: u64 = 25_000;
/// The bytes of a full packet's body. Headers add 98 bytes on the wire.
const BODY_BYTES: u64 = 1_440;
const PACKET_BYTES: u64 = BODY_BYTES + 98;

/// A receiver, and the counter of its only interface.
struct Host {
    own: OwnAdvice,
    endpoint: Endpoint<AdvisedLanes>,
    interface: u32,
    counter: NamedTempFile,
    line_bytes: u64,
    drops: u32,
}

impl Host {
    fn new(rate_bytes_per_s: u64) -> Self {
        let interface = nix::net::if_::if_nametoindex("lo").unwrap();
        let counter = NamedTempFile::new().unwrap();
        let counters = Counters::of(File::open(counter.path()).unwrap());
        let rate = Rate::from_bytes_per_s(rate_bytes_per_s);
        let mut own = OwnAdvice::with(rate, Some(counters), 96);
        own.arrival_lines = ArrivalLines::over_loopback();
        let endpoint = Endpoint::new(Admission { sources_max: 1_000, ..Admission::new(1) });
        Self { own, endpoint, interface, counter, line_bytes: 0, drops: 0 }
    }

    /// Lets `packets` of a lane arrive.
    fn data(&mut self, now_ns: u64, sender: u16, group: u8, packets: u64) {
        self.line_bytes += packets * PACKET_BYTES;
        let header = header(group, Flags::BACKLOGGED);
        let ends = Ends { source: address(sender), local: None };
        let Self { own, endpoint, interface, .. } = self;
        let advising = Advising::Here(own);
        let mut arrival = Arrival { advising, interface: *interface, acknowledges: true };
        let (head, body) = (header.as_bytes(), &[0; BODY_BYTES as usize]);
        for _ in 0..packets {
            let packet = Datagram { head, body, ends, traffic_class: 0 };
            endpoint.on_packet(now_ns, &packet, &mut arrival);
        }
        endpoint.replies().clear();
    }

    fn tick(&mut self, now_ns: u64) {
        let counted = format!("lo: {:20} 0 0\n", self.line_bytes);
        self.counter.as_file().write_all_at(counted.as_bytes(), 0).unwrap();
        let drops = self.drops;
        self.own.tick(now_ns, &mut self.endpoint, true, || drops);
        self.endpoint.handle_timeout(now_ns);
        self.endpoint.replies().clear();
        for (_, lanes) in self.endpoint.lanes_mut() {
            let is_given = lanes.counted.iter_mut().all(|(_, lane)| lane.given == lane.advised);
            assert!(is_given, "the transport has other advice");
        }
    }

    fn lanes(&mut self, sender: u16) -> Option<&mut AdvisedLanes> {
        let mut all = self.endpoint.lanes_mut();
        all.find(|(source, _)| *source == address(sender)).map(|(_, lanes)| lanes)
    }

    fn advice(&mut self, sender: u16, group: u8) -> Advice {
        let lane = self.lanes(sender).and_then(|lanes| lanes.counted.get_mut(group));
        lane.map_or(Advice::NONE, |lane| lane.advised)
    }

    fn end_lanes(&mut self, sender: u16) {
        self.lanes(sender).expect("a known sender").clear().for_each(drop);
    }

    /// The advice to group 0 of a sender, in thousandths of the line.
    fn share(&mut self, sender: u16) -> u64 {
        self.advice(sender, 0).bytes_per_s() / LINE_BYTES_PER_MS
    }
}

/// An address that no host has (RFC 1112, class E).
fn address(sender: u16) -> SocketAddr {
    SocketAddr::from(([240, 0, 0, sender as u8], 1_000))
}

fn header(group: u8, flags: Flags) -> Header {
    Header::new(&Fields { flags, group, job: 1, cookie: 7, count: 1, ..Fields::of(Kind::Data) })
}

/// The packets of a millisecond at the rate that a sender is advised, and at most the line's.
fn obedient(host: &mut Host, sender: u16) -> u64 {
    let advised = match host.share(sender) {
        0 => 1_000,
        share => share,
    };
    advised.min(1_000) * LINE_BYTES_PER_MS / 1_000 / PACKET_BYTES
}

#[test]
fn tick__divides_what_others_leave() {
    let mut host = Host::new(LINE_BYTES_PER_MS * 1_000);
    for ms in 1..400 {
        let now_ns = ms * MS;
        for sender in 0..3 {
            let packets = obedient(&mut host, sender);
            host.data(now_ns, sender, 0, packets);
        }
        // 30 % of the line.
        host.line_bytes += LINE_BYTES_PER_MS * 3 / 10;
        host.tick(now_ns);
    }
    // 1 - 0.3 + 0.3 * 6 / 96, divided by three.
    for sender in 0..3 {
        let share = host.share(sender);
        assert!((225..=255).contains(&share), "{share}");
    }
}

#[test]
fn tick__an_ended_lane_leaves_its_share_at_once() {
    let mut host = Host::new(LINE_BYTES_PER_MS * 1_000);
    for ms in 1..100 {
        for sender in 0..2 {
            let packets = obedient(&mut host, sender);
            host.data(ms * MS, sender, 0, packets);
        }
        host.tick(ms * MS);
    }
    assert!((480..=500).contains(&host.share(0)), "{}", host.share(0));
    host.end_lanes(1);
    assert_eq!(host.advice(1, 0), Advice::NONE);
    let packets = obedient(&mut host, 0);
    (100..=102).for_each(|ms| {
        host.data(ms * MS, 0, 0, packets);
        host.tick(ms * MS);
    });
    assert!(host.share(0) > 900, "{}", host.share(0));
}

// A stranger with forged addresses and as many lanes as it likes.
#[test]
fn count__lanes_beyond_the_limits_take_one_share() {
    let mut host = Host::new(LINE_BYTES_PER_MS * 1_000);
    for ms in 1..100 {
        let packets = obedient(&mut host, 0);
        host.data(ms * MS, 0, 0, packets);
        (0..=255).for_each(|group| host.data(ms * MS, 1, group, 1));
        host.tick(ms * MS);
    }
    let of_stranger = (0..=255).filter(|group| host.advice(1, *group) != Advice::NONE).count();
    assert_eq!(of_stranger, RECEIVER_LANES / 8);
    assert_eq!(host.own.lanes.len(), 1 + of_stranger);
    for sender in 2..100 {
        (0..64).for_each(|group| host.data(100 * MS, sender, group, 1));
    }
    assert_eq!(host.own.lanes.len(), LANES_MAX);
    // Their places are free as soon as they have ended.
    (1..100).for_each(|sender| host.end_lanes(sender));
    host.data(102 * MS, 0, 0, 1);
    host.tick(102 * MS);
    assert_eq!(host.own.lanes.len(), 1);
    assert_ne!(host.advice(0, 0), Advice::NONE);
}

#[test]
fn tick__gives_no_advice_over_the_loopback() {
    assert!(!OwnAdvice::new(LineOptions::default()).gives_advice(), "nobody has stated a rate");
    let mut host = Host::new(LINE_BYTES_PER_MS * 1_000);
    host.own.arrival_lines = ArrivalLines::new();
    (50..100).for_each(|ms| {
        host.data(ms * MS, 0, 0, 1);
        host.tick(ms * MS);
    });
    assert_eq!((host.own.gives_advice(), host.share(0)), (true, 0));
}

#[test]
fn tick__without_a_counter_there_is_no_advice() {
    let mut host = Host::new(LINE_BYTES_PER_MS * 1_000);
    (1..50).for_each(|ms| {
        host.data(ms * MS, 0, 0, 5);
        host.tick(ms * MS);
    });
    assert!(host.share(0) > 900);
    host.own.counters = Some(Counters::of(File::open("/dev/null").unwrap()));
    (50..1_100).for_each(|ms| {
        host.data(ms * MS, 0, 0, 5);
        host.tick(ms * MS);
    });
    assert_eq!(host.share(0), 0);
}

#[test]
fn end__leaves_advice_to_the_daemon() {
    let mut host = Host::new(LINE_BYTES_PER_MS * 1_000);
    for round in 0..2 {
        (1..50).map(|ms| ms + 50 * round).for_each(|ms| {
            host.data(ms * MS, 0, 0, 5);
            host.tick(ms * MS);
        });
        assert!(host.share(0) > 900, "{round}");
        host.endpoint.end_advice();
        host.own.end();
        assert_eq!((host.share(0), host.own.lanes.len(), host.own.lines.len()), (0, 0, 0));
    }
}

#[test]
fn wire_bytes__are_those_of_frames() {
    let v4 = "192.0.2.1:1".parse().unwrap();
    assert_eq!(wire_bytes(v4, 1, 1_440), u64::from(Advice::wire_bytes(1_500)));
    assert_eq!(wire_bytes("[::ffff:192.0.2.1]:1".parse().unwrap(), 1, 1_440), 1_538);
    assert_eq!(wire_bytes("[2001:db8::1]:1".parse().unwrap(), 2, 2_840), 2 * 1_538);
    assert_eq!(wire_bytes(v4, 1, 0), 98);
}

/// Receivers of one host, each with one lane. The first begins `head_start_ms` before the others,
/// and `for_ms` follow. Their senders do as they were advised `delay_ms` ago, and at most send at
/// the line's rate. Returns what arrived in each of the last 500 ms, as a share of the line, and
/// the share of each receiver.
fn receivers_on_a_line(
    number: usize,
    depth_packets: u32,
    delay_ms: usize,
    [head_start_ms, for_ms]: [u64; 2],
) -> (Vec<f64>, Vec<f64>) {
    let line = LINE_BYTES_PER_MS * 1_000;
    let mut hosts: Vec<Host> = (0..number).map(|_| Host::new(line)).collect();
    hosts.iter_mut().for_each(|host| host.own.depth_packets = depth_packets);
    let mut advised = vec![vec![1_000; delay_ms]; number];
    let (mut owed, mut of_each) = (vec![0; number], vec![0.0; number]);
    let mut shares = Vec::new();
    let end_ms = head_start_ms + for_ms;
    for ms in 1..=end_ms {
        let mut sent = Vec::new();
        for (at, (advised, owed)) in advised.iter_mut().zip(&mut owed).enumerate() {
            if at > 0 && ms <= head_start_ms {
                sent.push(0);
                continue;
            }
            let host = &mut hosts[at];
            let share = match host.share(0) {
                0 => 1_000,
                share => share.min(1_000),
            };
            advised.push(share);
            *owed += advised[advised.len() - delay_ms - 1] * LINE_BYTES_PER_MS / 1_000;
            sent.push(*owed / PACKET_BYTES);
            *owed %= PACKET_BYTES;
        }
        let all: u64 = sent.iter().sum();
        for ((host, sent), of_each) in hosts.iter_mut().zip(sent).zip(&mut of_each) {
            host.data(ms * MS, 0, 0, sent);
            host.line_bytes += (all - sent) * PACKET_BYTES;
            host.tick(ms * MS);
            if ms > end_ms - 500 {
                *of_each += (sent * PACKET_BYTES) as f64 / (500 * LINE_BYTES_PER_MS) as f64;
            }
        }
        if ms > end_ms - 500 {
            shares.push((all * PACKET_BYTES) as f64 / LINE_BYTES_PER_MS as f64);
        }
    }
    (shares, of_each)
}

// Each receiver takes the others' lanes for exact traffic, and all answer to each other.
#[test]
fn tick__several_receivers_on_a_line_come_to_rest() {
    // With short queues they are advised too much: half of the others each.
    for (number, depth) in [(1, 96), (2, 96), (3, 96), (8, 96), (2, 7), (3, 7)] {
        // Each takes what the others leave, and a part of theirs.
        let subtracted = 1.0 - f64::min(0.5, 6.0 / f64::min(48.0, f64::from(depth)));
        let expected = number as f64 / (1.0 + (number - 1) as f64 * subtracted);
        let (shares, of_each) = receivers_on_a_line(number, depth, 2, [0, 1_000]);
        for ten_ms in shares.chunks(10) {
            let share = ten_ms.iter().sum::<f64>() / ten_ms.len() as f64;
            let words = format!("{number} receivers, {depth}: {share:.3} of {expected:.3}");
            println!("{words}");
            assert!((share / expected - 1.0).abs() < 0.05, "{words}");
        }
        let mean = of_each.iter().sum::<f64>() / number as f64;
        assert!(of_each.iter().all(|share| (share / mean - 1.0).abs() < 0.05), "{of_each:?}");
    }
}

// With the depth of the profile `default`. Its own share comes, but not at once.
#[test]
fn tick__a_later_receiver_comes_to_its_share() {
    for (for_ms, least) in [(1_000, 0.15), (3_000, 0.35), (6_000, 0.45)] {
        let (_, of_each) = receivers_on_a_line(2, 96, 2, [500, for_ms]);
        println!("after {for_ms} ms: {of_each:.2?}");
        assert!(of_each[1] > least, "after {for_ms} ms: {of_each:?}");
    }
}
