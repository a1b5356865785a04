//! Tests jobs over link-local addresses of IPv6, which need the interface of their link.

use anyhow::{Context, Result, ensure};
use approxlib::{Job, Report};
use serde::Deserialize;
use std::{
    net::{Ipv6Addr, SocketAddr, SocketAddrV6},
    path::Path,
    process::Command,
};
use testbed::{DEVICE, Host, Load, PORT, Pair, Process, Star, TIMEOUT};

crate::trials! {
    link_local__by_every_name_of_the_interface,
    link_local__stats_show_the_interface,
    link_local__two_links_with_the_same_addresses,
    link_local__advice_can_be_followed,
    link_local__doctor,
}

/// Alternative names, one longer than an interface's own name can be.
const SHORT: &str = "eno7";
const LONG: &str = "enp0s20f0u1u2u3i4lan";
const LOAD: Load = Load::lines(20, 200);

/// A receiver's report, as far as these tests read it.
#[derive(Debug, Deserialize)]
struct Received {
    source: SocketAddr,
    refused: Refused,
}

#[derive(Debug, Deserialize)]
struct Refused {
    unwanted: u64,
}

fn index_of(host: &Host) -> Result<u32> {
    host.namespace.enter(|| Ok(nix::net::if_::if_nametoindex(DEVICE)?))
}

fn send(mut command: Command, folder: &Path, to: &str) -> Result<Command> {
    let file = folder.join("messages");
    LOAD.write(&file)?;
    command.args(["send", to, "--json", "--msr", "1", "--timeout", "20s", "--file"]).arg(file);
    Ok(command)
}

fn recv(mut command: Command, at: &str, options: &[&str]) -> Result<Process> {
    command.args(["recv", at, "--json", "--out", "/dev/null", "--timeout", "40s"]).args(options);
    let mut process = Process::captured("the receiver", command)?;
    process.wait_until_it_says("receiving")?;
    Ok(process)
}

fn received(receiver: Process) -> Result<Received> {
    let finished = receiver.success()?;
    let reports: Vec<Received> = serde_json::from_str(&finished.stdout)?;
    reports.into_iter().next().context("no report")
}

/// The daemon's programs serve such a job, and both ends name its interface.
fn link_local__by_every_name_of_the_interface() -> Result<()> {
    let pair = Pair::new()?;
    for name in [SHORT, LONG] {
        pair.a.namespace.run(&format!("ip link property add dev {DEVICE} altname {name}"))?;
    }
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let (to, index) = (pair.b.link_local()?, index_of(&pair.a)?.to_string());
    let bracketed = [DEVICE, &index, SHORT, LONG].map(|scope| format!("[{to}%{scope}]:{PORT}"));
    for to in bracketed.into_iter().chain([format!("{to}%{DEVICE}:{PORT}")]) {
        let at = format!("[{}%{DEVICE}]:{PORT}", pair.b.link_local()?);
        let socket = b.socket().to_str().context("an odd path")?;
        let receiver = recv(pair.b.atp()?, &at, &["--socket", socket])?;
        let mut sender = send(pair.a.atp()?, pair.a.folder(), &to)?;
        sender.arg("--socket").arg(a.socket());
        let sent = Process::captured("the sender", sender)?.success().context(to)?;
        let report: Report = serde_json::from_str(&sent.stdout)?;
        ensure!(report.datapath == "ebpf" && report.groups[0].delivered == 20, "{report:?}");
        let expected = (pair.a.link_local()?, index_of(&pair.b)?);
        let SocketAddr::V6(source) = received(receiver)?.source else { anyhow::bail!("IPv4") };
        ensure!((*source.ip(), source.scope_id()) == expected, "{source}");
    }
    Ok(())
}

fn link_local__stats_show_the_interface() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let to = pair.b.link_local()?;
    let _job = pair.a.namespace.enter(|| {
        let builder = Job::builder().control_socket(Some(a.socket().to_owned()));
        Ok(builder.connect(format!("[{to}%{DEVICE}]:{PORT}"))?)
    })?;
    let stats = a.stats()?;
    let identity = stats.lanes.first().and_then(|lane| lane.identity.as_ref());
    let identity = identity.context("no lane, or nothing about its socket")?;
    let index = index_of(&pair.a)?;
    let expected: SocketAddr = SocketAddrV6::new(to, PORT, 0, index).into();
    ensure!(identity.peer == expected, "{identity:?}");
    ensure!(identity.local.to_string().contains(&format!("%{index}]")), "{identity:?}");
    Ok(())
}

