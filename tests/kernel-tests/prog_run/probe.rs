//! Tests acknowledgment on demand: NO_ACK packets at egress and ingress, the probe, its answer, and
//! the sender's processing of the answer.

use crate::NEEDS;
use anyhow::{Context, Result, ensure};
use atp_common::{
    maps::{ACK_RING_WORDS, ANSWER_WORDS, LaneControl, arrivals::SOURCE_LANES_MAX},
    wire::{
        EpochArrivals, Fields, Flags, HEADER_LEN, Header, Kind, PROBE_EPOCHS, PROBE_LEN,
        PROBE_SLOTS, ProbeBody,
    },
};
use atp_datapath::{EGRESS, INGRESS};
use atp_tests::{
    capability::Suite,
    packets::{COOKIE, End, GROUP, LOCAL_RECEIVER, Parsed, RECEIVER, SENDER, Shape, data_fields},
    prog_run::{
        DSCP, EPOCH, LANE, Rig, SkBuff, TC_DROP, TC_PASS, TC_REDIRECT, XDP_DROP, control, now_ns,
    },
};

pub fn add(suite: &mut Suite) {
    suite.add("probe__arrivals_are_answered_in_place", NEEDS, arrivals_are_answered_in_place);
    suite.add("probe__no_arrivals_give_an_empty_answer", NEEDS, no_arrivals_give_an_empty_answer);
    suite.add(
        "probe__options_and_other_lengths_are_passed_up",
        NEEDS,
        options_and_other_lengths_are_passed_up,
    );
    suite.add("probe__lanes_are_recorded_apart", NEEDS, lanes_are_recorded_apart);
    suite.add("probe__strangers_replace_no_admitted_record", NEEDS, strangers_replace_no_record);
    suite.add("probe__only_receivers_admit_sources", NEEDS, only_receivers_admit_sources);
    suite.add("probe__many_sources_keep_their_records", NEEDS, many_sources_keep_their_records);
    suite.add("probe__gro_buffers_are_recorded", NEEDS, gro_buffers_are_recorded);
    suite.add(
        "probe__merged_packets_are_recorded_one_by_one",
        NEEDS,
        merged_packets_are_recorded_one_by_one,
    );
    suite.add("probe__answers_set_bits_and_counts", NEEDS, answers_set_bits_and_counts);
    suite.add("probe__forged_answers_change_nothing", NEEDS, forged_answers_change_nothing);
    suite.add(
        "probe__egress_leaves_no_ack_packets_unchanged",
        NEEDS,
        egress_leaves_no_ack_packets_unchanged,
    );
    suite.add("probe__egress_counts_into_the_named_epoch", NEEDS, counts_into_the_named_epoch);
    suite.add("probe__egress_takes_gso_buffers_of_one_lane", NEEDS, gso_buffers_of_one_lane);
    suite.add("probe__egress_sends_probes_after_data", NEEDS, egress_sends_probes_after_data);
}

fn no_ack(slot: u32) -> Fields {
    Fields { flags: Flags::NO_ACK, epoch: EPOCH, ..data_fields(slot) }
}

fn probe(slot: u32) -> Fields {
    Fields { kind: Kind::Probe, index: 77, count: 0, message: slot + 256, ..data_fields(slot) }
}

/// A PROBE packet from the sender, with room for its answer.
fn probe_packet(shape: &Shape, fields: &Fields) -> Vec<u8> {
    let shape = Shape { body: 0, ..*shape };
    let mut payload = Header::new(fields).as_bytes().to_vec();
    payload.resize(PROBE_LEN, 0);
    shape.udp(&SENDER, &LOCAL_RECEIVER, &payload)
}

fn arrives(rig: &Rig, shape: &Shape, fields: &Fields) -> Result<()> {
    let packet = shape.atp(&SENDER, &LOCAL_RECEIVER, &Header::new(fields));
    let outcome = rig.ingress(&packet)?;
    ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "{shape:?}: not passed up");
    Ok(())
}

