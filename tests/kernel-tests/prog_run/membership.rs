//! Tests which packets may leave for a job: cookies, jobs, addresses, cgroups.

use crate::NEEDS;
use anyhow::{Context, Result, ensure};
use atp_common::{
    maps::{JOB_ACTIVE, Job},
    wire::{Fields, Flags, Header, Kind},
};
use atp_datapath::EGRESS;
use atp_tests::{
    capability::{Need, Suite},
    packets::{COOKIE, End, JOB, RECEIVER, SENDER, Shape, data_fields},
    prog_run::{JOB_INDEX, Rig, SkBuff, TC_DROP, TC_PASS},
};
use bytemuck::Zeroable;
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
    suite.add("membership__no_packet_hides_its_job", NEEDS, no_packet_hides_its_job);
    suite.add("membership__cut_headers_are_refused", NEEDS, cut_headers_are_refused);
    suite.add("membership__registered_buffers_hide_no_job", NEEDS, registered_buffers_hide_no_job);
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

/// Where the IP header begins, and the packet's UDP header behind it.
const IP: usize = 14;
const UDP_V6: usize = IP + 40;

/// A packet that names this job, from an unregistered port.
fn naming(job: u32, ipv6: bool) -> Vec<u8> {
    let unregistered = End { port: 9, ..SENDER };
    let shape = Shape { ipv6, body: 100, ..Shape::default() };
    shape.atp(&unregistered, &RECEIVER, &Header::new(&Fields { job, ..data_fields(1) }))
}

/// Puts IPv6 extension headers before the UDP header: the number and bytes of each. The first byte
/// of a header is the number of the next.
fn extended(mut packet: Vec<u8>, headers: &[(u8, [u8; 8])]) -> Vec<u8> {
    for (number, header) in headers.iter().rev() {
        let mut header = *header;
        header[0] = packet[IP + 6];
        packet[IP + 6] = *number;
        packet.splice(UDP_V6..UDP_V6, header);
    }
    let len = (packet.len() - UDP_V6) as u16;
    packet[IP + 4..IP + 6].copy_from_slice(&len.to_be_bytes());
    packet
}

const ROUTING: (u8, [u8; 8]) = (43, [0, 0, 4, 0, 0, 0, 0, 0]);
const OPTIONS: (u8, [u8; 8]) = (60, [0, 0, 1, 4, 0, 0, 0, 0]);
const FIRST_FRAGMENT: (u8, [u8; 8]) = (44, [0, 0, 0, 1, 0, 0, 0, 7]);

/// Receivers read all of these, though the programs can't pace or acknowledge them.
fn hidden(job: u32) -> Vec<(&'static str, Vec<u8>, SkBuff)> {
    let v6 = |headers: &[_]| extended(naming(job, true), headers);
    let mut fragment = naming(job, false);
    fragment[IP + 6] |= 0x20;
    let mut without_length = naming(job, true);
    without_length[UDP_V6 + 4..UDP_V6 + 6].fill(0);
    let mut two_tags = Shape { vlan: true, ..Shape::default() }.atp(
        &End { port: 9, ..SENDER },
        &RECEIVER,
        &Header::new(&Fields { job, ..data_fields(1) }),
    );
    two_tags.splice(12..12, [0x88, 0xa8, 0, 9]);
    let plain = [
        ("a routing header", v6(&[ROUTING])),
        ("hop-by-hop options", v6(&[(0, OPTIONS.1)])),
        ("destination options", v6(&[OPTIONS])),
        ("an authentication header", v6(&[(51, [0; 8])])),
        ("a first fragment of IPv6", v6(&[FIRST_FRAGMENT])),
        ("several headers", v6(&[OPTIONS, ROUTING, FIRST_FRAGMENT, OPTIONS])),
        ("a first fragment of IPv4", fragment),
        ("a UDP length of 0", without_length),
        ("two VLAN tags", two_tags),
    ];
    let plain = plain.map(|(what, packet)| (what, packet, SkBuff::zeroed()));
    let buffers = [false, true].into_iter().flat_map(|ipv6| {
        const SEGMENT_LEN: usize = 140;
        let packet = naming(job, ipv6);
        let header = packet[packet.len() - 132..].to_vec();
        (0..3).map(move |place| {
            let mut payload = vec![0; 3 * SEGMENT_LEN];
            payload[place * SEGMENT_LEN..][..header.len()].copy_from_slice(&header);
            let shape = Shape { ipv6, ..Shape::default() };
            let packet = shape.udp(&End { port: 9, ..SENDER }, &RECEIVER, &payload);
            ("a GSO buffer", packet, SkBuff::with_segments(3, SEGMENT_LEN as u32))
        })
    });
    plain.into_iter().chain(buffers).collect()
}