/// A host between two others. Both have the same address on their links, and so has the host.
fn link_local__two_links_with_the_same_addresses() -> Result<()> {
    const OWN: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const OTHER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    let star = Star::new(2)?;
    for port in ["port0", "port1"] {
        star.router.run(&format!("ip address add {OWN}/64 dev {port} nodad"))?;
    }
    for host in &star.hosts {
        host.namespace.run(&format!("ip address flush dev {DEVICE} scope link"))?;
        host.namespace.run(&format!("ip address add {OTHER}/64 dev {DEVICE} nodad"))?;
    }
    let [zero, one] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let program = testbed::program()?;
    let here = || star.router.command(&program);
    let folder = tempfile::tempdir()?;
    // Each message reaches the host on the link that the address names.
    for (host, port) in [(zero, "port0"), (one, "port1")] {
        let receiver = recv(host.atp()?, &format!("[::]:{PORT}"), &[])?;
        let sender = send(here(), folder.path(), &format!("[{OTHER}%{port}]:{PORT}"))?;
        Process::captured("the sender", sender)?.success()?;
        received(receiver)?;
    }
    // A receiver that takes one of them refuses the other.
    let from = format!("{OTHER}%port1");
    let receiver = recv(here(), &format!("[::]:{PORT}"), &["--from", &from])?;
    let to = format!("[{OWN}%{DEVICE}]:{PORT}");
    let refused = Process::captured("the sender", send(zero.atp()?, zero.folder(), &to)?)?;
    let refused = refused.end(TIMEOUT)?;
    ensure!(refused.stderr.contains("does not accept this job"), "{}", refused.stderr);
    Process::captured("the sender", send(one.atp()?, one.folder(), &to)?)?.success()?;
    let Received { source, refused } = received(receiver)?;
    let index = star.router.enter(|| Ok(nix::net::if_::if_nametoindex("port1")?))?;
    ensure!(source.to_string().starts_with(&format!("[{OTHER}%{index}]:")), "{source}");
    ensure!(refused.unwanted > 0, "{refused:?}");
    Ok(())
}

/// Each error about an address says how to write it, and that works.
fn link_local__advice_can_be_followed() -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.b.link_local()?;
    let wrong = send(pair.a.atp()?, pair.a.folder(), &format!("[{to}]:{PORT}"))?;
    let error = Process::captured("the sender", wrong)?.end(TIMEOUT)?.stderr;
    let advised = error.trim().rsplit_once("as in ").context(error.clone())?.1;
    ensure!(advised == format!("[{to}%eth0]:{PORT}"), "{error}");
    let receiver = recv(pair.b.atp()?, advised, &[])?;
    Process::captured("the sender", send(pair.a.atp()?, pair.a.folder(), advised)?)?.success()?;
    received(receiver)?;
    for (address, words) in [
        (format!("[{to}%eth9]:{PORT}"), "an interface that this host doesn't have: `ip link`"),
        (format!("[{to}%99]:{PORT}"), "an interface that this host doesn't have: `ip link`"),
        (format!("[fd00::1%eth0]:{PORT}"), "fd00::1 is not link-local"),
    ] {
        let wrong = send(pair.a.atp()?, pair.a.folder(), &address)?;
        let finished = Process::captured("the sender", wrong)?.end(TIMEOUT)?;
        ensure!(!finished.status.success(), "{address} was taken");
        ensure!(finished.stderr.trim().lines().count() == 1, "{}", finished.stderr);
        ensure!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    Ok(())
}

/// The doctor looks up the route on the link, and its answerer says what to run elsewhere.
fn link_local__doctor() -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.b.link_local()?;
    let doctor = |line: &str| {
        let mut command = pair.a.atp()?;
        command.arg("doctor").args(line.split_whitespace());
        command.arg("--object").arg(testbed::object()?);
        Process::captured("the doctor", command)?.end(TIMEOUT)
    };
    let finished = doctor(&format!("--to {to}%{DEVICE}"))?;
    ensure!(finished.stdout.contains("leave through eth0"), "{}", finished.stdout);
    let finished = doctor(&format!("--to {to}"))?;
    ensure!(finished.stderr.contains(&format!("as in {to}%eth0")), "{}", finished.stderr);
    let mut answerer = pair.b.atp()?;
    answerer.args(["doctor", "--answer", &format!("[{to}%{DEVICE}]:7000")]);
    answerer.args(["--token", "00c0ffee00c0ffee", "--answer-time", "60s"]);
    let mut answerer = Process::captured("the answerer", answerer)?;
    let advice = format!("--peer [{to}%INTERFACE-THERE]:7000 --token 00c0ffee00c0ffee");
    testbed::wait_for("the answerer to begin", || {
        ensure!(answerer.is_running()?, "the answerer ended: {}", answerer.stderr()?);
        Ok(answerer.stdout()?.contains(&advice).then_some(()))
    })?;
    let advice = advice.replace("INTERFACE-THERE", DEVICE);
    let finished = doctor(&format!("{advice} --probe-rate 10mbit --probe-time 20ms"))?;
    ensure!(finished.stdout.contains("DSCP 27 (queue 7)"), "{}", finished.stdout);
    Ok(())
}
