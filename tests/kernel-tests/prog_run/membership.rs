//! Tests which packets may leave for a job: cookies, jobs, addresses, cgroups.

use crate::NEEDS;
use anyhow::{Context, Result, ensure};
use atp_common::{
    maps::{JOB_ACTIVE, Job},
    wire::{Fields, Header, Kind},
};
use atp_tests::{
    capability::{Need, Suite},
    packets::{COOKIE, End, JOB, RECEIVER, SENDER, Shape, data_fields},
    prog_run::{JOB_INDEX, Rig, TC_DROP, TC_PASS},
};
use std::{fs, os::unix::fs::MetadataExt};

const CGROUP_NEEDS: &[Need] = &[Need::Root, Need::EbpfObject, Need::Cgroup2];

pub fn add(suite: &mut Suite) {
    suite.add("membership__wrong_cookie_or_job_is_dropped", NEEDS, wrong_cookie_or_job_is_dropped);
    suite.add("membership__an_ended_job_is_dropped", NEEDS, an_ended_job_is_dropped);
    suite.add(
        "membership__another_address_is_unregistered",
        NEEDS,
        another_address_is_unregistered,
    );
    suite.add(
        "membership__unregistered_port_may_not_send_for_a_bound_job",
        NEEDS,
        unregistered_port_may_not_send_for_a_bound_job,
    );
    suite.add(
        "membership__unregistered_port_may_send_for_an_unbound_job",
        NEEDS,
        unregistered_port_may_send_for_an_unbound_job,
    );
    suite.add(
        "membership__unregistered_port_of_a_bound_cgroup_sends_only_for_its_job",
        CGROUP_NEEDS,
        unregistered_port_of_a_bound_cgroup_sends_only_for_its_job,
    );
    suite.add(
        "membership__a_bound_job_requires_its_cgroup",
        CGROUP_NEEDS,
        a_bound_job_requires_its_cgroup,
    );
    suite.add(
        "membership__a_bound_cgroup_requires_its_job",
        CGROUP_NEEDS,
        a_bound_cgroup_requires_its_job,
    );
    suite.add(
        "membership__sockets_forget_old_generations",
        CGROUP_NEEDS,
        sockets_forget_old_generations,
    );
}

fn data() -> Vec<u8> {
    Shape::default().data(&Header::new(&data_fields(1)))
}

fn refused(rig: &Rig, packet: &[u8], what: &str) -> Result<()> {
    let before = rig.counter("impersonation")?;
    let outcome = rig.egress(packet)?;
    ensure!(outcome.verdict == TC_DROP, "{what}: verdict {}", outcome.verdict);
    ensure!(rig.counter("impersonation")? == before + 1, "{what}: not counted");
    Ok(())
}

fn wrong_cookie_or_job_is_dropped() -> Result<()> {
    let rig = Rig::new()?;
    for shape in Shape::all() {
        rig.use_flow(shape.ipv6)?;
        for bit in [0, 7, 8, 15, 16, 23, 24, 31] {
            let cookie = Fields { cookie: COOKIE ^ 1 << bit, ..data_fields(1) };
            refused(&rig, &shape.data(&Header::new(&cookie)), "cookie")?;
            let job = Fields { job: JOB ^ 1 << bit, ..data_fields(1) };
            refused(&rig, &shape.data(&Header::new(&job)), "job")?;
            let fin = Fields { kind: Kind::Fin, ..job };
            refused(&rig, &shape.data(&Header::new(&fin)), "FIN of another job")?;
        }
    }
    ensure!(rig.counter("paced")? == 0);
    Ok(())
}

fn an_ended_job_is_dropped() -> Result<()> {
    let rig = Rig::new()?;
    rig.datapath.remove_job(JOB_INDEX, JOB, 0)?;
    refused(&rig, &data(), "ended job")
}

/// Packets of a registered port to another address belong to no flow. They count as packets of an
/// unregistered port.
fn another_address_is_unregistered() -> Result<()> {
    let rig = Rig::new()?;
    bind_to_another_cgroup(&rig)?;
    let shape = Shape::default();
    let header = Header::new(&data_fields(1));
    for i in 0..4 {
        let mut elsewhere: End = RECEIVER;
        elsewhere.ipv4[i] ^= 0x40;
        refused(&rig, &shape.atp(&SENDER, &elsewhere, &header), "another destination")?;
        let mut other: End = SENDER;
        other.ipv4[i] ^= 0x40;
        refused(&rig, &shape.atp(&other, &RECEIVER, &header), "another source")?;
    }
    let port = End { port: RECEIVER.port + 1, ..RECEIVER };
    refused(&rig, &shape.atp(&SENDER, &port, &header), "another port")?;
    rig.use_flow(true)?;
    refused(&rig, &data(), "IPv4 on a flow over IPv6")
}