fn no_packet_hides_its_job() -> Result<()> {
    let rig = Rig::new()?;
    for (what, packet, skb) in hidden(JOB) {
        ensure!(rig.run(EGRESS, &packet, skb)?.verdict == TC_PASS, "{what}: without any cgroup");
    }
    bind_to_another_cgroup(&rig)?;
    for (number, (what, packet, skb)) in (1..).zip(hidden(JOB)) {
        let outcome = rig.run(EGRESS, &packet, skb)?;
        ensure!(outcome.verdict == TC_DROP, "{what} hides a job of another cgroup");
        ensure!(rig.counter("impersonation")? == number, "{what}: not counted");
    }
    for (what, packet, skb) in hidden(JOB + 1) {
        let outcome = rig.run(EGRESS, &packet, skb)?;
        ensure!(outcome.verdict == TC_PASS, "{what}: a job that this host does not know");
        ensure!(outcome.packet == packet, "{what}: changed");
    }
    Ok(())
}

/// The buffer of a registered sender between whose own packets is one of another job.
fn registered_buffers_hide_no_job() -> Result<()> {
    let rig = Rig::new()?;
    let bound = Job { cgroup: u64::MAX - 1, id: JOB + 7, state: JOB_ACTIVE };
    rig.datapath.add_job(JOB_INDEX + 1, &bound)?;
    let buffer = |middle: u32| {
        let segments = [JOB, middle, JOB].map(|job| {
            let fields = Fields { job, flags: Flags::NO_ACK, ..data_fields(1) };
            [Header::new(&fields).as_bytes(), &[7; 100][..]].concat()
        });
        let skb = SkBuff::with_segments(3, segments[0].len() as u32);
        (Shape::default().udp(&SENDER, &RECEIVER, &segments.concat()), skb)
    };
    let (packet, skb) = buffer(JOB);
    ensure!(rig.run(EGRESS, &packet, skb)?.verdict == TC_PASS, "its own packets");
    let (packet, skb) = buffer(bound.id);
    ensure!(rig.run(EGRESS, &packet, skb)?.verdict == TC_DROP, "a packet of another job");
    let counts = (rig.counter("impersonation")?, rig.counter("paced")?);
    ensure!(counts == (1, 3), "{counts:?} packets were refused and paced");
    Ok(())
}

/// A first fragment must show whose packet it is. Later ones are nothing without it.
fn cut_headers_are_refused() -> Result<()> {
    let rig = Rig::new()?;
    bind_to_another_cgroup(&rig)?;
    let mut cut = naming(JOB, false);
    cut.truncate(IP + 20 + 8 + 16);
    cut[IP + 6] |= 0x20;
    refused(&rig, &cut, "half a header in a fragment of IPv4")?;
    let mut cut = extended(naming(JOB, true), &[FIRST_FRAGMENT]);
    cut.truncate(UDP_V6 + 8 + 8);
    refused(&rig, &cut, "no header in a fragment of IPv6")?;
    refused(&rig, &extended(naming(JOB, true), &[OPTIONS; 9]), "too many headers")?;
    let mut later = naming(JOB, false);
    later[IP + 7] = 16;
    passed_untouched(&rig, &later, "a later fragment of IPv4")?;
    let later = extended(naming(JOB, true), &[(44, [0, 0, 0, 8, 0, 0, 0, 7])]);
    passed_untouched(&rig, &later, "a later fragment of IPv6")?;
    let mut short = naming(JOB, true);
    short.truncate(UDP_V6 + 8);
    passed_untouched(&rig, &short, "a datagram without a header")
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