/// The answer of the receiver's programs to a probe.
fn answer(rig: &Rig, shape: &Shape, fields: &Fields) -> Result<ProbeBody> {
    let outcome = rig.ingress(&probe_packet(shape, fields))?;
    ensure!(outcome.verdict == TC_REDIRECT, "{shape:?}: verdict {}", outcome.verdict);
    let answer = Parsed::of(&outcome.packet)?;
    ensure!(answer.header == Header::new(fields).into_probe_ack(), "{shape:?}: header");
    ProbeBody::parse(&answer.body).context("the body's length")
}

fn bits(body: &ProbeBody) -> Vec<u32> {
    (0..PROBE_SLOTS).filter(|i| body.word(*i as usize / 32) >> (i % 32) & 1 == 1).collect()
}

fn epochs(body: &ProbeBody) -> Vec<EpochArrivals> {
    (0..PROBE_EPOCHS).filter_map(|i| body.epoch(i)).collect()
}

fn arrivals_are_answered_in_place() -> Result<()> {
    for shape in Shape::all().into_iter().filter(|shape| shape.options == 0) {
        let rig = Rig::new()?;
        for slot in [64, 65, 70, 127, 128, 319, 320, 70] {
            arrives(&rig, &shape, &no_ack(slot))?;
        }
        let fields = probe(64);
        let sent = probe_packet(&shape, &fields);
        let outcome = rig.ingress(&sent)?;
        ensure!(outcome.verdict == TC_REDIRECT, "{shape:?}: verdict {}", outcome.verdict);
        let (before, after) = (Parsed::of(&sent)?, Parsed::of(&outcome.packet)?);
        let expected = Parsed {
            macs: (before.macs.1, before.macs.0),
            traffic_class: (0, 0),
            ttl: 64,
            addresses: (before.addresses.1.clone(), before.addresses.0.clone()),
            ports: (RECEIVER.port, SENDER.port),
            header: Header::new(&fields).into_probe_ack(),
            body: after.body.clone(),
            ..before
        };
        ensure!(after == expected, "{shape:?}: {after:?} not {expected:?}");
        let body = ProbeBody::parse(&after.body).context("the body's length")?;
        ensure!(bits(&body) == [0, 1, 6, 63, 64, 255], "{shape:?}: {:?}", bits(&body));
        let marked = if shape.ecn == 3 { 7 } else { 0 };
        let expected = EpochArrivals { epoch: EPOCH, arrived: 7, marked };
        ensure!(epochs(&body) == [expected], "{shape:?}: {:?}", epochs(&body));
        // No ACK was sent, and the probe itself became the answer.
        let counts = ["data_arrived", "ack_failed", "ack_sent", "probe_answered", "probe_failed"];
        let counts: Result<Vec<_>> = counts.iter().map(|name| rig.counter(name)).collect();
        ensure!(counts? == [8, 0, 0, 1, 0], "{shape:?}");
    }
    Ok(())
}

fn no_arrivals_give_an_empty_answer() -> Result<()> {
    let rig = Rig::new()?;
    let body = answer(&rig, &Shape::default(), &probe(0))?;
    ensure!(body == ProbeBody::default(), "{body:?}");
    // Packets that get an ACK each are not recorded.
    let packet = Shape::default().atp(&SENDER, &LOCAL_RECEIVER, &Header::new(&data_fields(1)));
    rig.ingress(&packet)?;
    ensure!(answer(&rig, &Shape::default(), &probe(0))? == ProbeBody::default());
    Ok(())
}

fn options_and_other_lengths_are_passed_up() -> Result<()> {
    let rig = Rig::new()?;
    let with_options = probe_packet(&Shape { options: 2, ..Shape::default() }, &probe(0));
    let header = Header::new(&probe(0));
    let short = Shape { body: 79, ..Shape::default() }.atp(&SENDER, &LOCAL_RECEIVER, &header);
    let long = Shape { body: 81, ..Shape::default() }.atp(&SENDER, &LOCAL_RECEIVER, &header);
    for (i, packet) in [with_options, short, long].iter().enumerate() {
        let outcome = rig.ingress(packet)?;
        ensure!(outcome.verdict == TC_PASS && outcome.packet == *packet, "packet {i}");
    }
    ensure!(rig.counter("malformed")? == 3 && rig.counter("probe_answered")? == 0);
    Ok(())
}

