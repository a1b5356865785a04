//! Tests truncated and damaged packets: the programs return a valid verdict, change only the
//! permitted bytes, and drop only invalid ATP packets.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::wire::{Fields, HEADER_LEN, Header, Kind};
use atp_tests::{
    capability::Suite,
    packets::{LOCAL_RECEIVER, SENDER, Shape, data_fields},
    prog_run::{Outcome, Rig, TC_DROP, TC_PASS, XDP_DROP, XDP_PASS},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::env;

pub fn add(suite: &mut Suite) {
    suite.add("hostile__truncated_at_every_length", NEEDS, truncated_at_every_length);
    suite.add("hostile__random_damage", NEEDS, random_damage);
    suite.add("hostile__random_bytes", NEEDS, random_bytes);
}

/// The kernel rejects test runs on less than an Ethernet header and one byte.
const LEN_MIN: usize = 15;

/// The kernel rejects test runs of tc programs on a truncated IP header.
fn fits_tc(packet: &[u8]) -> bool {
    let ip_len = match packet[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => 1,
    };
    packet.len() >= 14 + ip_len
}

fn truncated_at_every_length() -> Result<()> {
    let rig = Rig::new()?;
    for shape in Shape::all() {
        rig.use_flow(shape.ipv6)?;
        let headers_len = shape.payload_offset() + HEADER_LEN;
        let data = shape.data(&Header::new(&data_fields(1)));
        let arriving = shape.atp(&SENDER, &LOCAL_RECEIVER, &Header::new(&data_fields(1)));
        let ack = shape.answer(&Header::new(&Fields { kind: Kind::Ack, ..data_fields(1) }));
        for len in LEN_MIN..(headers_len + 2).min(data.len()) {
            let complete = len >= headers_len;
            let what = format!("{shape:?} truncated to {len}");
            rig.renew_lane();
            let outcome = rig.xdp(&ack[..len])?;
            ensure!(
                outcome.verdict == if complete { XDP_DROP } else { XDP_PASS },
                "{what}: ACK, XDP"
            );
            if !fits_tc(&data[..len]) {
                continue;
            }
            let outcome = rig.egress(&data[..len])?;
            ensure!(outcome.verdict == TC_PASS, "{what}: egress");
            ensure!(complete || outcome.packet == data[..len], "{what}: egress changed it");
            let outcome = rig.egress_marked(&data[..len])?;
            ensure!(outcome.verdict == if complete { TC_PASS } else { TC_DROP }, "{what}: clone");
            let outcome = rig.ingress(&arriving[..len])?;
            ensure!(
                outcome.verdict == TC_PASS && outcome.packet == arriving[..len],
                "{what}: ingress"
            );
            let outcome = rig.ingress(&ack[..len])?;
            ensure!(outcome.verdict == if complete { TC_DROP } else { TC_PASS }, "{what}: ACK, tc");
        }
    }
    Ok(())
}

/// The seed of `ATP_SEED`, or a random one. The seed is printed for repetitions of the run.
pub fn seed() -> u64 {
    let given = env::var("ATP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("seed {seed}: repeat this run with ATP_SEED={seed}");
    seed
}

fn random_damage() -> Result<()> {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rig = Rig::new()?;
    for shape in Shape::all() {
        rig.use_flow(shape.ipv6)?;
        for i in 0..600 {
            let slot = rng.random();
            let kind = if rng.random() { Kind::Data } else { Kind::Ack };
            let header = Header::new(&Fields { kind, ..data_fields(slot) });
            let mut packet = if rng.random() { shape.data(&header) } else { shape.answer(&header) };
            damage(&mut packet, shape.payload_offset() + HEADER_LEN, &mut rng);
            run_all(&rig, &packet).map_err(|error| {
                error.context(format!("seed {seed}, {shape:?}, packet {i}: {packet:02x?}"))
            })?;
        }
    }
    Ok(())
}

/// Changes a few bytes of the headers, and sometimes truncates or extends the packet.
fn damage(packet: &mut Vec<u8>, headers_len: usize, rng: &mut ChaCha8Rng) {
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..headers_len.min(packet.len()));
        packet[at] = match rng.random_range(0..3) {
            0 => rng.random(),
            1 => packet[at] ^ (1 << rng.random_range(0..8)),
            _ => [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5)],
        };
    }
    if rng.random_range(0..4) == 0 {
        packet.truncate(rng.random_range(LEN_MIN..=packet.len()));
    }
    if rng.random_range(0..8) == 0 {
        packet.resize(packet.len() + rng.random_range(1..200), 0xa7);
    }
}

fn random_bytes() -> Result<()> {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rig = Rig::new()?;
    for i in 0..1500 {
        let mut packet = vec![0; rng.random_range(LEN_MIN..300)];
        rng.fill(packet.as_mut_slice());
        // With a known EtherType the programs parse beyond the Ethernet header.
        packet[12..14]
            .copy_from_slice([&[8, 0], &[0x86, 0xdd], &[0x81, 0]][rng.random_range(0..3)]);
        run_all(&rig, &packet)
            .map_err(|error| error.context(format!("seed {seed}, packet {i}")))?;
    }
    Ok(())
}

fn run_all(rig: &Rig, packet: &[u8]) -> Result<()> {
    // A new lane, because the pacing horizon would soon drop all packets that are still DATA.
    rig.renew_lane();
    let outcome = rig.xdp(packet)?;
    ensure!([XDP_PASS, XDP_DROP].contains(&outcome.verdict), "XDP returned {}", outcome.verdict);
    ensure!(outcome.packet == packet, "XDP changed it");
    if !fits_tc(packet) {
        return Ok(());
    }
    let outcome = rig.egress(packet)?;
    ensure!([TC_PASS, TC_DROP].contains(&outcome.verdict), "egress returned {}", outcome.verdict);
    ensure!(outcome.packet.len() == packet.len(), "egress changed the length");
    ensure!(
        changed_bytes(packet, &outcome) <= MAY_CHANGE,
        "egress changed too much: {:02x?}",
        outcome.packet
    );

    let outcome = rig.egress_marked(packet)?;
    ensure!([TC_PASS, TC_DROP].contains(&outcome.verdict), "clone: {}", outcome.verdict);
    ensure!(outcome.verdict == TC_DROP || outcome.packet.len() <= packet.len(), "an ACK grew");

    let outcome = rig.ingress(packet)?;
    ensure!([TC_PASS, TC_DROP].contains(&outcome.verdict), "ingress returned {}", outcome.verdict);
    ensure!(outcome.packet == packet, "ingress changed it");
    Ok(())
}

/// Bytes that egress may change: traffic class (two bytes in IPv6), IPv4 checksum, UDP checksum,
/// epoch, time.
const MAY_CHANGE: usize = 2 + 2 + 2 + 2 + 4;

fn changed_bytes(packet: &[u8], outcome: &Outcome) -> usize {
    packet.iter().zip(&outcome.packet).filter(|(before, after)| before != after).count()
}
