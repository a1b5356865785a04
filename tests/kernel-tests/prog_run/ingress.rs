//! Tests the ingress program at a receiver: it acknowledges DATA and passes everything up.

use crate::NEEDS;
use anyhow::{Context, Result, ensure};
use atp_common::{
    maps::{Flow, PortEntry},
    wire::{Fields, Flags, Header, Kind},
};
use atp_datapath::{INGRESS, XdpMode, pacing::Backend};
use atp_tests::{
    capability::Suite,
    chain::ForeignProgram,
    packets::{LOCAL_RECEIVER, Parsed, SENDER, Shape, data_fields},
    prog_run::{EPOCH, LANE, Rig, SkBuff, TC_PASS},
};
use std::{
    process::Command,
    time::{Duration, Instant},
};

pub fn add(suite: &mut Suite) {
    suite.add("ingress__data_is_passed_up_unchanged", NEEDS, data_is_passed_up_unchanged);
    suite.add(
        "ingress__data_is_acknowledged_and_the_ack_consumed",
        NEEDS,
        data_is_acknowledged_and_the_ack_consumed,
    );
    suite.add("ingress__foreign_programs_come_later", NEEDS, foreign_programs_come_later);
    suite.add(
        "ingress__malformed_is_passed_up_and_counted",
        NEEDS,
        malformed_is_passed_up_and_counted,
    );
    suite.add("ingress__other_destinations_are_ignored", NEEDS, other_destinations_are_ignored);
    suite.add("ingress__only_the_bound_address_answers", NEEDS, only_the_bound_address_answers);
    suite.add("ingress__other_kinds_are_passed_up", NEEDS, other_kinds_are_passed_up);
}

fn data_is_passed_up_unchanged() -> Result<()> {
    let rig = Rig::new()?;
    for (arrived, shape) in (1..).zip(Shape::all()) {
        let packet = shape.atp(&SENDER, &LOCAL_RECEIVER, &Header::new(&data_fields(1)));
        let outcome = rig.run(INGRESS, &packet, SkBuff::with_mark(0xabcd))?;
        ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "{shape:?}");
        ensure!(outcome.skb.mark == 0xabcd, "{shape:?}: the mark was not restored");
        ensure!(rig.counter("data_arrived")? == arrived);
    }
    Ok(())
}

/// Other programs of both hooks end their chain for every packet, and were there first.
fn foreign_programs_come_later() -> Result<()> {
    let foreign = ForeignProgram::attach("lo")?;
    data_is_acknowledged_and_the_ack_consumed()?;
    drop(foreign);
    Ok(())
}