fn lanes_are_recorded_apart() -> Result<()> {
    let rig = Rig::new()?;
    let shape = Shape::default();
    arrives(&rig, &shape, &no_ack(3))?;
    arrives(&rig, &shape, &Fields { group: GROUP + 1, ..no_ack(4) })?;
    arrives(&rig, &shape, &Fields { cookie: COOKIE + 1, ..no_ack(5) })?;
    arrives(&rig, &Shape { ipv6: true, ..shape }, &no_ack(6))?;
    ensure!(bits(&answer(&rig, &shape, &probe(0))?) == [3]);
    let other_group = Fields { group: GROUP + 1, ..probe(0) };
    ensure!(bits(&answer(&rig, &shape, &other_group)?) == [4]);
    let other_cookie = Fields { cookie: COOKIE + 1, ..probe(0) };
    ensure!(bits(&answer(&rig, &shape, &other_cookie)?) == [5]);
    ensure!(bits(&answer(&rig, &Shape { ipv6: true, ..shape }, &probe(0))?) == [6]);
    Ok(())
}

/// The receiving library sends a RECEIPT to the sender of `fields`, from `from`.
fn admit(rig: &Rig, shape: &Shape, fields: &Fields, from: &End) -> Result<()> {
    let receipt = Fields { kind: Kind::Receipt, flags: Flags::NONE, ..*fields };
    let packet = shape.atp(from, &SENDER, &Header::new(&receipt));
    let outcome = rig.egress(&packet)?;
    ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "a changed RECEIPT");
    Ok(())
}

/// DATA of 10,000 strangers with random cookies.
fn strangers_send(rig: &Rig) -> Result<()> {
    for stranger in 0..10_000u32 {
        let cookie = stranger.wrapping_mul(2_654_435_761) ^ 0x5eed;
        arrives(rig, &Shape::default(), &Fields { cookie, ..no_ack(stranger) })?;
    }
    Ok(())
}

/// The record of an admitted source survives any number of strangers, whose records replace each
/// other. It keeps what it recorded before the admission.
fn strangers_replace_no_record() -> Result<()> {
    for ipv6 in [false, true] {
        let rig = Rig::new()?;
        let shape = Shape { ipv6, ..Shape::default() };
        arrives(&rig, &shape, &no_ack(3))?;
        ensure!(bits(&answer(&rig, &shape, &probe(0))?) == [3], "a newcomer's record");
        admit(&rig, &shape, &no_ack(0), &RECEIVER)?;
        arrives(&rig, &shape, &no_ack(4))?;
        ensure!(bits(&answer(&rig, &shape, &probe(0))?) == [3, 4], "an admitted one's record");
        arrives(&rig, &shape, &Fields { cookie: COOKIE + 1, ..no_ack(5) })?;
        strangers_send(&rig)?;
        let stranger = answer(&rig, &shape, &Fields { cookie: COOKIE + 1, ..probe(0) })?;
        ensure!(bits(&stranger).is_empty(), "the test sends too few packets");
        ensure!(bits(&answer(&rig, &shape, &probe(0))?) == [3, 4], "strangers replaced it");
        ensure!(rig.counter("probe_failed")? == 0);
    }
    Ok(())
}

/// A RECEIPT from a port without a receiver admits nobody.
fn only_receivers_admit_sources() -> Result<()> {
    let rig = Rig::new()?;
    let shape = Shape::default();
    arrives(&rig, &shape, &no_ack(3))?;
    admit(&rig, &shape, &no_ack(0), &End { port: RECEIVER.port + 1, ..RECEIVER })?;
    // Nor does it for another run of the job.
    admit(&rig, &shape, &Fields { cookie: COOKIE + 1, ..no_ack(0) }, &RECEIVER)?;
    arrives(&rig, &shape, &no_ack(4))?;
    strangers_send(&rig)?;
    ensure!(bits(&answer(&rig, &shape, &probe(0))?).is_empty(), "admitted");
    Ok(())
}

