//! Tests the counts of arrived bytes, for advice.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::{
    maps::{ArrivedLane, LINES, arrivals::ArrivalKey},
    wire::{Advice, Fields, Flags, HEADER_LEN, Header, Kind},
};
use atp_datapath::{INGRESS, WireBytes};
use atp_tests::{
    capability::Suite,
    packets::{COOKIE, GROUP, LOCAL_RECEIVER, RECEIVER, SENDER, Shape, data_fields},
    prog_run::{DSCP, Rig, SkBuff},
};

pub fn add(suite: &mut Suite) {
    suite.add("arrivals__of_lanes_and_of_all", NEEDS, of_lanes_and_of_all);
    suite.add("arrivals__of_buffers", NEEDS, of_buffers);
    suite.add("arrivals__of_approximate_queues", NEEDS, of_approximate_queues);
    suite.add("arrivals__are_not_counted_without_advice", NEEDS, are_not_counted_without_advice);
}

/// The index of the counted lane.
const LANE: u16 = 17;
const ETHERNET_LEN: usize = 14;

fn rig(ipv6: bool) -> Result<Rig> {
    let rig = Rig::new()?;
    rig.datapath.count_arrivals(true);
    rig.datapath.arrivals().add(LANE, &key(ipv6))?;
    Ok(rig)
}

fn key(ipv6: bool) -> ArrivalKey {
    let source = match ipv6 {
        true => SENDER.ipv6(),
        false => std::net::Ipv4Addr::from(SENDER.ipv4).to_ipv6_mapped().octets(),
    };
    ArrivalKey {
        source,
        cookie: COOKIE,
        source_port: SENDER.port,
        local_port: RECEIVER.port,
        group: u32::from(GROUP),
    }
}

/// The bytes that a run of ingress added to the count of the lane and to that of all bytes.
fn counted(rig: &Rig, packet: &[u8], skb: SkBuff) -> Result<(u64, u64, ArrivedLane)> {
    let before = rig.datapath.arrivals().lane(LANE);
    let of_all = counted_on_lines(rig, packet, skb)?.all;
    let after = rig.datapath.arrivals().lane(LANE);
    Ok((after.bytes - before.bytes, of_all, after))
}

/// The bytes that a run of ingress added to the counts of the interfaces.
fn counted_on_lines(rig: &Rig, packet: &[u8], skb: SkBuff) -> Result<WireBytes> {
    let sum = |field: fn(WireBytes) -> u64| {
        (0..LINES).map(|line| field(rig.datapath.arrivals().line_bytes(line))).sum::<u64>()
    };
    let look = || [sum(|line| line.all), sum(|line| line.approximate)];
    let before = look();
    rig.run(INGRESS, packet, skb)?;
    let after = look();
    Ok(WireBytes { all: after[0] - before[0], approximate: after[1] - before[1] })
}

fn wire_bytes(packet: &[u8]) -> u64 {
    Advice::wire_bytes((packet.len() - ETHERNET_LEN) as u32).into()
}

fn of_lanes_and_of_all() -> Result<()> {
    for ipv6 in [false, true] {
        let rig = rig(ipv6)?;
        let shape = Shape { ipv6, body: 1_000, ..Shape::default() };
        let none = SkBuff::with_mark(0);
        let data = |fields: Fields| shape.atp(&SENDER, &LOCAL_RECEIVER, &Header::new(&fields));
        for flags in [Flags::NONE, Flags::BACKLOGGED, Flags::NO_ACK, Flags::ORDERED] {
            let packet = data(Fields { flags, ..data_fields(1) });
            let bytes = wire_bytes(&packet);
            let (of_lane, of_all, lane) = counted(&rig, &packet, none)?;
            ensure!((of_lane, of_all) == (bytes, bytes), "{flags:?}: {of_lane} {of_all}");
            ensure!(lane.backlogged == u32::from(flags == Flags::BACKLOGGED), "{lane:?}");
            ensure!(lane.interface > 0, "{lane:?}");
        }
        // Other flows, other groups, and everything that isn't DATA.
        for fields in [
            Fields { cookie: COOKIE ^ 1, ..data_fields(3) },
            Fields { group: GROUP ^ 1, ..data_fields(4) },
            Fields { kind: Kind::Fin, ..data_fields(5) },
        ] {
            let packet = data(fields);
            let (of_lane, of_all, _) = counted(&rig, &packet, none)?;
            ensure!((of_lane, of_all) == (0, wire_bytes(&packet)), "{fields:?}: {of_all}");
        }
        // A short frame is padded.
        let short = shape.udp(&SENDER, &LOCAL_RECEIVER, &[1]);
        ensure!(ipv6 || counted(&rig, &short, none)?.1 == 84);
        rig.datapath.arrivals().remove(&key(ipv6))?;
        let (of_lane, ..) = counted(&rig, &data(data_fields(6)), none)?;
        ensure!(of_lane == 0, "a removed lane is counted");
    }
    Ok(())
}

