//! Tests that the programs contain their log of packets only on request.

use crate::NEEDS;
use anyhow::{Context, Result, ensure};
use atp_common::wire::{Fields, Header};
use atp_datapath::{EGRESS, INGRESS, PacketLog, XDP};
use atp_tests::{
    capability::Suite,
    packets::{GROUP, Shape, data_fields},
    prog_run::{Rig, TC_DROP, TC_PASS},
};

pub fn add(suite: &mut Suite) {
    suite.add("packet_log__off_leaves_no_code", NEEDS, off_leaves_no_code);
    suite.add("packet_log__changes_no_verdict", NEEDS, changes_no_verdict);
}

/// The log is a function of more instructions than this, which the verifier removes.
const LOG_INSTRUCTIONS_MIN: u32 = 500;
/// Bytes of an instruction.
const INSTRUCTION_BYTES: u32 = 8;

fn off_leaves_no_code() -> Result<()> {
    let rigs = [PacketLog::Off, PacketLog::Debug, PacketLog::Trace].map(Rig::with_log);
    let [off, debug, trace] = rigs.map(|rig| rig.and_then(|rig| instructions(&rig)));
    let (off, debug, trace) = (off?, debug?, trace?);
    for (program, ((off, debug), trace)) in
        [EGRESS, INGRESS, XDP].into_iter().zip(off.into_iter().zip(debug).zip(trace))
    {
        println!("{program}: {off} instructions without the log, {debug} and {trace} with it");
        ensure!(off + LOG_INSTRUCTIONS_MIN < debug, "{program} contains its log");
        ensure!(off + LOG_INSTRUCTIONS_MIN < trace, "{program} contains its log");
    }
    Ok(())
}

/// Instructions of the programs, after the verifier removed the dead ones.
fn instructions(rig: &Rig) -> Result<[u32; 3]> {
    let ebpf = rig.datapath.ebpf();
    let mut found = [0; 3];
    for (name, found) in [EGRESS, INGRESS, XDP].into_iter().zip(&mut found) {
        let info = ebpf.program(name).context("no such program")?.info()?;
        *found = info.size_translated().context("no size")? / INSTRUCTION_BYTES;
    }
    Ok(found)
}

fn changes_no_verdict() -> Result<()> {
    for log in [PacketLog::Off, PacketLog::Debug, PacketLog::Trace] {
        let rig = Rig::with_log(log)?;
        for shape in Shape::all() {
            rig.renew_lane();
            rig.use_flow(shape.ipv6)?;
            let fields = data_fields(1);
            let packet = shape.data(&Header::new(&fields));
            ensure!(rig.egress(&packet)?.verdict == TC_PASS, "{log:?}, {shape:?}: dropped");
            let without_lane = Header::new(&Fields { group: GROUP + 1, ..fields });
            let outcome = rig.egress(&shape.data(&without_lane))?;
            ensure!(outcome.verdict == TC_DROP, "{log:?}, {shape:?}: passed");
            ensure!(rig.ingress(&packet)?.packet == packet, "{log:?}, {shape:?}: changed");
        }
        let shapes = Shape::all().len() as u64;
        ensure!(rig.counter("unsendable")? == shapes && rig.counter("paced")? == shapes);
    }
    Ok(())
}
