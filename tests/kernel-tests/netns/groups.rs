//! Tests jobs of several groups on the kernel datapath: each group has its own lane, queue and
//! rate.

use anyhow::{Context, Result, ensure};
use approxlib::{Event, Group, Job, Receiver, Report, Summary};
use atp_common::{dscp, wire::Kind};
use std::{collections::BTreeMap, thread};
use testbed::{
    Daemon, Family, PORT, Pair, TIMEOUT,
    wire::{Capture, Frame},
};

crate::trials! {
    groups__each_has_a_lane_and_a_queue_v6,
    groups__a_slow_lane_delays_no_other,
}

crate::trials! {
    fn independent_of_pacing:
    groups__each_has_a_lane_and_a_queue_v4,
    groups__all_256,
    groups__of_several_windows,
}

/// Message ids by group in the order of arrival, the ends of windows, and the group of each message
/// in the order of arrival.
type Got = (BTreeMap<u8, Vec<u32>>, Vec<Summary>, Vec<u8>);

fn groups__each_has_a_lane_and_a_queue_v4() -> Result<()> {
    each_has_a_lane_and_a_queue(Family::V4)
}

fn groups__each_has_a_lane_and_a_queue_v6() -> Result<()> {
    each_has_a_lane_and_a_queue(Family::V6)
}

fn each_has_a_lane_and_a_queue(family: Family) -> Result<()> {
    const MESSAGES: u32 = 400;
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "20mbit"])?, pair.b.daemon(&[])?);
    let capture = Capture::start(&pair.b)?;
    let rates = [(2, 0.5), (5, 0.9), (9, 1.0)];
    let groups = rates.map(|(id, msr)| Group::new(id).msr(msr).messages(MESSAGES));
    let (report, (ids, ends, _)) = run(&pair, &a, &b, family, |peer, socket| {
        let mut job = Job::builder().groups(groups).control_socket(Some(socket)).connect(peer)?;
        for id in 0..MESSAGES {
            if id == MESSAGES - 1 {
                // The job announced its N, so it may end soon after the last message.
                let lanes = a.stats()?.lanes;
                ensure!(lanes.len() == 3, "a lane for each group: {lanes:?}");
            }
            for (group, _) in rates {
                job.send_in(group, &message(group, id))?;
            }
        }
        Ok(job.finish()?)
    })?;
    ensure!(report.datapath == "ebpf" && ends[0].complete, "{report:?}");
    ensure!(ids[&9].iter().copied().eq(0..MESSAGES), "the exact group came out of order");
    for group in &report.groups {
        ensure!(group.delivered >= group.needed, "{group:?}");
    }
    let frames = capture.finish()?;
    let data = |group: u8| {
        let of_group = move |frame: &&Frame| frame.header.group() == group;
        frames.iter().filter(|frame| frame.kind == Kind::Data).filter(of_group)
    };
    // NetApprox §5.2: TLR 0.5 begins in queue 4, 0.1 in queue 1; both rise as their slack is used.
    ensure!(data(2).next().is_some_and(|frame| frame.dscp == dscp::default_of_queue(4)));
    ensure!(data(5).all(|frame| frame.dscp == dscp::default_of_queue(1)));
    ensure!(
        data(9).all(|frame| (frame.dscp, frame.ecn) == (0, 2)),
        "exact: not queue 0, or not ECT(0)"
    );
    ensure!([2, 5].into_iter().flat_map(data).all(|frame| frame.dscp != 0 && frame.ecn == 0));
    Ok(())
}

