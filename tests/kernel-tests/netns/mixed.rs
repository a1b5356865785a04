//! Tests jobs between hosts with a daemon and hosts without.

use anyhow::{Context, Result, ensure};
use approxlib::{Event, Job, Receiver, Report, Summary};
use atp_common::wire::PROBE_SLOTS;
use std::net::SocketAddr;
use testbed::{Family, Host, Load, PORT, Pair, Receiving, Sending, TIMEOUT};

crate::trials! {
    mixed__kernel_sender_and_userspace_receiver,
    mixed__userspace_sender_and_kernel_receiver,
    mixed__userspace_on_both_sides,
}

const LOAD: Load = Load::lines(2_000, 500);
const NEEDED: u32 = 1_600;
/// Two messages share a packet.
const PACKETS: u64 = NEEDED as u64 / 2;

fn mixed__kernel_sender_and_userspace_receiver() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (report, messages) = receive_without_daemon(&pair.b, |to| {
        Sending::start(&pair.a, &a, to, LOAD, &["--msr", "0.8"])?.finish()
    })?;
    ensure!(report.datapath == "ebpf", "the sender's datapath is {}", report.datapath);
    check(&report, messages)?;
    let counters = a.stats()?.counters;
    // The library answers probes as well.
    let acked = counters["ack_news"] + counters["probe_news"] * u64::from(PROBE_SLOTS);
    ensure!(acked >= PACKETS, "the library acknowledged too few packets: {counters:?}");
    Ok(())
}

fn mixed__userspace_sender_and_kernel_receiver() -> Result<()> {
    let pair = Pair::new()?;
    let b = pair.b.daemon(&[])?;
    let receiving = Receiving::start(&pair.b, &b, Family::V6, LOAD)?;
    let report = send_without_daemon(&pair.a, pair.b.endpoint(Family::V6, PORT))?;
    check(&report, receiving.finish()?.messages)?;
    let counters = b.stats()?.counters;
    ensure!(counters["ack_sent"] >= PACKETS, "the kernel sent too few ACKs: {counters:?}");
    Ok(())
}

fn mixed__userspace_on_both_sides() -> Result<()> {
    let pair = Pair::new()?;
    let (report, messages) =
        receive_without_daemon(&pair.b, |to| send_without_daemon(&pair.a, to))?;
    check(&report, messages)
}

/// Receives one job in this process while `send` sends it to the given address. Counts messages.
fn receive_without_daemon(
    host: &Host,
    send: impl FnOnce(SocketAddr) -> Result<Report> + Send,
) -> Result<(Report, u32)> {
    let address = host.endpoint(Family::V4, PORT);
    let mut receiver =
        host.namespace.enter(|| Ok(Receiver::builder().control_socket(None).bind(address)?))?;
    ensure!(receiver.datapath() == "userspace");
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(address));
        let (messages, summary) = drain(&mut receiver)?;
        let report = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let messages = LOAD.count_each(messages.iter().map(Vec::as_slice))?;
        ensure!(messages == summary.delivered, "{messages} of {} counted", summary.delivered);
        Ok((report, messages))
    })
}

fn drain(receiver: &mut Receiver) -> Result<(Vec<Vec<u8>>, Summary)> {
    let mut messages = Vec::new();
    loop {
        match receiver.recv(Some(TIMEOUT))?.context("nothing came")? {
            Event::Message { data, .. } => messages.push(data),
            Event::Finished { summary, .. } => return Ok((messages, summary)),
            Event::Started { .. } | Event::TermsChanged { .. } => {}
            Event::WindowEnded { .. } => anyhow::bail!("a window of a job without any"),
        }
    }
}

fn send_without_daemon(host: &Host, to: SocketAddr) -> Result<Report> {
    let report = host.namespace.enter(|| {
        let builder = Job::builder().control_socket(None).msr(0.8).messages(LOAD.messages);
        let mut job = builder.connect(to)?;
        for number in LOAD.numbers() {
            job.send(&LOAD.message(number))?;
        }
        Ok(job.finish()?)
    })?;
    ensure!(report.datapath == "userspace", "the sender's datapath is {}", report.datapath);
    Ok(report)
}

fn check(report: &Report, messages: u32) -> Result<()> {
    let group = &report.groups[0];
    ensure!(group.needed == NEEDED && group.delivered >= NEEDED, "{group:?}");
    ensure!(messages >= group.delivered, "{messages} messages arrived, {group:?}");
    Ok(())
}
