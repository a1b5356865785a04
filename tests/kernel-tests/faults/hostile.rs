//! Tests forged packets, replays, and processes that send for another cgroup's job.

use crate::{
    row::Row,
    runs::{LIMIT, Plan, Running, count, last_line, sender_daemon, two, wait_until_it_runs},
};
use anyhow::{Context, Result, ensure};
use approxlib::control::JobInfo;
use atp_common::wire::{Fields, FinBody, FinGroup, Flags, Kind};
use std::{
    net::{IpAddr, SocketAddrV4},
    thread,
    time::Duration,
};
use testbed::{
    Daemon, Host, Load, Receiving, Sending, Star, TestCgroup, check_promise,
    faults::wired_star,
    wait_for,
    wire::{self, Capture, Frame, link},
};

crate::trials! { if missing_for_cgroups:
    ; not emulated:
    hostile__forged_acks_and_resets,
    hostile__replays_in_the_middle_and_after_the_end,
    hostile__job_of_another_cgroup,
}

const FORGED: u32 = 500;
/// A cookie that equals a job's cookie with probability 2^-32.
const WRONG_COOKIE: u32 = 0x0bad_c0de;
/// A pause longer than a receiver keeps the state of a job that has ended.
const AFTER_LINGER: Duration = Duration::from_secs(7);

/// A third host forges packets of the receiver, with everything right but the cookie.
fn hostile__forged_acks_and_resets(row: &mut Row) -> Result<()> {
    row.set_injected(format!(
        "{FORGED} ACKs, RESETs, receipts and FIN-ACKs each, from a third host in the receiver's \
         name: right addresses, ports and job, wrong cookie"
    ));
    let star = Star::new(3)?;
    let [from, to] = two(&star)?;
    let plan = Plan::long();
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let tap = Capture::start(from)?;
    let mut job = Running::start(from, &from_daemon, to, &to_daemon, plan)?;
    wait_until_it_runs(&from_daemon)?;
    let (sender, id) = sender_of(from, &from_daemon, plan.port)?;
    let receiver = SocketAddrV4::new(to.ipv4, plan.port);
    let n = plan.load.messages;
    let receipt: Vec<u8> = [n; 3].iter().flat_map(|count| count.to_be_bytes()).collect();
    let fin = fin_body(n)?;
    star.hosts[2].namespace.enter(|| {
        for slot in 0..FORGED {
            let forged = |kind, body: &[u8]| wire::payload(&fields(id, kind, slot), body);
            let answers = [
                forged(Kind::Ack, &[]),
                forged(Kind::Reset, &[]),
                forged(Kind::Receipt, &receipt),
                forged(Kind::FinAck, &fin),
            ];
            wire::spoof_v4(receiver, sender, &answers)?;
        }
        Ok(())
    })?;
    wait_for("the forged ACKs to be counted", || {
        Ok((from_daemon.counter("ack_forged")? >= u64::from(FORGED)).then_some(()))
    })?;
    ensure!(job.sending.is_running()?, "the job was over before the attack was");
    count(row, "sender", &from_daemon, &["ack_forged", "ack_unknown"])?;
    let ended = job.end()?;
    let frames = tap.finish()?;
    for kind in [Kind::Reset, Kind::Receipt, Kind::FinAck] {
        let forged = |frame: &&Frame| frame.kind == kind && frame.header.cookie() == WRONG_COOKIE;
        let arrived = frames.iter().filter(forged).count();
        row.count(&format!("forged {kind:?} at the sender"), arrived as u64);
        ensure!(arrived == FORGED as usize, "{arrived} of {FORGED} forged {kind:?} arrived");
    }
    ended.expect_complete(row, "").map(drop)
}

