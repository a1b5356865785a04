//! Tests the egress program: it marks, stamps and counts DATA, and changes nothing else.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::{
    maps::{LANE_NONE, LaneControl},
    wire::{Fields, Flags, Header, Kind},
};
use atp_datapath::EGRESS;
use atp_tests::{
    capability::Suite,
    packets::{GROUP, Parsed, Shape, data_fields},
    prog_run::{DSCP, EPOCH, LANE, Outcome, Rig, SkBuff, TC_DROP, TC_PASS, control, flow, now_ns},
};

pub fn add(suite: &mut Suite) {
    suite.add("egress__data_is_marked_and_stamped", NEEDS, data_is_marked_and_stamped);
    suite.add("egress__every_ecn_survives", NEEDS, every_ecn_survives);
    suite.add("egress__checksum_of_zero_stays_zero", NEEDS, checksum_of_zero_stays_zero);
    suite.add(
        "egress__keep_leaves_the_dscp_and_allows_marks",
        NEEDS,
        keep_leaves_the_dscp_and_allows_marks,
    );
    suite.add("egress__counts_into_the_open_epoch", NEEDS, counts_into_the_open_epoch);
    suite.add("egress__a_closed_epoch_counts_nothing", NEEDS, a_closed_epoch_counts_nothing);
    suite.add("egress__data_without_a_lane_is_dropped", NEEDS, data_without_a_lane_is_dropped);
    suite.add("egress__invalid_gso_buffer_is_dropped", NEEDS, invalid_gso_buffer_is_dropped);
    suite.add("egress__other_kinds_pass_untouched", NEEDS, other_kinds_pass_untouched);
}

fn data_is_marked_and_stamped() -> Result<()> {
    let rig = Rig::new()?;
    for (paced, shape) in (1..).zip(Shape::all()) {
        rig.renew_lane();
        rig.use_flow(shape.ipv6)?;
        let sent = Header::new(&data_fields(77));
        let packet = shape.data(&sent);
        let before_ns = now_ns();
        let outcome = rig.egress(&packet)?;
        check(&shape, &packet, &outcome, DSCP)?;
        let departure_ns = outcome.skb.tstamp;
        ensure!(
            (before_ns..=now_ns()).contains(&departure_ns),
            "{shape:?}: leaves at {departure_ns}"
        );
        let mut expected = sent;
        expected.stamp(EPOCH, departure_ns);
        ensure!(Parsed::of(&outcome.packet)?.header == expected, "{shape:?}: header");
        ensure!(rig.counter("paced")? == paced);
    }
    Ok(())
}

/// Checks that the packet passed, and that only its DSCP and header changed.
fn check(shape: &Shape, sent: &[u8], outcome: &Outcome, dscp: u8) -> Result<()> {
    ensure!(outcome.verdict == TC_PASS, "{shape:?}: verdict {}", outcome.verdict);
    let (before, after) = (Parsed::of(sent)?, Parsed::of(&outcome.packet)?);
    ensure!(after.traffic_class == (dscp, shape.ecn), "{shape:?}: {:?}", after.traffic_class);
    let restored =
        Parsed { traffic_class: before.traffic_class, header: before.header, ..after.clone() };
    ensure!(restored == before, "{shape:?}: more than DSCP and header changed: {after:?}");
    ensure!(after.checksum == before.checksum, "{shape:?}: the checksum came or went");
    Ok(())
}

fn every_ecn_survives() -> Result<()> {
    let rig = Rig::new()?;
    for ipv6 in [false, true] {
        rig.use_flow(ipv6)?;
        for ecn in 0..4 {
            for dscp in [0, DSCP, 63] {
                let shape = Shape { ipv6, ecn, dscp, ..Shape::default() };
                let packet = shape.data(&Header::new(&data_fields(1)));
                check(&shape, &packet, &rig.egress(&packet)?, DSCP)?;
            }
        }
    }
    Ok(())
}

fn checksum_of_zero_stays_zero() -> Result<()> {
    let rig = Rig::new()?;
    let shape = Shape { checksum: false, body: 64, ..Shape::default() };
    let outcome = rig.egress(&shape.data(&Header::new(&data_fields(1))))?;
    let field = &outcome.packet[shape.udp_offset() + 6..][..2];
    ensure!(field == [0, 0], "{field:?}");
    Ok(())
}