/// As many sources as a receiver has places, each with as many lanes as a source may have: all keep
/// their records, while each of them sends from further lanes.
fn many_sources_keep_their_records() -> Result<()> {
    let rig = Rig::new()?;
    let shape = Shape::default();
    let lane = |source: u32, group: u32, slot: u32| Fields {
        cookie: COOKIE + source,
        group: group as u8,
        ..no_ack(slot)
    };
    for source in 0..256 {
        admit(&rig, &shape, &lane(source, 0, 0), &RECEIVER)?;
        for group in 0..SOURCE_LANES_MAX {
            arrives(&rig, &shape, &lane(source, group, group))?;
        }
    }
    for further in 0..5_000u32 {
        arrives(&rig, &shape, &lane(further % 256, 100 + further / 256, 9))?;
    }
    for source in 0..256 {
        for group in 0..SOURCE_LANES_MAX {
            let fields =
                Fields { kind: Kind::Probe, index: 77, count: 0, ..lane(source, group, 0) };
            let fields = Fields { flags: Flags::NONE, message: 256, ..fields };
            let recorded = bits(&answer(&rig, &shape, &fields)?);
            ensure!(recorded == [group], "source {source}, group {group}: {recorded:?}");
        }
    }
    Ok(())
}

const SEGMENT_LEN: usize = HEADER_LEN + 8;

/// A GSO or GRO buffer of these segments. The last one is shorter by `missing` bytes.
fn offload_buffer(
    shape: &Shape,
    to_receiver: bool,
    segments: &[Fields],
    missing: usize,
) -> Vec<u8> {
    let mut payload = Vec::new();
    for fields in segments {
        payload.extend_from_slice(Header::new(fields).as_bytes());
        payload.extend_from_slice(&[9; SEGMENT_LEN - HEADER_LEN]);
    }
    payload.truncate(payload.len() - missing);
    shape.udp(&SENDER, if to_receiver { &LOCAL_RECEIVER } else { &RECEIVER }, &payload)
}

fn context(segments: usize) -> SkBuff {
    SkBuff::with_segments(segments as u32, SEGMENT_LEN as u32)
}

fn gro_buffers_are_recorded() -> Result<()> {
    for ipv6 in [false, true] {
        let rig = Rig::new()?;
        let shape = Shape { ipv6, ecn: 3, ..Shape::default() };
        let mut slot = 40;
        for (n, missing) in [(2, 0), (44, 0), (44, 7), (64, 3), (3, 8)] {
            let segments: Vec<_> = (slot..slot + n).map(no_ack).collect();
            let packet = offload_buffer(&shape, true, &segments, missing);
            let outcome = rig.run(INGRESS, &packet, context(segments.len()))?;
            ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "{n} segments");
            slot += n;
        }
        let body = answer(&rig, &shape, &probe(32))?;
        let expected: Vec<_> = (8..slot - 32).collect();
        ensure!(bits(&body) == expected, "{:?}", bits(&body));
        let expected = EpochArrivals { epoch: EPOCH, arrived: 157, marked: 157 };
        ensure!(epochs(&body) == [expected], "{:?}", epochs(&body));
        ensure!(rig.counter("data_arrived")? == 157);
    }
    Ok(())
}

