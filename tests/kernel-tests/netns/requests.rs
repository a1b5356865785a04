//! Tests terms and requests on the kernel datapath, through a network that loses packets.

use anyhow::{Context, Result, ensure};
use approxlib::{Event, Job, RateRequest, Receiver, Report};
use std::{thread, time::Duration};
use testbed::{
    Family, PORT, TIMEOUT,
    faults::{Injection, Trouble, wired_star},
};

crate::trials! {
    requests__are_obeyed_through_losses_v4,
    requests__are_obeyed_through_losses_v6,
}

/// The share of packets lost, each way.
const LOSS: f64 = 0.3;

fn requests__are_obeyed_through_losses_v4() -> Result<()> {
    are_obeyed(Family::V4)
}

fn requests__are_obeyed_through_losses_v6() -> Result<()> {
    are_obeyed(Family::V6)
}

/// A job without an announced end: only the receiver can end it.
fn are_obeyed(family: Family) -> Result<()> {
    let star = wired_star(2)?;
    let lossy = Trouble::loss(LOSS);
    let _injection = Injection::start(&star.router, &lossy, &lossy)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "20mbit"])?, to.daemon(&[])?);
    let address = to.endpoint(family, PORT);
    let mut receiver = to.namespace.enter(|| {
        let socket = Some(to_daemon.socket().to_owned());
        Ok(Receiver::builder().control_socket(socket).bind(address)?)
    })?;
    let send = || -> Result<Report> {
        let socket = Some(from_daemon.socket().to_owned());
        let mut job = Job::builder().msr(0.9).control_socket(socket).connect(address)?;
        while !job.progress().complete {
            job.send(&[7; 1_000])?;
            thread::sleep(Duration::from_micros(500));
        }
        Ok(job.finish()?)
    };
    let report = thread::scope(|scope| {
        let sending = scope.spawn(|| from.namespace.enter(send));
        let asked = ask(&mut receiver);
        let report = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        asked?;
        report
    })?;
    ensure!(report.datapath == "ebpf" && receiver.datapath() == "ebpf", "{}", report.datapath);
    ensure!(report.ended_by_receiver && report.requests >= 2, "{report:?}");
    ensure!(report.groups[0].needed == 0, "{:?}", report.groups);
    Ok(())
}

/// Asks for a lower rate at the start, and for the end once the sender has answered.
fn ask(receiver: &mut Receiver) -> Result<()> {
    let mut changes = 0;
    loop {
        match receiver.recv(Some(TIMEOUT))?.context("nothing came")? {
            Event::Started { run, terms, .. } => {
                ensure!(terms.groups[0].msr == 0.9, "{terms:?}");
                receiver.request_msr(&RateRequest { run, group: 0, msr: 0.25 })?;
            }
            Event::TermsChanged { run, terms, .. } => {
                ensure!(changes > 0 || terms.groups[0].msr == 0.25, "{terms:?}");
                changes += 1;
                receiver.request_end(run);
            }
            Event::Finished { summary, .. } => {
                ensure!(summary.complete && changes > 0, "{summary:?}");
                return Ok(());
            }
            Event::Message { .. } | Event::WindowEnded { .. } => {}
        }
    }
}
