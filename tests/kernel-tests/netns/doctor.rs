//! Tests `atp-user doctor`: conflicts and coverage on one host, and probes between two hosts.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::{
    net::{SocketAddr, UdpSocket},
    process::Command,
    time::Duration,
};
use testbed::{
    DEVICE, Family, Finished, Host, Options, Pair, Process, Profile, Signal, Star, TIMEOUT,
    Testbed,
    faults::{self, Injection, Trouble},
    object,
};

crate::trials! {
    doctor__a_host_as_it_is,
    doctor__foreign_root_qdisc,
    doctor__programs_and_filters_of_others,
    doctor__coverage_with_and_without_a_daemon,
    doctor__without_privileges,
    doctor__dscps_are_kept_on_a_cable,
    doctor__a_cleared_dscp_is_named,
    doctor__strict_order_behind_the_switch,
    doctor__one_queue_shows_no_difference,
    doctor__strangers_get_no_answer,
}

const TOKEN: &str = "00c0ffee00c0ffee";
const ANSWER_PORT: u16 = 7000;

/// A finding in JSON.
#[derive(Debug, Deserialize)]
struct Finding {
    group: String,
    check: String,
    interface: Option<String>,
    outcome: String,
    detail: String,
    advice: Option<String>,
}

/// Runs `doctor`; its findings, and whether it succeeded.
fn doctor(host: &Host, line: &str) -> Result<(Vec<Finding>, bool)> {
    run(host.atp()?, line)
}

fn run(mut command: Command, line: &str) -> Result<(Vec<Finding>, bool)> {
    command.args(["doctor", "--json"]).args(line.split_whitespace());
    command.arg("--object").arg(object()?);
    parse(&Process::captured("atp-user doctor", command)?.end(TIMEOUT)?)
}

fn parse(finished: &Finished) -> Result<(Vec<Finding>, bool)> {
    let findings = serde_json::from_str(&finished.stdout)
        .with_context(|| format!("{} {}", finished.stdout, finished.stderr))?;
    Ok((findings, finished.status.success()))
}

/// The only finding of a check.
fn of<'a>(findings: &'a [Finding], group: &str, check: &str) -> Result<&'a Finding> {
    let mut own =
        findings.iter().filter(|finding| finding.group == group && finding.check == check);
    let found = own.next().with_context(|| format!("no finding {group} {check}: {findings:?}"))?;
    ensure!(own.next().is_none(), "two findings {group} {check}");
    Ok(found)
}

#[track_caller]
fn expect(findings: &[Finding], group: &str, check: &str, outcome: &str) -> Result<()> {
    let found = of(findings, group, check)?;
    ensure!(found.outcome == outcome, "{outcome} expected: {found:?}");
    Ok(())
}

/// The daemon runs here, so nothing that it needs is missing.
fn doctor__a_host_as_it_is() -> Result<()> {
    let pair = Pair::new()?;
    let (findings, is_good) = doctor(&pair.a, "")?;
    ensure!(is_good, "{findings:?}");
    for check in ["version", "TCX", "eBPF programs", "mappable arrays", "closed sockets"] {
        expect(&findings, "kernel", check, "fine")?;
    }
    for check in ["link", "MTU", "root qdisc", "programs at tc ingress", "XDP program"] {
        expect(&findings, "interface", check, "fine")?;
        ensure!(of(&findings, "interface", check)?.interface.as_deref() == Some(DEVICE));
    }
    // A daemon must still start: the doctor leaves nothing behind.
    pair.a.daemon(&[])?.stop()
}

fn doctor__foreign_root_qdisc() -> Result<()> {
    let pair = Pair::new()?;
    pair.a.namespace.run(&format!("tc qdisc add dev {DEVICE} root handle 1: htb"))?;
    pair.a.namespace.run(&format!("ip link set {DEVICE} mtu 9000"))?;
    let (findings, is_good) = doctor(&pair.a, "--iface eth0 --iface eth9")?;
    ensure!(!is_good, "{findings:?}");
    let root = of(&findings, "interface", "root qdisc")?;
    ensure!(root.outcome == "missing" && root.detail.starts_with("htb 1:"), "{root:?}");
    let advice = root.advice.as_deref().unwrap_or_default();
    ensure!(advice.contains("tc qdisc del dev eth0 root"), "{advice}");
    expect(&findings, "interface", "MTU", "degraded")?;
    let absent = findings.iter().find(|found| found.interface.as_deref() == Some("eth9"));
    ensure!(absent.is_some_and(|found| found.outcome == "missing"), "{absent:?}");
    Ok(())
}