/// GRO also merges single packets: with gaps in their slots, and of several epochs and lanes.
fn merged_packets_are_recorded_one_by_one() -> Result<()> {
    let rig = Rig::new()?;
    let shape = Shape::default();
    let segments = [
        no_ack(1),
        no_ack(2),
        no_ack(5),
        Fields { epoch: EPOCH + 1, ..no_ack(6) },
        Fields { group: GROUP + 1, ..no_ack(7) },
        no_ack(9),
    ];
    let packet = offload_buffer(&shape, true, &segments, 0);
    let outcome = rig.run(INGRESS, &packet, context(segments.len()))?;
    ensure!(outcome.verdict == TC_PASS && outcome.packet == packet);
    let body = answer(&rig, &shape, &probe(0))?;
    ensure!(bits(&body) == [1, 2, 5, 6, 9], "{:?}", bits(&body));
    let count = |epoch, arrived| EpochArrivals { epoch, arrived, marked: 0 };
    ensure!(epochs(&body) == [count(EPOCH, 4), count(EPOCH + 1, 1)], "{:?}", epochs(&body));
    // A segment without an ATP header ends the walk.
    let mut payload = Header::new(&no_ack(10)).as_bytes().to_vec();
    payload.resize(3 * SEGMENT_LEN, 0);
    let packet = shape.udp(&SENDER, &LOCAL_RECEIVER, &payload);
    ensure!(rig.run(INGRESS, &packet, context(3))?.verdict == TC_PASS);
    ensure!(rig.counter("malformed")? == 1);
    ensure!(bits(&answer(&rig, &shape, &probe(0))?).last() == Some(&10));
    Ok(())
}

/// A receiver's answer, as a packet to the sender.
fn answering(shape: &Shape, fields: &Fields, body: &ProbeBody) -> Vec<u8> {
    let mut payload = Header::new(&Fields { kind: Kind::ProbeAck, ..*fields }).as_bytes().to_vec();
    payload.extend_from_slice(body.as_bytes());
    shape.udp(&RECEIVER, &SENDER, &payload)
}

fn answers_set_bits_and_counts() -> Result<()> {
    for xdp in [false, true] {
        for shape in Shape::all() {
            let rig = Rig::new()?;
            rig.use_flow(shape.ipv6)?;
            let mut body = ProbeBody::default();
            body.set_word(0, 0b1011);
            body.set_word(7, 1 << 31);
            body.set_epoch(0, EpochArrivals { epoch: EPOCH, arrived: 5, marked: 2 });
            body.set_epoch(1, EpochArrivals { epoch: EPOCH + 16, arrived: 9, marked: 9 });
            const RTT_NS: u64 = 3_000_000;
            let mut header = Header::new(&probe(96));
            header.stamp(EPOCH, now_ns() - RTT_NS);
            let fields = Fields { time: header.time(), epoch: EPOCH, ..probe(96) };
            let packet = answering(&shape, &fields, &body);
            let take = || if xdp { rig.xdp(&packet) } else { rig.ingress(&packet) };
            let dropped = if xdp { XDP_DROP } else { TC_DROP };
            ensure!(take()?.verdict == dropped, "{shape:?}");
            let delivered: Vec<_> =
                (0..512).filter(|slot| rig.delivered(shape.ipv6, *slot)).collect();
            ensure!(delivered == [96, 97, 99, 96 + 255], "{shape:?}: {delivered:?}");
            let cell = rig.datapath.lanes().read_cell(LANE, EPOCH);
            ensure!(
                (cell.no_ack_arrived_packets, cell.no_ack_marked_packets) == (5, 2),
                "{cell:?}"
            );
            ensure!(cell.count().acked_packets == 5);
            let rtt = rig.datapath.lanes().rtt(LANE);
            ensure!((RTT_NS - 2048..RTT_NS + 500_000_000).contains(&rtt.smoothed_ns), "{rtt:?}");
            let answered = ACK_RING_WORDS + 77 % ANSWER_WORDS;
            ensure!(
                rig.ring_word(shape.ipv6, answered) == 78,
                "{shape:?}: wrong number of the answer"
            );
            // A duplicate, and an older answer with smaller counts, change nothing.
            ensure!(take()?.verdict == dropped);
            ensure!(rig.counter("probe_stale")? == 1 && rig.counter("probe_news")? == 1);
            body.set_epoch(0, EpochArrivals { epoch: EPOCH, arrived: 3, marked: 1 });
            let earlier = answering(&shape, &Fields { index: 76, ..fields }, &body);
            ensure!(
                (if xdp { rig.xdp(&earlier)? } else { rig.ingress(&earlier)? }).verdict == dropped
            );
            let cell = rig.datapath.lanes().read_cell(LANE, EPOCH);
            ensure!(
                (cell.no_ack_arrived_packets, cell.no_ack_marked_packets) == (5, 2),
                "{cell:?}"
            );
        }
    }
    Ok(())
}