/// Group 1 may lose almost nothing and has much to send at a low rate. Its backlog must not fill
/// the socket that it shares with group 0.
fn groups__a_slow_lane_delays_no_other() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "10mbit"])?, pair.b.daemon(&[])?);
    let (report, (ids, _, order)) = run(&pair, &a, &b, Family::V4, |peer, socket| {
        let groups = [Group::new(0).msr(0.5), Group::new(1).msr(0.99)];
        let mut job = Job::builder().groups(groups).control_socket(Some(socket)).connect(peer)?;
        for id in 0..2_000 {
            job.send_in(1, &message(1, id))?;
        }
        for id in 0..200 {
            job.send_in(0, &message(0, id))?;
        }
        Ok(job.finish()?)
    })?;
    ensure!(ids[&0].len() >= 100 && ids[&1].len() >= 1_980, "{:?}", report.groups);
    // Group 0 was queued after all of group 1, and needs a tenth of its time. It comes too late
    // only if the application queues for 0.6 s. That takes 40 ms at most on average on a busy
    // machine: by an exponential tail, probability e^-15.
    let before: usize = order.iter().rev().skip_while(|group| **group == 1).count();
    ensure!(before < order.len() - 500, "group 0 ended with message {before} of {}", order.len());
    Ok(())
}

fn groups__all_256() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let (report, (ids, ends, _)) = run(&pair, &a, &b, Family::V4, |peer, socket| {
        let groups = (0..=255).map(|id| Group::new(id).msr(f64::from(id) / 255.0));
        let mut job = Job::builder().groups(groups).control_socket(Some(socket)).connect(peer)?;
        for id in 0..8 {
            for group in 0..=255 {
                job.send_in(group, &message(group, id))?;
            }
        }
        Ok(job.finish()?)
    })?;
    ensure!(report.groups.len() == 256 && ends[0].groups.len() == 256 && ends[0].complete);
    ensure!(ids[&255].iter().copied().eq(0..8), "{:?}", ids[&255]);
    ensure!(a.stats()?.lanes.is_empty(), "lanes are left behind");
    Ok(())
}

fn groups__of_several_windows() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "20mbit"])?, pair.b.daemon(&[])?);
    let (report, (_, ends, _)) = run(&pair, &a, &b, Family::V4, |peer, socket| {
        let builder = Job::builder().msr(0.8).control_socket(Some(socket));
        let mut job = builder.connect(peer)?;
        for window in 0..4 {
            for id in 0..200 {
                job.send(&message(0, id))?;
            }
            let report = job.end_window()?;
            ensure!(report.complete && report.window == window, "{report:?}");
        }
        Ok(job.finish()?)
    })?;
    ensure!(report.datapath == "ebpf" && report.windows == 5, "{}", report.windows);
    ensure!(ends.len() == 5 && ends[..4].iter().all(|end| end.delivered >= 160), "{ends:?}");
    Ok(())
}

fn message(group: u8, id: u32) -> Vec<u8> {
    let mut data = vec![group; 600];
    data[..4].copy_from_slice(&id.to_be_bytes());
    data
}

/// Runs one job: the receiver in host b, `send` in host a, both with their daemons.
fn run(
    pair: &Pair,
    a: &Daemon,
    b: &Daemon,
    family: Family,
    send: impl FnOnce(std::net::SocketAddr, std::path::PathBuf) -> Result<Report> + Send,
) -> Result<(Report, Got)> {
    let address = pair.b.endpoint(family, PORT);
    let mut receiver = pair.b.namespace.enter(|| {
        let socket = Some(b.socket().to_owned());
        Ok(Receiver::builder().control_socket(socket).bind(address)?)
    })?;
    ensure!(receiver.datapath() == "ebpf");
    thread::scope(|scope| {
        let receiving = scope.spawn(|| drain(&mut receiver));
        let report = pair.a.namespace.enter(|| send(address, a.socket().to_owned()))?;
        let got = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((report, got))
    })
}

fn drain(receiver: &mut Receiver) -> Result<Got> {
    let (mut ids, mut ends, mut order) = (BTreeMap::<u8, Vec<u32>>::new(), vec![], vec![]);
    loop {
        match receiver.recv(Some(TIMEOUT))?.context("nothing came")? {
            Event::Message { group, message: id, data, .. } => {
                ensure!(data == message(group, id), "message {id} of group {group} was altered");
                ids.entry(group).or_default().push(id);
                order.push(group);
            }
            Event::Started { .. } | Event::TermsChanged { .. } => {}
            Event::WindowEnded { summary, .. } => ends.push(summary),
            Event::Finished { summary, .. } => {
                ends.push(summary);
                return Ok((ids, ends, order));
            }
        }
    }
}