/// Runs the complete path on a loopback interface: the clone leaves through egress as an ACK, comes
/// back, and is consumed at ingress.
fn data_is_acknowledged_and_the_ack_consumed() -> Result<()> {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    ensure!(up.context("running `ip`")?.success());
    let mut rig = Rig::with_backend(Backend::Htb)?;
    rig.datapath.attach("lo", XdpMode::Off)?;
    let lo = nix::net::if_::if_nametoindex("lo")?;
    ensure!(rig.datapath.attached_ifindexes() == [lo].into());
    let shapes = [Shape::default(), Shape { ipv6: true, ..Shape::default() }];
    let packets = shapes.iter().flat_map(|shape| [Flags::NONE, Flags::PACKED].map(|f| (*shape, f)));
    for (slot, (shape, flags)) in (1000..).zip(packets) {
        rig.use_flow(shape.ipv6)?;
        let data = Header::new(&Fields { epoch: EPOCH, flags, ..data_fields(slot) });
        let outcome = rig.ingress(&shape.atp(&SENDER, &LOCAL_RECEIVER, &data))?;
        ensure!(outcome.verdict == TC_PASS);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !rig.delivered(shape.ipv6, slot) {
            ensure!(Instant::now() < deadline, "{shape:?}: no ACK: {:?}", rig.datapath.counters()?);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    ensure!((rig.counter("ack_sent")?, rig.counter("ack_news")?) == (4, 4));
    ensure!(rig.datapath.lanes().read_cell(LANE, EPOCH).acked_packets == 4);
    Ok(())
}

/// A receiver that is bound to one address of a host does not answer for the others.
fn only_the_bound_address_answers() -> Result<()> {
    let rig = Rig::new()?;
    let port = LOCAL_RECEIVER.port;
    let (any, any_ipv4) = ([0; 16], Flow::mapped([0; 4]));
    let (ipv4, ipv6) = (Flow::mapped(LOCAL_RECEIVER.ipv4), LOCAL_RECEIVER.ipv6());
    let (other_ipv4, other_ipv6) = (Flow::mapped([10, 0, 0, 3]), SENDER.ipv6());
    for (bound, answers_ipv4, answers_ipv6) in [
        (any, true, true),
        (any_ipv4, true, false),
        (ipv4, true, false),
        (ipv6, false, true),
        (other_ipv4, false, false),
        (other_ipv6, false, false),
    ] {
        rig.datapath.set_port(port, PortEntry::receiver(bound, PortEntry::ANY_SOCKET))?;
        for (ipv6, answers) in [(false, answers_ipv4), (true, answers_ipv6)] {
            let before = rig.counter("data_arrived")?;
            let shape = Shape { ipv6, ..Shape::default() };
            let header = Header::new(&data_fields(1));
            let outcome = rig.ingress(&shape.atp(&SENDER, &LOCAL_RECEIVER, &header))?;
            ensure!(outcome.verdict == TC_PASS);
            let answered = rig.counter("data_arrived")? > before;
            ensure!(answered == answers, "IPv6: {ipv6}, bound to {bound:?}: {answered}");
        }
    }
    Ok(())
}

fn other_destinations_are_ignored() -> Result<()> {
    let rig = Rig::new()?;
    for shape in Shape::all() {
        let packet = shape.data(&Header::new(&data_fields(1)));
        let outcome = rig.ingress(&packet)?;
        ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "{shape:?}");
    }
    ensure!((rig.counter("data_arrived")?, rig.counter("ack_failed")?) == (0, 0));
    Ok(())
}

fn malformed_is_passed_up_and_counted() -> Result<()> {
    let rig = Rig::new()?;
    let good = Header::new(&data_fields(1));
    let mut payloads = vec![Vec::new(), vec![0; 31], vec![0; 32], good.as_bytes()[..31].to_vec()];
    // Another magic, version and kind, a probe in the middle of a word, the flag of an ACK alone
    // and with others, and an index that is not below the count.
    for (at, value) in [(0, 0), (1, 0x21), (1, 0x1f), (1, 0x13), (2, 1), (2, 0x81), (18, 200)] {
        let mut bytes = good.as_bytes().to_vec();
        bytes[at] = value;
        payloads.push(bytes);
    }
    for (i, payload) in payloads.iter().enumerate() {
        for shape in Shape::all() {
            let packet = shape.udp(&SENDER, &LOCAL_RECEIVER, payload);
            let outcome = rig.ingress(&packet)?;
            ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "payload {i}");
        }
    }
    let expected = payloads.len() * Shape::all().len();
    ensure!(rig.counter("malformed")? == expected as u64, "{}", rig.counter("malformed")?);
    ensure!(rig.counter("data_arrived")? == 0);
    Ok(())
}

fn other_kinds_are_passed_up() -> Result<()> {
    let rig = Rig::new()?;
    for kind in [Kind::Ack, Kind::Receipt, Kind::Fin, Kind::FinAck, Kind::Reset] {
        let header = Header::new(&Fields { kind, ..data_fields(1) });
        let packet = Shape::default().atp(&SENDER, &LOCAL_RECEIVER, &header);
        let outcome = rig.ingress(&packet)?;
        ensure!(
            outcome.verdict == TC_PASS && Parsed::of(&outcome.packet)?.header.kind() == Ok(kind)
        );
    }
    ensure!((rig.counter("data_arrived")?, rig.counter("malformed")?) == (0, 0));
    Ok(())
}