fn doctor__programs_and_filters_of_others() -> Result<()> {
    let star = faults::wired_star(2)?;
    let program = testbed::program()?;
    let ask = || run(star.router.command(&program), "--iface port1");
    let cleared = Trouble { cleared_dscp: 1, ..Trouble::default() };
    let injection = Injection::start(&star.router, &Trouble::default(), &cleared)?;
    let (findings, is_good) = ask()?;
    ensure!(is_good, "{findings:?}");
    let found = of(&findings, "interface", "programs at tc egress")?;
    ensure!(found.outcome == "fine" && found.detail.starts_with("inject_faults"), "{found:?}");
    drop(injection);
    star.router.run("tc qdisc add dev port1 clsact")?;
    let (findings, _) = ask()?;
    expect(&findings, "interface", "tc filters", "fine")?;
    expect(&findings, "interface", "programs at tc egress", "fine")?;
    star.router.run("tc filter add dev port1 egress u32 match u32 0 0 classid 1:1")?;
    let (findings, _) = ask()?;
    let found = of(&findings, "interface", "tc filters")?;
    ensure!(found.outcome == "degraded" && found.detail.contains("clsact with filters (u32)"));
    Ok(())
}

fn doctor__coverage_with_and_without_a_daemon() -> Result<()> {
    let pair = Pair::new()?;
    for family in [Family::V4, Family::V6] {
        let to = pair.b.address(family);
        let (findings, is_good) = doctor(&pair.a, &format!("--to {to}"))?;
        ensure!(is_good, "{findings:?}");
        expect(&findings, "route", "coverage", "degraded")?;
        let (findings, is_good) = doctor(&pair.a, &format!("--iface lo --to {to}"))?;
        ensure!(!is_good, "{findings:?}");
        expect(&findings, "route", "coverage", "missing")?;
    }
    let (findings, is_good) = doctor(&pair.a, "--to 203.0.113.1")?;
    ensure!(!is_good, "{findings:?}");
    expect(&findings, "route", "coverage", "missing")?;
    let daemon = pair.a.daemon(&[])?;
    let to = pair.b.address(Family::V6);
    let (findings, is_good) = doctor(&pair.a, &format!("--to {to}"))?;
    ensure!(is_good, "{findings:?}");
    expect(&findings, "route", "coverage", "fine")?;
    for (check, program) in
        [("programs at tc ingress", "atp_ingress"), ("programs at tc egress", "atp_egress")]
    {
        let found = of(&findings, "interface", check)?;
        ensure!(found.outcome == "fine" && found.detail == program, "{found:?}");
    }
    daemon.stop()
}

/// Checks that need root are left out, and don't change the exit code.
fn doctor__without_privileges() -> Result<()> {
    let pair = Pair::new()?;
    let mut command = pair.a.atp_of_nobody()?;
    command.args(["doctor", "--json"]);
    let (findings, is_good) = parse(&Process::captured("nobody's doctor", command)?.end(TIMEOUT)?)?;
    ensure!(is_good, "{findings:?}");
    for check in ["TCX", "mappable arrays", "qdisc HTB"] {
        expect(&findings, "kernel", check, "not checked")?;
    }
    expect(&findings, "interface", "programs at tc egress", "not checked")?;
    expect(&findings, "interface", "root qdisc", "fine")
}

/// An answerer on a host, ready for probes.
fn answerer(host: &Host, family: Family) -> Result<(Process, SocketAddr)> {
    let address = host.endpoint(family, ANSWER_PORT);
    let mut command = host.atp()?;
    command.args(["doctor", "--answer", &address.to_string(), "--token", TOKEN]);
    command.args(["--answer-time", "60s"]);
    let mut process = Process::captured("the answerer", command)?;
    testbed::wait_for("the answerer to begin", || {
        ensure!(process.is_running()?, "the answerer ended: {}", process.stderr()?);
        Ok(process.stdout()?.contains(TOKEN).then_some(()))
    })?;
    Ok((process, address))
}

fn probe(from: &Host, to: &Host, family: Family, options: &str) -> Result<Vec<Finding>> {
    let (answerer, address) = answerer(to, family)?;
    let (findings, _) = doctor(from, &format!("--peer {address} --token {TOKEN} {options}"))?;
    answerer.signal(Signal::SIGTERM)?;
    Ok(findings)
}

/// The checks of DSCPs with their outcomes, queue 0 first.
fn dscps(findings: &[Finding]) -> Vec<(&str, &str)> {
    let own = findings.iter().filter(|finding| finding.check.starts_with("DSCP "));
    own.map(|finding| (finding.check.as_str(), finding.outcome.as_str())).collect()
}

