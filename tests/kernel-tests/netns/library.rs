//! Runs jobs by the library in this process: with sizes that the command line has no option for,
//! and with any message content.

use anyhow::{Context, Result, ensure};
use approxlib::{Event, Job, JobBuilder, Receiver, Report, Summary};
use std::thread;
use testbed::{Daemon, Family, Host, PORT, TIMEOUT};

/// A job from one host to another.
#[derive(Clone, Copy)]
pub struct LibraryJob<'a> {
    pub from: (&'a Host, &'a Daemon),
    pub to: (&'a Host, &'a Daemon),
    pub family: Family,
    pub messages: u32,
    pub msr: f64,
    /// The content of each message, by its id.
    pub message: fn(u32) -> Vec<u8>,
    /// Further options.
    pub options: fn(JobBuilder) -> JobBuilder,
}

impl<'a> LibraryJob<'a> {
    /// A job of 100 messages over IPv4, all of which must arrive.
    pub fn new(from: (&'a Host, &'a Daemon), to: (&'a Host, &'a Daemon)) -> Self {
        Self {
            from,
            to,
            family: Family::V4,
            messages: 100,
            msr: 1.0,
            message: |id| id.to_be_bytes().to_vec(),
            options: |builder| builder,
        }
    }

    /// Runs the job through the kernel datapath and checks its promise.
    pub fn run(&self) -> Result<Report> {
        let Self { from: (from, from_daemon), to: (to, to_daemon), family, messages, msr, .. } =
            *self;
        let address = to.endpoint(family, PORT);
        let mut receiver = to.namespace.enter(|| {
            let socket = Some(to_daemon.socket().to_owned());
            Ok(Receiver::builder().control_socket(socket).bind(address)?)
        })?;
        ensure!(
            receiver.datapath() == "ebpf",
            "the receiver's datapath is {}",
            receiver.datapath()
        );
        let (report, summary) = thread::scope(|scope| {
            let receiving = scope.spawn(|| self.receive(&mut receiver));
            let report = from.namespace.enter(|| {
                let socket = Some(from_daemon.socket().to_owned());
                let builder = Job::builder().messages(messages).msr(msr).control_socket(socket);
                let mut job = (self.options)(builder).connect(address)?;
                for id in 0..messages {
                    job.send(&(self.message)(id))?;
                }
                Ok(job.finish()?)
            });
            let received =
                receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // If both fail, the sender's error is the cause.
            let report = report?;
            Ok::<_, anyhow::Error>((report, received?))
        })?;
        ensure!(report.datapath == "ebpf", "the sender's datapath is {}", report.datapath);
        let needed = (msr * f64::from(messages)).ceil() as u32;
        let group = &report.groups[0];
        ensure!(group.needed == needed && group.delivered >= needed, "{group:?}");
        ensure!(summary.delivered >= group.delivered, "{summary:?}, {group:?}");
        Ok(report)
    }

    /// Checks that every message arrives once and unchanged, and an exact job's messages in order.
    fn receive(&self, receiver: &mut Receiver) -> Result<Summary> {
        let mut seen = vec![false; self.messages as usize];
        let mut next = 0;
        loop {
            match receiver.recv(Some(TIMEOUT))?.context("nothing came")? {
                Event::Message { message: id, data, .. } => {
                    ensure!(data == (self.message)(id), "message {id} was altered");
                    let seen = seen.get_mut(id as usize).context("a message that was not sent")?;
                    ensure!(!std::mem::replace(seen, true), "message {id} came twice");
                    ensure!(self.msr < 1.0 || id == next, "message {id} arrived instead of {next}");
                    next += 1;
                }
                Event::Finished { summary, .. } => {
                    ensure!(summary.delivered == next, "{next} came: {summary:?}");
                    return Ok(summary);
                }
                Event::Started { .. } | Event::TermsChanged { .. } => {}
                event @ Event::WindowEnded { .. } => anyhow::bail!("{event:?}"),
            }
        }
    }
}
