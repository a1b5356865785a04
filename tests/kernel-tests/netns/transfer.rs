//! Tests jobs through the kernel datapath, from host to host.

use anyhow::{Result, ensure};
use approxlib::Report;
use atp_common::wire::{MEMBER_HEADER_LEN, PROBE_SLOTS};
use std::net::SocketAddr;
use testbed::{
    DEVICE, Daemon, Family, Host, Load, PORT, Pair, Receiving, Sending, Star, Transfer, backend,
    check_promise,
};

crate::trials! {
    transfer__v4,
    transfer__messages_of_many_packets_v6,
    transfer__everything_must_arrive,
    transfer__over_loopback,
}

crate::trials! {
    fn independent_of_pacing:
    transfer__v6,
    transfer__messages_of_many_packets_v4,
    transfer__across_a_router_v4,
    transfer__across_a_router_v6,
    transfer__one_job_after_another,
    transfer__three_senders_one_receiver,
    transfer__narrow_interface,
    transfer__to_any_address_of_the_receiver_s_host,
}

const SMALL: Load = Load::lines(5_000, 200);
/// Messages of `SMALL` that share a packet on the loopback, which takes the longest packets.
const SMALL_PER_PACKET: u64 = 8_900 / (200 + MEMBER_HEADER_LEN as u64);
/// Each message has 72 packets.
const LARGE: Load = Load::pieces(60, 100_000);

fn transfer__v4() -> Result<()> {
    on_a_cable(Family::V4, SMALL)
}

fn transfer__v6() -> Result<()> {
    on_a_cable(Family::V6, SMALL)
}

fn transfer__messages_of_many_packets_v4() -> Result<()> {
    on_a_cable(Family::V4, LARGE)
}

fn transfer__messages_of_many_packets_v6() -> Result<()> {
    on_a_cable(Family::V6, LARGE)
}

fn transfer__across_a_router_v4() -> Result<()> {
    across_a_router(Family::V4)
}

fn transfer__across_a_router_v6() -> Result<()> {
    across_a_router(Family::V6)
}

fn transfer__one_job_after_another() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    for family in [Family::V4, Family::V6, Family::V4] {
        let load = Load::lines(300, 1_000);
        job(&pair.a, &a, &pair.b, &b, family, load).run()?;
    }
    let stats = a.stats()?;
    ensure!(stats.jobs.is_empty() && stats.lanes.is_empty(), "left over: {stats:?}");
    let classes = pair.a.namespace.run(&format!("tc class show dev {DEVICE}"))?;
    ensure!(classes.is_empty() || stats.pacing != "htb", "classes are left: {classes}");
    Ok(())
}

fn transfer__everything_must_arrive() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let all = Transfer { msr: 1.0, ..job(&pair.a, &a, &pair.b, &b, Family::V4, SMALL) };
    let (_, received) = all.run()?;
    ensure!(received.messages == SMALL.messages, "only {} arrived", received.messages);
    Ok(())
}

fn transfer__three_senders_one_receiver() -> Result<()> {
    const EACH: u32 = 1_500;
    let star = Star::new(4)?;
    let [to, senders @ ..] = &star.hosts[..] else { anyhow::bail!("no hosts") };
    let to_daemon = to.daemon(&[])?;
    let daemons = senders.iter().map(|host| host.daemon(&[])).collect::<Result<Vec<_>>>()?;
    let all = Load::lines(3 * EACH, 400);
    let address = to.endpoint(Family::V4, PORT);
    let receiving = Receiving::start_at(to, &to_daemon, address, all, &["--senders", "3"])?;
    let mut sending = Vec::new();
    for (first, (host, daemon)) in (0..).step_by(EACH as usize).zip(senders.iter().zip(&daemons)) {
        let load = Load { first, ..Load::lines(EACH, 400) };
        sending.push(Sending::start(host, daemon, address, load, &["--msr", "0.9"])?);
    }
    let mut delivered = 0;
    for sending in sending {
        let report = sending.finish()?;
        let group = &report.groups[0];
        ensure!(group.needed == 1_350 && group.delivered >= group.needed, "{group:?}");
        delivered += group.delivered;
    }
    let received = receiving.finish()?;
    ensure!(received.messages >= delivered, "{} of {delivered}", received.messages);
    ensure!(u64::from(received.messages) == received.delivered, "{received:?}");
    Ok(())
}

/// The daemon runs on two interfaces. One is the loopback, which both sends and receives every
/// packet.
fn transfer__over_loopback() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.a.daemon(&["--iface", "lo", "--rate-max", "1gbit"])?;
    ensure!(daemon.stats()?.interfaces.len() == 2, "{:?}", daemon.stats()?.interfaces);
    for address in ["127.0.0.1:4747", "[::1]:4747"] {
        let address: SocketAddr = address.parse()?;
        let receiving = Receiving::start_at(&pair.a, &daemon, address, SMALL, &[])?;
        let report =
            Sending::start(&pair.a, &daemon, address, SMALL, &["--msr", "0.8"])?.finish()?;
        let received = receiving.finish()?;
        ensure!(report.datapath == "ebpf", "the datapath is {}", report.datapath);
        ensure!(received.messages >= 4_000, "{} messages", received.messages);
    }
    let counters = daemon.stats()?.counters;
    // Slow lanes get an ACK for each packet, fast lanes send probes. A job may do both.
    let acked_by_probes = counters["probe_news"] * u64::from(PROBE_SLOTS);
    let packets = 8_000 / SMALL_PER_PACKET;
    ensure!(counters["ack_news"] + acked_by_probes >= packets, "{counters:?}");
    Ok(())
}