fn doctor__dscps_are_kept_on_a_cable() -> Result<()> {
    let pair = Pair::new()?;
    for family in [Family::V4, Family::V6] {
        let findings = probe(&pair.a, &pair.b, family, "--probe-rate 10mbit --probe-time 100ms")?;
        let dscps = dscps(&findings);
        ensure!(
            dscps.len() == 8 && dscps.iter().all(|(_, outcome)| *outcome == "fine"),
            "{dscps:?}"
        );
        expect(&findings, "path", "ECN bits", "fine")?;
        // Nothing waits on a cable at this rate, so the order of queues can't be seen.
        let order = of(&findings, "path", "queue order")?;
        ensure!(order.outcome == "not checked", "{order:?}");
        ensure!(order.detail.contains("no difference seen"), "{order:?}");
    }
    Ok(())
}

fn doctor__a_cleared_dscp_is_named() -> Result<()> {
    let star = faults::wired_star(2)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let cleared = Trouble { cleared_dscp: 19, ..Trouble::default() };
    let injection = Injection::start(&star.router, &Trouble::default(), &cleared)?;
    for family in [Family::V4, Family::V6] {
        let findings = probe(from, to, family, "--probe-rate 10mbit --probe-time 100ms")?;
        for (check, outcome) in dscps(&findings) {
            let expected = if check == "DSCP 19 (queue 5)" { "degraded" } else { "fine" };
            ensure!(outcome == expected, "{check}: {outcome}");
        }
        let found = of(&findings, "path", "DSCP 19 (queue 5)")?;
        ensure!(found.detail.contains("10 as DSCP 0"), "{found:?}");
        expect(&findings, "path", "ECN bits", "fine")?;
    }
    ensure!(injection.counts()?["DSCP cleared"] == 20, "{:?}", injection.counts()?);
    Ok(())
}

/// Probes the order of queues at a bottleneck of 20 Mbit/s. A busy machine can be too slow to
/// overload it, and the doctor then says so.
fn overload(from: &Host, to: &Host) -> Result<Finding> {
    for _ in 0..3 {
        let mut findings = probe(from, to, Family::V4, "--probe-rate 50mbit --probe-time 400ms")?;
        let order = findings.pop().context("no finding")?;
        ensure!(order.check == "queue order", "{order:?}");
        if order.outcome != "not checked" {
            return Ok(order);
        }
    }
    anyhow::bail!("three probes didn't overload 20 Mbit/s")
}

fn doctor__strict_order_behind_the_switch() -> Result<()> {
    let testbed = Testbed::build(&Options {
        senders: 1,
        rate_bits_per_s: 20_000_000,
        nic_rate_bits_per_s: 200_000_000,
        receiver_rate_bits_per_s: None,
        profile: Profile::default(),
    })?;
    let (from, to) = (&testbed.senders()[0], testbed.receiver());
    let order = overload(from, to)?;
    ensure!(order.outcome == "fine", "{order:?}");
    ensure!(order.detail.contains("strict order seen"), "{order:?}");
    // The bottleneck was overloaded: low packets were dropped there.
    let lowest = testbed.port_counters(to)?[7];
    ensure!(lowest.dropped_packets > 0, "{lowest:?}");
    Ok(())
}

fn doctor__one_queue_shows_no_difference() -> Result<()> {
    let star = Star::new(2)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    star.shape(1, "20mbit", 50)?;
    let order = overload(from, to)?;
    ensure!(order.outcome == "degraded", "{order:?}");
    ensure!(order.detail.contains("no difference seen"), "{order:?}");
    Ok(())
}

/// Bytes without the token get no reply, and the answerer survives them.
fn doctor__strangers_get_no_answer() -> Result<()> {
    let pair = Pair::new()?;
    let (mut process, address) = answerer(&pair.b, Family::V4)?;
    let stranger = pair.a.namespace.enter(|| {
        let socket = UdpSocket::bind(pair.a.endpoint(Family::V4, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        Ok(socket)
    })?;
    let mut random = 1u32;
    for len in 0..500usize {
        let mut bytes = vec![0; len * 3];
        for byte in &mut bytes {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (random >> 24) as u8;
        }
        // Half of them begin like a question, with another token.
        let head = b"ATPD\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x01\0\0\0\0\0";
        if len % 2 == 0 && bytes.len() >= head.len() {
            bytes[..head.len()].copy_from_slice(head);
        }
        stranger.send(&bytes)?;
    }
    let reply = stranger.recv(&mut [0; 2_000]);
    ensure!(reply.is_err(), "a reply of {reply:?} bytes");
    ensure!(process.is_running()?, "the answerer ended: {}", process.stderr()?);
    let wrong = format!("--peer {address} --token 0123456789abcdef");
    let (findings, is_good) = doctor(&pair.a, &wrong)?;
    ensure!(!is_good, "{findings:?}");
    expect(&findings, "path", "answerer", "missing")?;
    let right = format!("--peer {address} --token {TOKEN} --probe-rate 10mbit --probe-time 20ms");
    let (findings, _) = doctor(&pair.a, &right)?;
    ensure!(dscps(&findings).len() == 8, "{findings:?}");
    Ok(())
}
