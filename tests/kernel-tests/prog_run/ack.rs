//! Tests the ACKs that the egress program makes from marked clones.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::wire::{Ack, Fields, HEADER_LEN, Header, Kind, arrival};
use atp_tests::{
    capability::Suite,
    packets::{Parsed, RECEIVER, SENDER, Shape, data_fields},
    prog_run::{Rig, TC_DROP, TC_PASS, now_ns},
};

pub fn add(suite: &mut Suite) {
    suite.add("ack__answers_every_shape", NEEDS, answers_every_shape);
    suite.add("ack__echoes_congestion", NEEDS, echoes_congestion);
    suite.add("ack__only_data_is_answered", NEEDS, only_data_is_answered);
    suite.add("ack__checksum_is_right_for_any_header", NEEDS, checksum_is_right_for_any_header);
}

fn answers_every_shape() -> Result<()> {
    let rig = Rig::new()?;
    for (sent, shape) in Shape::all().into_iter().enumerate() {
        let data = Header::new(&data_fields(77));
        let packet = shape.data(&data);
        let before = Header::time_of(now_ns());
        let outcome = rig.egress_marked(&packet)?;
        let after = Header::time_of(now_ns());
        ensure!(outcome.verdict == TC_PASS, "{shape:?}: verdict {}", outcome.verdict);
        let ack_len = Ack::len(HEADER_LEN + shape.body);
        ensure!(outcome.packet.len() == shape.payload_offset() + ack_len, "{shape:?}: length");
        ensure!(outcome.skb.mark == 0, "{shape:?}: still marked");
        let (data_packet, ack) = (Parsed::of(&packet)?, Parsed::of(&outcome.packet)?);
        let arrived = arrival(&ack.body);
        let is_present = |at: u32| at.wrapping_sub(before) <= after.wrapping_sub(before);
        // An answer is never longer than what it answers.
        ensure!(arrived.is_some() == (shape.body >= 4) && arrived.is_none_or(is_present));
        let expected = Parsed {
            macs: (RECEIVER.mac, SENDER.mac),
            vlan: data_packet.vlan,
            traffic_class: (0, 0),
            ttl: 64,
            flow_label: data_packet.flow_label,
            options: vec![0; 4 * shape.options],
            addresses: (data_packet.addresses.1, data_packet.addresses.0),
            ports: (RECEIVER.port, SENDER.port),
            checksum: data_packet.checksum,
            header: data.into_ack(shape.ecn == 3),
            body: arrived.map_or_else(Vec::new, |at| at.to_be_bytes().to_vec()),
        };
        // The MAC addresses are exchanged like those of the hosts.
        ensure!(ack == expected, "{shape:?}: {ack:?} not {expected:?}");
        ensure!(rig.counter("ack_sent")? == sent as u64 + 1);
    }
    Ok(())
}

fn echoes_congestion() -> Result<()> {
    let rig = Rig::new()?;
    for ipv6 in [false, true] {
        for ecn in 0..4 {
            let data = Header::new(&data_fields(1));
            let shape = Shape { ipv6, ecn, dscp: 63, ..Shape::default() };
            let ack = Parsed::of(&rig.egress_marked(&shape.data(&data))?.packet)?;
            ensure!(ack.header == data.into_ack(ecn == 3), "ECN {ecn}: {:?}", ack.header);
        }
    }
    Ok(())
}

fn only_data_is_answered() -> Result<()> {
    let rig = Rig::new()?;
    for kind in [Kind::Ack, Kind::Receipt, Kind::Fin, Kind::FinAck, Kind::Reset] {
        let packet = Shape::default().data(&Header::new(&Fields { kind, ..data_fields(1) }));
        ensure!(rig.egress_marked(&packet)?.verdict == TC_DROP, "{kind:?}");
    }
    let no_atp = Shape::default().udp(&SENDER, &RECEIVER, &[0; 100]);
    ensure!(rig.egress_marked(&no_atp)?.verdict == TC_DROP);
    // Failed ACKs are counted at ingress, which makes the clones.
    ensure!((rig.counter("ack_failed")?, rig.counter("ack_sent")?) == (0, 0));
    Ok(())
}

/// One's-complement sums have two representations of zero. The checksum must be right for both.
fn checksum_is_right_for_any_header() -> Result<()> {
    let rig = Rig::new()?;
    for i in 0..600u32 {
        let fields =
            Fields { message: i.wrapping_mul(0x9e37_79b9), slot: i << 16, ..data_fields(i) };
        let shape = Shape { ipv6: i % 2 == 0, checksum: true, ..Shape::default() };
        let outcome = rig.egress_marked(&shape.data(&Header::new(&fields)))?;
        let ack = Parsed::of(&outcome.packet)?;
        ensure!(ack.checksum, "header {i} lost its checksum");
    }
    Ok(())
}