/// Captured packets of a job are replayed: in its middle, at once after its end, and after the
/// receiver has dropped its state.
fn hostile__replays_in_the_middle_and_after_the_end(row: &mut Row) -> Result<()> {
    row.set_injected(format!(
        "captured DATA, FINs, ACKs, receipts and FIN-ACKs, replayed on both cables: in the middle \
         of the job, at once after its end, and {} s later",
        AFTER_LINGER.as_secs()
    ));
    let star = wired_star(2)?;
    let [from, to] = two(&star)?;
    let plan = Plan::long();
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let mut taps = Taps::start(&star)?;
    let mut job = Running::start(from, &from_daemon, to, &to_daemon, plan)?;
    wait_until_it_runs(&from_daemon)?;
    thread::sleep(Duration::from_millis(500));
    let replayed = taps.replay(&star, 1_000)?;
    wait_for("the replayed ACKs to be counted", || {
        Ok((from_daemon.counter("ack_stale")? > 500).then_some(()))
    })?;
    ensure!(job.sending.is_running()?, "the job was over before the replay was");
    row.count("replayed in the middle", replayed);
    let stale = from_daemon.counter("ack_stale")?;
    row.count("ack_stale at the sender", stale);
    let ended = job.end()?;
    let at_the_end = taps.replay(&star, usize::MAX)?;
    row.count("replayed after the end", at_the_end);
    thread::sleep(AFTER_LINGER);
    row.count("replayed after the state expired", taps.replay_all(&star)?);
    let arrived = to_daemon.counter("data_arrived")?;
    row.count("data_arrived at the receiver", arrived);
    let report = ended.expect_complete(row, "")?;
    ensure!(
        arrived > report.packets_arrived * 2,
        "{arrived} packets arrived: the replay was not there"
    );
    Ok(())
}

/// Two jobs are bound to two cgroups. A process of the second cgroup sends with the first job's id,
/// while the first job runs.
fn hostile__job_of_another_cgroup(row: &mut Row) -> Result<()> {
    row.set_injected("two jobs of two cgroups; a process of the second's names the first's id");
    let (mine, other) = (TestCgroup::new()?, TestCgroup::new()?);
    let star = Star::new(2)?;
    let [from, to] = two(&star)?;
    // The job lasts longer than the attack.
    let load = Load::pieces(22_000, 1_000);
    let plan = Plan { load, ..Plan::long() };
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let (first, second) = (create_job(&from_daemon, &mine)?, create_job(&from_daemon, &other)?);
    let sender_in = |cgroup: &TestCgroup, plan: Plan, options: &[&str]| -> Result<Sending> {
        let msr = plan.msr.to_string();
        let options = [&["--msr", &msr], options].concat();
        let to = to.endpoint(plan.family, plan.port);
        let mut command = Sending::command(from, &from_daemon, to, plan.load, &options)?;
        cgroup.adopt(&mut command)?;
        Sending::start_with(command)
    };
    let honest = Receiving::start(to, &to_daemon, plan.family, plan.load)?;
    let mut sending = sender_in(&mine, plan, &[])?;
    wait_until_it_runs(&from_daemon)?;
    impersonate(row, from, &from_daemon, to, &to_daemon, &other, first.id)?;
    ensure!(sending.is_running()?, "the honest job was over before the attack was");
    let report = sending.finish()?;
    let received = honest.finish()?;
    row.complete("first job", &report, &received);
    check_promise(&report, &received, plan.load, plan.msr)?;
    ensure!(report.job == first.id, "it sent for job {}", report.job);
    // The second job still works.
    let honest = Receiving::start(to, &to_daemon, plan.family, Plan::short().load)?;
    let short = Plan { port: plan.port, ..Plan::short() };
    let report = sender_in(&other, short, &[])?.finish()?;
    let received = honest.finish()?;
    row.complete("second job", &report, &received);
    ensure!(report.job == second.id, "it sent for job {}", report.job);
    check_promise(&report, &received, short.load, short.msr)
}