/// Packets must fit the interface's MTU: 1,280 bytes, the least that IPv6 permits.
fn transfer__narrow_interface() -> Result<()> {
    let pair = Pair::new()?;
    for host in [&pair.a, &pair.b] {
        host.namespace.run(&format!("ip link set {DEVICE} mtu 1280"))?;
    }
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    for family in [Family::V4, Family::V6] {
        job(&pair.a, &a, &pair.b, &b, family, Load::pieces(40, 50_000)).run()?;
    }
    Ok(())
}

/// A sender takes answers from the address to which it sends, and from no other one of that host.
fn transfer__to_any_address_of_the_receiver_s_host() -> Result<()> {
    let pair = Pair::new()?;
    for (address, next_hop) in
        [("10.97.0.1", pair.b.ipv4.to_string()), ("fd97::1", pair.b.ipv6.to_string())]
    {
        pair.b.namespace.run(&format!("ip address add {address} dev lo"))?;
        pair.a.namespace.run(&format!("ip route add {address} via {next_hop}"))?;
    }
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    for (bind, to) in [
        ("0.0.0.0:4747", "10.97.0.1:4747"),
        ("[::]:4747", "10.97.0.1:4747"),
        ("[::]:4747", "[fd97::1]:4747"),
    ] {
        let receiving = Receiving::start_at(&pair.b, &b, bind.parse()?, SMALL, &[])?;
        let report =
            Sending::start(&pair.a, &a, to.parse()?, SMALL, &["--msr", "0.8"])?.finish()?;
        check_promise(&report, &receiving.finish()?, SMALL, 0.8)?;
        ensure!(report.datapath == "ebpf", "{bind}, {to}: the datapath is {}", report.datapath);
    }
    Ok(())
}

fn on_a_cable(family: Family, load: Load) -> Result<()> {
    let pair = Pair::new()?;
    through_the_kernel(&pair.a, &pair.b, family, load)
}

fn across_a_router(family: Family) -> Result<()> {
    let star = Star::new(2)?;
    through_the_kernel(&star.hosts[0], &star.hosts[1], family, SMALL)
}

fn through_the_kernel(from: &Host, to: &Host, family: Family, load: Load) -> Result<()> {
    let (from_daemon, to_daemon) = (from.daemon(&[])?, to.daemon(&[])?);
    let (report, _) = job(from, &from_daemon, to, &to_daemon, family, load).run()?;
    expect_pacing(&report, &from_daemon)?;
    expect_acks(&report, &from_daemon, &to_daemon)?;
    for host in [from, to] {
        let errors = host.checksum_errors()?;
        ensure!(errors == 0, "{errors} packets with a wrong checksum");
    }
    Ok(())
}

fn job<'a>(
    from: &'a Host,
    from_daemon: &'a Daemon,
    to: &'a Host,
    to_daemon: &'a Daemon,
    family: Family,
    load: Load,
) -> Transfer<'a> {
    Transfer { from, from_daemon, to, to_daemon, family, load, msr: 0.8 }
}

/// Checks that the job was paced by the daemon's backend, which is the one under test.
fn expect_pacing(report: &Report, daemon: &Daemon) -> Result<()> {
    let pacing = daemon.stats()?.pacing;
    ensure!(report.pacing == pacing, "report: {}, daemon: {pacing}", report.pacing);
    if let Some(backend) = backend() {
        ensure!(pacing == backend, "paced by {pacing} instead of {backend}");
    }
    Ok(())
}

/// Checks that the kernel made and consumed the ACKs, and on fast lanes the answers to probes.
fn expect_acks(report: &Report, sender: &Daemon, receiver: &Daemon) -> Result<()> {
    let (sender, receiver) = (sender.stats()?.counters, receiver.stats()?.counters);
    let both = format!("sender {sender:?}, receiver {receiver:?}, {report:?}");
    ensure!(sender["paced"] == report.packets_sent, "not all packets passed the lane: {both}");
    let recorded = receiver["data_arrived"] - receiver["ack_sent"];
    let answered = receiver["probe_answered"] >= recorded / u64::from(PROBE_SLOTS);
    ensure!(answered && receiver["probe_failed"] == 0, "packets without ACK: {both}");
    // No ACK is lost here, but the last ones may arrive after the job's end.
    let consumed =
        ["ack_news", "ack_stale", "ack_raced", "ack_unknown", "probe_news", "probe_stale"];
    let consumed: u64 = consumed.iter().map(|name| sender[*name]).sum();
    let made = receiver["ack_sent"] + receiver["probe_answered"];
    ensure!(consumed == made, "ACKs got lost: {both}");
    let few = sender["ack_news"] * 10 < receiver["ack_sent"] * 8;
    ensure!(!few, "few ACKs were new: {both}");
    for counter in ["impersonation", "unattended", "ack_forged", "malformed"] {
        ensure!(sender[counter] == 0, "{counter} at the sender: {both}");
    }
    // The library sends probes by its own clock. Two probes are too close together if the first one
    // waited for the processor before the egress hook. This is rare and harmless.
    let (too_soon, answered) = (sender["probe_too_soon"], receiver["probe_answered"]);
    ensure!(too_soon * 4 <= answered, "{too_soon} probes too soon: {both}");
    ensure!(receiver["ack_failed"] == 0 && receiver["malformed"] == 0, "at the receiver: {both}");
    Ok(())
}