fn keep_leaves_the_dscp_and_allows_marks() -> Result<()> {
    let rig = Rig::new()?;
    let keep = LaneControl { dscp: LaneControl::DSCP_KEEP, ..control() };
    rig.datapath.lanes().store_control(LANE, &keep);
    for shape in Shape::all() {
        rig.use_flow(shape.ipv6)?;
        let packet = shape.data(&Header::new(&data_fields(1)));
        // An exact lane reacts to marks. It sets ECT(0) if the application set no ECN bits.
        let expected = Shape { ecn: if shape.ecn == 0 { 2 } else { shape.ecn }, ..shape };
        check(&expected, &packet, &rig.egress(&packet)?, shape.dscp)?;
    }
    Ok(())
}

fn counts_into_the_open_epoch() -> Result<()> {
    let rig = Rig::new()?;
    let mut bytes = 0;
    for shape in Shape::all().into_iter().filter(|shape| !shape.ipv6) {
        // A packed packet counts as any other.
        let flags = if shape.body % 2 == 0 { Flags::PACKED } else { Flags::NONE };
        let packet = shape.data(&Header::new(&Fields { flags, ..data_fields(1) }));
        bytes += packet.len() as u64;
        rig.egress(&packet)?;
    }
    let cell = rig.datapath.lanes().read_cell(LANE, EPOCH);
    ensure!((cell.sent_packets, cell.sent_bytes) == (7, bytes), "{cell:?}");
    ensure!(cell.acked_packets == 0 && cell.marked_packets == 0, "{cell:?}");
    Ok(())
}

fn a_closed_epoch_counts_nothing() -> Result<()> {
    let rig = Rig::new()?;
    let next = LaneControl { epoch: u32::from(EPOCH) + 16, ..control() };
    rig.datapath.lanes().store_control(LANE, &next);
    let outcome = rig.egress(&Shape::default().data(&Header::new(&data_fields(1))))?;
    ensure!(Parsed::of(&outcome.packet)?.header.epoch() == EPOCH + 16);
    ensure!(rig.datapath.lanes().read_cell(LANE, EPOCH).sent_packets == 0);
    Ok(())
}

fn data_without_a_lane_is_dropped() -> Result<()> {
    let rig = Rig::new()?;
    let other_group = Header::new(&Fields { group: GROUP + 1, ..data_fields(1) });
    ensure!(rig.egress(&Shape::default().data(&other_group))?.verdict == TC_DROP);

    let data = Shape::default().data(&Header::new(&data_fields(1)));
    rig.datapath.lanes().store_control(LANE, &LaneControl { active: 0, ..control() });
    ensure!(rig.egress(&data)?.verdict == TC_DROP);
    rig.datapath.lanes().store_control(LANE, &control());
    ensure!(rig.egress(&data)?.verdict == TC_PASS);

    // An index beyond all lanes, as a corrupted flow could have it.
    let mut flow = flow(false);
    flow.lanes[usize::from(GROUP)] = LANE_NONE - 1;
    rig.datapath.set_flow(2, &flow)?;
    ensure!(rig.egress(&data)?.verdict == TC_DROP);
    ensure!(rig.counter("unsendable")? == 3);
    ensure!(rig.counter("paced")? == 1);
    Ok(())
}

/// The buffer's segments have no headers, and it requests an ACK for each packet.
fn invalid_gso_buffer_is_dropped() -> Result<()> {
    let rig = Rig::new()?;
    let packet = Shape { body: 1000, ..Shape::default() }.data(&Header::new(&data_fields(1)));
    ensure!(rig.run(EGRESS, &packet, SkBuff::with_segments(3, 400))?.verdict == TC_DROP);
    ensure!(rig.counter("unsendable")? == 1);
    Ok(())
}

fn other_kinds_pass_untouched() -> Result<()> {
    let rig = Rig::new()?;
    for kind in [Kind::Ack, Kind::Receipt, Kind::Fin, Kind::FinAck, Kind::Reset] {
        let header = Header::new(&Fields { kind, ..data_fields(1) });
        let packet = Shape { body: 33, ..Shape::default() }.data(&header);
        let outcome = rig.egress(&packet)?;
        ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "{kind:?}");
        ensure!(outcome.skb.tstamp == 0, "{kind:?} is paced");
    }
    ensure!(rig.counter("paced")? == 0);
    Ok(())
}
