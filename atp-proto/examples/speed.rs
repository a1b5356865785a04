//! Nanoseconds per packet of the sender's state machine: `next_packet`, acknowledgments through
//! the ring, receipts. `cargo run --release -p atp-proto --example speed`.
//!
//! The network is a ring that acknowledges all packets except every `lose_every`-th. The example
//! makes no system calls.

use atp_common::{
    laws::rtt::Rtt,
    maps::ack_ring,
    units::Msr,
    wire::{HEADER_LEN, Header, Kind, member_header},
};
use atp_proto::{
    AckRing, GroupConfig, MessageId, Outcome, Pace, PackedMessage, Receiver, ReceiverConfig,
    Sender, SenderConfig,
};
use nix::time::{ClockId, clock_gettime};
use std::{cell::Cell, hint::black_box, time::Duration};

struct Ring(Vec<Cell<u64>>);

impl AckRing for Ring {
    fn word(&self, position: u32) -> u64 {
        self.0[position as usize].get()
    }
}

struct Run {
    name: &'static str,
    message_bytes: u32,
    messages: u32,
    lose_every: u64,
    mrdf: bool,
}

/// The time between two packets on the state machines' clock: 1 us.
const PACKET_NS: u64 = 1_000;
/// Message bytes in a packet.
const PAYLOAD_BYTES: u32 = 1_400;
/// Packets per reading of the clock, because one reading costs as much as several packets.
const BATCH: usize = 256;

fn main() {
    let runs = [
        ("13 in a packet, no loss", 100, 6_500_000, 0, true),
        ("13 in a packet, 1 in 10 lost", 100, 6_500_000, 10, true),
        ("1 packet, no loss", PAYLOAD_BYTES, 2_000_000, 0, true),
        ("1 packet, 1 in 10 lost", PAYLOAD_BYTES, 2_000_000, 10, true),
        ("16 packets, no loss", 16 * PAYLOAD_BYTES, 150_000, 0, true),
        ("16 packets, 1 in 10 lost", 16 * PAYLOAD_BYTES, 150_000, 10, true),
        ("16 packets, 1 in 2 lost", 16 * PAYLOAD_BYTES, 100_000, 2, true),
        ("700 packets, 1 in 10 lost", 700 * PAYLOAD_BYTES, 3_000, 10, true),
        ("1 packet, 1 in 10 lost, in order", PAYLOAD_BYTES, 1_000_000, 10, false),
    ];
    println!("{:34} {:>12} {:>14} {:>14}", "messages", "packets", "ns per packet", "receiver, ns");
    for (name, message_bytes, messages, lose_every, mrdf) in runs {
        let run = Run { name, message_bytes, messages, lose_every, mrdf };
        let (packets, sender, receiver) = measure(&run);
        let each = |time: Duration| time.as_nanos() as f64 / packets as f64;
        println!("{:34} {packets:>12} {:>14.1} {:>14.1}", run.name, each(sender), each(receiver));
    }
}

fn measure(run: &Run) -> (u64, Duration, Duration) {
    let msr = Msr::from_parts_per_billion(990_000_000).expect("below one");
    let group = GroupConfig { total: Some(run.messages), ..GroupConfig::new(0, msr) };
    let new = SenderConfig::new(1, 2, group);
    let payload_bytes_max = PAYLOAD_BYTES;
    let config = SenderConfig { mrdf: run.mrdf, packing: true, payload_bytes_max, ..new };
    let words = config.ack_ring_words;
    let mut sender = Sender::new(config).expect("the defaults make sense");
    let ring = Ring(vec![Cell::new(0); words as usize]);
    let rtt = Rtt::default().observe(100_000);
    sender.set_pace(0, Pace { rtt, backlog_ns: 0, ..Pace::default() });
    let data = vec![0; PAYLOAD_BYTES as usize];
    let mut packed = Vec::new();
    let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
    let (mut now_ns, mut queued, mut packets) = (0, 0, 0u64);
    let mut receiver: Option<Receiver> = None;
    let mut batch = Vec::with_capacity(BATCH);
    let mut receipt = [0; 1_196];
    while receiver.as_ref().is_none_or(|r| r.delivered(0) < msr.needed(run.messages)) {
        let start = clock();
        while queued < run.messages && sender.has_room(run.message_bytes) {
            sender.queue(0, run.message_bytes).expect("there is room");
            queued += 1;
        }
        sender.scan_acks(now_ns, &ring);
        sender.handle_timeout(now_ns);
        while batch.len() < BATCH {
            let Some(packet) = sender.next_packet(now_ns) else { break };
            batch.push(packet);
        }
        for MessageId { id, .. } in sender.released() {
            black_box(id);
        }
        sending += clock() - start;
        now_ns += PACKET_NS * BATCH as u64;
        let start = clock();
        for packet in batch.drain(..) {
            packets += 1;
            if run.lose_every != 0 && packets.is_multiple_of(run.lose_every) {
                continue;
            }
            let slot = packet.header.slot();
            let word = &ring.0[ack_ring::position(slot, words) as usize];
            word.set(ack_ring::acknowledged(word.get(), slot).unwrap_or(word.get()));
            let new = || Receiver::new(ReceiverConfig::default(), now_ns, &packet.header);
            let receiver = receiver.get_or_insert_with(new);
            packed.clear();
            for PackedMessage { message, len } in sender.packed_messages(&packet) {
                packed.extend_from_slice(&member_header(message.id, len));
                packed.extend_from_slice(&data[..usize::from(len)]);
            }
            let body = if packet.is_packed() { &packed } else { &data[..packet.len as usize] };
            let outcome = receiver.on_data(now_ns, &packet.header, body);
            assert!(!matches!(outcome, Outcome::Refused(_) | Outcome::Dropped(_)));
            while let Some(message) = receiver.next_message() {
                black_box(message);
            }
        }
        let Some(receiver) = receiver.as_mut() else { continue };
        let due = receiver.receipt_due(now_ns);
        let len = if due { receiver.write_receipt(now_ns, &mut receipt) } else { 0 };
        receiving += clock() - start;
        if len > 0 {
            let start = clock();
            debug_assert_eq!(Header::parse(&receipt[..HEADER_LEN]).map(|h| h.1), Ok(Kind::Receipt));
            sender.on_packet(now_ns, &receipt[..len]).expect("a true receipt");
            sending += clock() - start;
        }
    }
    (packets, sending, receiving)
}

/// The processor time of this thread, which excludes other programs on a shared machine.
fn clock() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    Duration::from(now)
}