fn forged_answers_change_nothing() -> Result<()> {
    let rig = Rig::new()?;
    let shape = Shape::default();
    let mut body = ProbeBody::default();
    body.set_word(0, u32::MAX);
    body.set_epoch(0, EpochArrivals { epoch: EPOCH, arrived: 32, marked: 0 });
    let forged = answering(&shape, &Fields { cookie: COOKIE ^ 1, ..probe(0) }, &body);
    ensure!(rig.xdp(&forged)?.verdict == XDP_DROP && rig.ingress(&forged)?.verdict == TC_DROP);
    ensure!(rig.counter("ack_forged")? == 2);
    // A packet of another length is no answer. The library refuses it.
    let mut payload = Header::new(&Fields { kind: Kind::ProbeAck, ..probe(0) }).as_bytes().to_vec();
    payload.extend_from_slice(&[0xff; 81]);
    ensure!(rig.ingress(&shape.udp(&RECEIVER, &SENDER, &payload))?.verdict == TC_PASS);
    ensure!((0..256).all(|slot| !rig.delivered(false, slot)));
    ensure!(rig.datapath.lanes().read_cell(LANE, EPOCH).no_ack_arrived_packets == 0);
    Ok(())
}

/// Only the DSCP changes.
fn egress_leaves_no_ack_packets_unchanged() -> Result<()> {
    let rig = Rig::new()?;
    for shape in Shape::all() {
        rig.renew_lane();
        rig.use_flow(shape.ipv6)?;
        let packet = shape.data(&Header::new(&no_ack(5)));
        let outcome = rig.egress(&packet)?;
        ensure!(outcome.verdict == TC_PASS, "{shape:?}");
        let (before, after) = (Parsed::of(&packet)?, Parsed::of(&outcome.packet)?);
        ensure!(after == Parsed { traffic_class: (DSCP, shape.ecn), ..before }, "{shape:?}");
        ensure!(outcome.skb.tstamp > 0, "{shape:?}: not paced");
        let cell = rig.datapath.lanes().read_cell(LANE, EPOCH);
        let counts = (cell.sent_packets, cell.no_ack_packets, cell.sent_bytes);
        ensure!(counts == (1, 1, packet.len() as u64), "{shape:?}: {cell:?}");
        ensure!(cell.no_ack_time == Header::time_of(outcome.skb.tstamp), "{shape:?}: time");
    }
    Ok(())
}

/// A packet may name the current epoch, or the previous one while it is open. Packets that name
/// another epoch count into the current one.
fn counts_into_the_named_epoch() -> Result<()> {
    let rig = Rig::new()?;
    let lanes = rig.datapath.lanes();
    lanes.open_cell(LANE, EPOCH + 1);
    lanes.store_control(LANE, &LaneControl { epoch: u32::from(EPOCH) + 1, ..control() });
    for (named, packets) in [(EPOCH, 2), (EPOCH + 1, 3), (EPOCH - 1, 1), (EPOCH + 2, 1)] {
        for _ in 0..packets {
            let fields = Fields { epoch: named, ..no_ack(5) };
            let packet = Shape::default().data(&Header::new(&fields));
            ensure!(rig.egress(&packet)?.verdict == TC_PASS);
        }
    }
    let sent = |epoch| lanes.read_cell(LANE, epoch).no_ack_packets;
    ensure!((sent(EPOCH), sent(EPOCH + 1)) == (2, 5), "{} {}", sent(EPOCH), sent(EPOCH + 1));
    Ok(())
}