/// A buffer counts as the packets in it, whether all are of one lane or not.
fn of_buffers() -> Result<()> {
    const SEGMENT_LEN: usize = HEADER_LEN + 68;
    let rig = rig(false)?;
    let shape = Shape::default();
    let headers_len = shape.payload_offset();
    let segment_bytes = wire_bytes(&vec![0; headers_len + SEGMENT_LEN]);
    let fields = |slot, group| Fields { slot, group, flags: Flags::NO_ACK, ..data_fields(slot) };
    let mixed = [GROUP, GROUP ^ 1, GROUP, GROUP ^ 1];
    for (groups, of_this_lane, dscp) in [([GROUP; 4], 4, DSCP), (mixed, 2, DSCP), (mixed, 2, 0)] {
        let shape = Shape { dscp, ..Shape::default() };
        let before = rig.datapath.arrivals().lane(LANE).approximate_bytes;
        let mut payload = Vec::new();
        for (slot, group) in (40..).zip(groups) {
            payload.extend_from_slice(Header::new(&fields(slot, group)).as_bytes());
            payload.resize(payload.len() + SEGMENT_LEN - HEADER_LEN, 9);
        }
        let buffer = shape.udp(&SENDER, &LOCAL_RECEIVER, &payload);
        let skb = SkBuff::with_segments(4, SEGMENT_LEN as u32);
        let (of_lane, of_all, _) = counted(&rig, &buffer, skb)?;
        let expected = (of_this_lane * segment_bytes, 4 * segment_bytes);
        ensure!((of_lane, of_all) == expected, "{of_lane} {of_all} instead of {expected:?}");
        let approximate = rig.datapath.arrivals().lane(LANE).approximate_bytes - before;
        ensure!(approximate == if dscp == DSCP { of_lane } else { 0 }, "{dscp}: {approximate}");
    }
    Ok(())
}

/// Bytes with the DSCP of an approximate queue have a count of their own, whatever they carry.
fn of_approximate_queues() -> Result<()> {
    const IPV4_PROTOCOL: usize = ETHERNET_LEN + 9;
    const IPV6_NEXT_HEADER: usize = ETHERNET_LEN + 6;
    const PROTOCOL_TCP: u8 = 6;
    for (ipv6, dscp) in [(false, 0), (false, DSCP), (true, DSCP + 1), (true, DSCP)] {
        let rig = rig(ipv6)?;
        let shape = Shape { ipv6, dscp, ..Shape::default() };
        let data = shape.atp(&SENDER, &LOCAL_RECEIVER, &Header::new(&data_fields(1)));
        let mut tcp = shape.udp(&SENDER, &LOCAL_RECEIVER, &[1; 100]);
        tcp[if ipv6 { IPV6_NEXT_HEADER } else { IPV4_PROTOCOL }] = PROTOCOL_TCP;
        for packet in [data, tcp] {
            let all = wire_bytes(&packet);
            let expected = WireBytes { all, approximate: if dscp == DSCP { all } else { 0 } };
            let found = counted_on_lines(&rig, &packet, SkBuff::with_mark(0))?;
            ensure!(found == expected, "IPv6 {ipv6}, DSCP {dscp}: {found:?} not {expected:?}");
        }
        let lane = rig.datapath.arrivals().lane(LANE);
        let approximate_bytes = if dscp == DSCP { lane.bytes } else { 0 };
        ensure!(lane.bytes > 0 && lane.approximate_bytes == approximate_bytes, "{lane:?}");
    }
    Ok(())
}

fn are_not_counted_without_advice() -> Result<()> {
    let rig = rig(false)?;
    rig.datapath.count_arrivals(false);
    let packet = Shape::default().atp(&SENDER, &LOCAL_RECEIVER, &Header::new(&data_fields(1)));
    let (of_lane, of_all, _) = counted(&rig, &packet, SkBuff::with_mark(0))?;
    ensure!((of_lane, of_all) == (0, 0));
    Ok(())
}