/// Binds the job to a cgroup that does not contain this process.
fn bind_to_another_cgroup(rig: &Rig) -> Result<()> {
    let job = Job { cgroup: u64::MAX - 1, id: JOB, state: JOB_ACTIVE };
    rig.datapath.remove_job(JOB_INDEX, JOB, 0)?;
    Ok(rig.datapath.add_job(JOB_INDEX, &job)?)
}

/// DATA and FIN of every shape for `job` from an unregistered port.
fn from_an_unregistered_port(job: u32) -> impl Iterator<Item = Vec<u8>> {
    let unregistered = End { port: 9, ..SENDER };
    let header = move |kind| Header::new(&Fields { job, kind, ..data_fields(1) });
    let packet = move |shape: Shape, kind| shape.atp(&unregistered, &RECEIVER, &header(kind));
    [Kind::Data, Kind::Fin]
        .into_iter()
        .flat_map(move |kind| Shape::all().into_iter().map(move |shape| packet(shape, kind)))
}

fn passed_untouched(rig: &Rig, packet: &[u8], what: &str) -> Result<()> {
    let outcome = rig.egress(packet)?;
    ensure!(outcome.verdict == TC_PASS && outcome.packet == packet, "{what}");
    Ok(())
}

fn unregistered_port_may_not_send_for_a_bound_job() -> Result<()> {
    let rig = Rig::new()?;
    bind_to_another_cgroup(&rig)?;
    for packet in from_an_unregistered_port(JOB) {
        refused(&rig, &packet, "a job of another cgroup")?;
    }
    for packet in from_an_unregistered_port(JOB + 1) {
        passed_untouched(&rig, &packet, "a job that this host does not know")?;
    }
    Ok(())
}

/// A library sends this way if the daemon has no free lane for it: it then paces by itself.
fn unregistered_port_may_send_for_an_unbound_job() -> Result<()> {
    let rig = Rig::new()?;
    for packet in from_an_unregistered_port(JOB) {
        passed_untouched(&rig, &packet, "a job of no cgroup")?;
    }
    Ok(())
}

fn unregistered_port_of_a_bound_cgroup_sends_only_for_its_job() -> Result<()> {
    let rig = Rig::new()?;
    let (id, cgroup) = (JOB + 7, own_cgroup()?);
    let own = Job { cgroup, id, state: JOB_ACTIVE };
    rig.datapath.add_job(JOB_INDEX + 1, &own)?;
    for packet in from_an_unregistered_port(id) {
        passed_untouched(&rig, &packet, "the cgroup's own job")?;
    }
    for packet in from_an_unregistered_port(JOB).chain(from_an_unregistered_port(JOB + 1)) {
        refused(&rig, &packet, "another job, known or not")?;
    }
    Ok(())
}

/// The id of this process's cgroup, to which the socket of a test run belongs.
fn own_cgroup() -> Result<u64> {
    let mount = testbed::cgroup2_mount().context("no cgroup v2")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let path =
        own.lines().find_map(|line| line.strip_prefix("0::/")).context("no cgroup v2 entry")?;
    Ok(fs::metadata(mount.join(path))?.ino())
}

fn a_bound_job_requires_its_cgroup() -> Result<()> {
    let rig = Rig::new()?;
    let job = Job { cgroup: 0, id: JOB, state: JOB_ACTIVE };
    rig.datapath.add_job(JOB_INDEX, &Job { cgroup: own_cgroup()?, ..job })?;
    ensure!(rig.egress(&data())?.verdict == TC_PASS, "its own cgroup");
    rig.datapath.remove_job(JOB_INDEX, JOB, own_cgroup()?)?;
    rig.datapath.add_job(JOB_INDEX, &Job { cgroup: u64::MAX - 1, ..job })?;
    refused(&rig, &data(), "another cgroup")
}

fn a_bound_cgroup_requires_its_job() -> Result<()> {
    let rig = Rig::new()?;
    let other = Job { cgroup: own_cgroup()?, id: JOB + 7, state: JOB_ACTIVE };
    rig.datapath.add_job(JOB_INDEX + 1, &other)?;
    refused(&rig, &data(), "a job that isn't the cgroup's")
}

fn sockets_forget_old_generations() -> Result<()> {
    let rig = Rig::new()?;
    let other = Job { cgroup: own_cgroup()?, id: JOB + 7, state: JOB_ACTIVE };
    rig.datapath.bump_generation();
    ensure!(rig.egress(&data())?.verdict == TC_PASS);
    rig.datapath.add_job(JOB_INDEX + 1, &other)?;
    refused(&rig, &data(), "after the cgroup was bound")?;
    rig.datapath.remove_job(JOB_INDEX + 1, JOB + 7, own_cgroup()?)?;
    ensure!(rig.egress(&data())?.verdict == TC_PASS, "after the cgroup was unbound");
    Ok(())
}
