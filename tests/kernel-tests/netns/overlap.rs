//! Tests jobs of overlapping windows on the kernel datapath, through a network that loses,
//! reorders and duplicates packets.

use anyhow::{Result, ensure};
use approxlib::{Event, Job, LostIds, Receiver, Summary, WindowReport};
use std::{thread, time::Duration};
use testbed::{
    Family, PORT, TIMEOUT,
    faults::{Injection, Trouble, wired_star},
};

crate::trials! {
    overlap__windows_end_in_order_v4,
    overlap__windows_end_in_order_v6,
}

const WINDOWS: u32 = 40;
const MESSAGES: u32 = 50;

fn overlap__windows_end_in_order_v4() -> Result<()> {
    end_in_order(Family::V4)
}

fn overlap__windows_end_in_order_v6() -> Result<()> {
    end_in_order(Family::V6)
}

fn end_in_order(family: Family) -> Result<()> {
    let star = wired_star(2)?;
    let trouble = Trouble::loss(0.15);
    let _injection = Injection::start(&star.router, &trouble, &trouble)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "50mbit"])?, to.daemon(&[])?);
    let address = to.endpoint(family, PORT);
    let mut receiver = to.namespace.enter(|| {
        let socket = Some(to_daemon.socket().to_owned());
        Ok(Receiver::builder().control_socket(socket).bind(address)?)
    })?;
    let send = || -> Result<Vec<WindowReport>> {
        let socket = Some(from_daemon.socket().to_owned());
        let builder = Job::builder().msr(0.8).overlap_windows(true).name_lost(true);
        let mut job = builder.control_socket(socket).connect(address)?;
        ensure!(job.datapath() == "ebpf", "{}", job.datapath());
        let reports = send_windows(&mut job)?;
        job.finish()?;
        Ok(reports)
    };
    let (reports, summaries) = thread::scope(|scope| {
        let sending = scope.spawn(|| from.namespace.enter(send));
        let summaries = receive(&mut receiver);
        let reports = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (reports, summaries)
    });
    let (reports, summaries) = (reports?, summaries?);
    ensure!(reports.len() == WINDOWS as usize, "{} reports", reports.len());
    for (window, (report, summary)) in (0..).zip(reports.iter().zip(&summaries)) {
        ensure!(report.window == window && summary.window == window, "{report:?} {summary:?}");
        ensure!(report.complete && summary.complete, "{report:?}");
        let theirs = LostIds::Known(summary.groups[0].lost.clone());
        let ours = &report.groups[0].lost_ids;
        ensure!(*ours == theirs, "{ours:?} instead of {theirs:?}");
    }
    Ok(())
}

/// Sends windows, one ahead of the one whose report it awaits.
fn send_windows(job: &mut Job) -> Result<Vec<WindowReport>> {
    let mut reports = Vec::new();
    for window in 0..WINDOWS {
        for _ in 0..MESSAGES {
            job.send(&window.to_be_bytes().repeat(200))?;
        }
        job.begin_end_window()?;
        if window > 0 {
            reports.extend(job.next_window()?);
        }
    }
    reports.extend(job.next_window()?);
    Ok(reports)
}

/// Receives the job, and checks that each message names its window.
fn receive(receiver: &mut Receiver) -> Result<Vec<Summary>> {
    let mut summaries = Vec::new();
    loop {
        match receiver.recv(Some(TIMEOUT.max(Duration::from_secs(20))))? {
            Some(Event::Message { window, data, .. }) => {
                ensure!(data == window.to_be_bytes().repeat(200), "window {window}");
            }
            Some(Event::WindowEnded { summary, .. }) => summaries.push(summary),
            Some(Event::Finished { .. }) => return Ok(summaries),
            Some(Event::Started { .. } | Event::TermsChanged { .. }) => {}
            None => anyhow::bail!("no event, after {} windows", summaries.len()),
        }
    }
}