/// A process of `cgroup` sends for `job`, which belongs to another cgroup: once with the daemon,
/// once without it. None of its packets may leave the host.
fn impersonate(
    row: &mut Row,
    from: &Host,
    from_daemon: &Daemon,
    to: &Host,
    to_daemon: &Daemon,
    cgroup: &TestCgroup,
    job: u32,
) -> Result<()> {
    let plan = Plan::short();
    let address = to.endpoint(plan.family, plan.port);
    for (name, with_daemon) in
        [("impersonator with the daemon", true), ("impersonator without it", false)]
    {
        let receiving =
            Receiving::start_at(to, to_daemon, address, plan.load, &["--timeout", "2s"])?;
        let file = from.folder().join("forged");
        plan.load.write(&file)?;
        let mut command = from.atp()?;
        command.args(["send", &address.to_string(), "--json", "--timeout", "2s", "--msr", "0.8"]);
        command.args(["--job", &job.to_string(), "--file"]).arg(&file);
        if with_daemon {
            command.arg("--socket").arg(from_daemon.socket());
        }
        cgroup.adopt(&mut command)?;
        let sender = Sending::start_with(command)?.end()?;
        let got = receiving.end(LIMIT)?;
        let error = last_line(&sender.stderr);
        row.ended(name, plan.load, plan.msr, got, &error, Duration::ZERO);
        ensure!(!sender.status.success(), "it sent for another job: {}", sender.stdout);
        ensure!(got == 0, "{got} messages of the impersonator arrived");
    }
    let dropped = from_daemon.counter("impersonation")?;
    row.count("impersonation at the sender", dropped);
    ensure!(dropped > 0, "no packet was counted as impersonation");
    Ok(())
}

/// Captures at the router's ports, and the captured frames to each port's host.
struct Taps {
    taps: Vec<Capture>,
    captured: Vec<Vec<Vec<u8>>>,
}

impl Taps {
    fn start(star: &Star) -> Result<Self> {
        let tap = |port: usize| Capture::start_at(&star.router, &format!("port{port}"));
        Ok(Self { taps: (0..2).map(tap).collect::<Result<_>>()?, captured: vec![Vec::new(); 2] })
    }

    /// Replays at most `number` new frames of each port. Returns the number of replayed frames.
    fn replay(&mut self, star: &Star, number: usize) -> Result<u64> {
        let mut replayed = 0;
        for (port, tap) in self.taps.iter_mut().enumerate() {
            let to = IpAddr::V4(star.hosts[port].ipv4);
            let frames = tap.take_whole(number)?;
            let fresh = frames.into_iter().filter(|(frame, _)| frame.destination.ip() == to);
            let fresh: Vec<_> = fresh.map(|(_, bytes)| bytes).collect();
            put(star, port, &fresh)?;
            replayed += fresh.len() as u64;
            self.captured[port].extend(fresh);
        }
        Ok(replayed)
    }

    /// Replays all frames that were captured so far. Returns their number.
    fn replay_all(&self, star: &Star) -> Result<u64> {
        for (port, frames) in self.captured.iter().enumerate() {
            put(star, port, frames)?;
        }
        Ok(self.captured.iter().map(|frames| frames.len() as u64).sum())
    }
}

/// Sends frames from the router's port to its host, no faster than the receiver reads.
fn put(star: &Star, port: usize, frames: &[Vec<u8>]) -> Result<()> {
    star.router.enter(|| {
        let socket = link::sender(&format!("port{port}"))?;
        for (number, frame) in frames.iter().enumerate() {
            socket.send(frame).context("replaying a frame")?;
            if number % 64 == 63 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    })
}

/// The address and the job of the only sender of a host.
fn sender_of(from: &Host, daemon: &Daemon, to_port: u16) -> Result<(SocketAddrV4, u32)> {
    let stats = daemon.stats()?;
    let job = stats.lanes.first().context("no lane")?.job;
    let ports = from.ports_connected_to(to_port)?;
    let port = *ports.first().context("the sender's socket is not in /proc/net/udp")?;
    Ok((SocketAddrV4::new(from.ipv4, port), job))
}

fn fields(job: u32, kind: Kind, slot: u32) -> Fields {
    // These packets would end the job if they were accepted.
    let flags = if kind == Kind::FinAck { Flags::ENDED } else { Flags::NONE };
    Fields { kind, slot, flags, ..wire::data(job, WRONG_COOKIE, slot) }
}

/// The body of a FIN-ACK that claims all messages of group 0.
fn fin_body(messages: u32) -> Result<Vec<u8>> {
    let group = FinGroup { group: 0, messages, needed: messages, delivered: messages };
    let mut body = vec![0; 64];
    let len = FinBody::write(&mut body, 0, &[group]).context("a FIN's body")?;
    body.truncate(len);
    Ok(body)
}

fn create_job(daemon: &Daemon, cgroup: &TestCgroup) -> Result<JobInfo> {
    let line = format!("job create --name test --cgroup {} --json", cgroup.path().display());
    Ok(serde_json::from_str(&daemon.ask(&line)?)?)
}