fn gso_buffers_of_one_lane() -> Result<()> {
    for ipv6 in [false, true] {
        let rig = Rig::new()?;
        rig.use_flow(ipv6)?;
        let shape = Shape { ipv6, checksum: true, ..Shape::default() };
        let segments: Vec<_> = (10..40).map(no_ack).collect();
        let packet = offload_buffer(&shape, false, &segments, 5);
        let outcome = rig.run(EGRESS, &packet, context(segments.len()))?;
        ensure!(outcome.verdict == TC_PASS);
        let (before, after) = (Parsed::of(&packet)?, Parsed::of(&outcome.packet)?);
        ensure!(after == Parsed { traffic_class: (DSCP, 0), ..before });
        let cell = rig.datapath.lanes().read_cell(LANE, EPOCH);
        // Each segment will have its own headers.
        let bytes = (packet.len() + 29 * shape.payload_offset()) as u64;
        ensure!((cell.no_ack_packets, cell.sent_bytes) == (30, bytes), "{cell:?}");
        ensure!(rig.counter("paced")? == 30);
        for invalid in [
            Fields { group: GROUP + 1, ..no_ack(39) },
            Fields { cookie: COOKIE + 1, ..no_ack(39) },
            Fields { epoch: EPOCH + 1, ..no_ack(39) },
            Fields { flags: Flags::NONE, ..no_ack(39) },
        ] {
            let mut segments = segments.clone();
            segments[29] = invalid;
            let packet = offload_buffer(&shape, false, &segments, 0);
            ensure!(rig.run(EGRESS, &packet, context(30))?.verdict == TC_DROP, "{invalid:?}");
        }
        ensure!(rig.counter("unsendable")? == 4);
    }
    Ok(())
}

fn egress_sends_probes_after_data() -> Result<()> {
    let rig = Rig::new()?;
    let shape = Shape::default();
    let packet = shape.data(&Header::new(&no_ack(5)));
    let mut departure_ns = 0;
    for _ in 0..3 {
        departure_ns = rig.egress(&packet)?.skb.tstamp;
    }
    let clock_ns = rig.datapath.lanes().clock_ns(LANE);
    ensure!(clock_ns > departure_ns);
    let mut payload = Header::new(&probe(0)).as_bytes().to_vec();
    payload.resize(PROBE_LEN, 0);
    let sent = shape.udp(&SENDER, &RECEIVER, &payload);
    let first_probe_ns = now_ns();
    let outcome = rig.egress(&sent)?;
    ensure!(outcome.verdict == TC_PASS);
    // The probe leaves after the queued packets, or at once if they have left. It doesn't advance
    // the lane's clock.
    let leaves_ns = outcome.skb.tstamp;
    let has_passed = clock_ns < leaves_ns && (first_probe_ns..=now_ns()).contains(&leaves_ns);
    ensure!(leaves_ns == clock_ns || has_passed, "{leaves_ns} not {clock_ns}");
    ensure!(rig.datapath.lanes().clock_ns(LANE) == clock_ns);
    let mut expected = Header::new(&probe(0));
    expected.stamp(EPOCH, leaves_ns);
    let after = Parsed::of(&outcome.packet)?;
    ensure!(after.header == expected && after.traffic_class == (DSCP, 0), "{after:?}");
    ensure!(rig.datapath.lanes().read_cell(LANE, EPOCH).sent_packets == 3);
    // A second probe is too soon, until enough packets were sent.
    let too_soon = rig.egress(&sent)?.verdict == TC_DROP;
    ensure!(too_soon || now_ns() - first_probe_ns >= 500_000);
    ensure!(rig.counter("probe_too_soon")? == u64::from(too_soon));
    rig.renew_lane();
    for _ in 0..32 {
        rig.egress(&packet)?;
    }
    ensure!(rig.egress(&sent)?.verdict == TC_PASS);
    // Probes of another length, or with a wrong cookie, are dropped.
    payload.push(0);
    ensure!(rig.egress(&shape.udp(&SENDER, &RECEIVER, &payload))?.verdict == TC_DROP);
    ensure!(rig.counter("unsendable")? == 1);
    let mut foreign = Header::new(&Fields { cookie: COOKIE + 1, ..probe(0) }).as_bytes().to_vec();
    foreign.resize(PROBE_LEN, 0);
    ensure!(rig.egress(&shape.udp(&SENDER, &RECEIVER, &foreign))?.verdict == TC_DROP);
    ensure!(rig.counter("impersonation")? == 1);
    Ok(())
}
