//! Sends the windows of one stream.

use crate::{
    error::OutboxError,
    header::{HELLO, WindowHeader},
    pack::{PackedStratum, PackedWindow},
    position::Position,
    stream::Stream,
};
use approxlib::{Error, Group, Job, JobBuilder, JobHandle, Order, Requests, WindowReport};
use std::{
    os::fd::BorrowedFd,
    thread,
    time::{Duration, Instant},
};

/// The interval of looks at the answer to a hello.
const HELLO_POLL: Duration = Duration::from_millis(5);

/// Where windows are sent, and with which options.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Host and port of an [`Inbox`](crate::Inbox).
    pub address: String,
    /// Options of the jobs. Groups, order, windows and requests are set here.
    pub options: JobBuilder,
}

/// Sends windows of one stream to a receiver, in a job of their own. Two windows at most are on
/// their way.
///
/// The caller keeps windows until they are confirmed: if this fails, another one sends them again.
#[derive(Debug)]
pub struct Outbox {
    job: Job,
    stream: Stream,
    peer: String,
    sent: u32,
    confirmed: u32,
}

/// A window that the receiving application has stored.
#[derive(Clone, Debug)]
pub struct Confirmed {
    /// Windows of this outbox that are confirmed, this one included.
    pub windows: u32,
    /// The report of the job's window.
    pub report: WindowReport,
}

impl Outbox {
    /// Asks a receiver whether it takes windows, and waits for the answer: an
    /// [`Inbox`](crate::Inbox) ends the job. Other receivers take its message, and would take
    /// windows like any messages, of which their application knows nothing.
    ///
    /// # Errors
    /// [`OutboxError::NoReceiver`] if nobody answers; [`OutboxError::NoWindows`] if it isn't an
    /// [`Inbox`](crate::Inbox) that answers within `timeout`.
    pub fn hello(peer: &Peer, timeout: Duration) -> Result<(), OutboxError> {
        let no_receiver = |source| OutboxError::NoReceiver { peer: peer.address.clone(), source };
        let options = peer.options.clone().groups([Group::new(0)]).requests(Requests::Obey);
        let mut job = options.connect(&*peer.address).map_err(no_receiver)?;
        job.send(&[HELLO]).map_err(no_receiver)?;
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            match job.try_outcome().map_err(no_receiver)? {
                Some(report) if report.ended_by_receiver => return Ok(()),
                Some(_) => break,
                None => thread::sleep(HELLO_POLL),
            }
        }
        Err(OutboxError::NoWindows { peer: peer.address.clone() })
    }

    /// Opens the job of a stream with its first window.
    ///
    /// # Errors
    /// [`OutboxError::Transport`] if the peer can't be reached at all. One that is silent makes a
    /// later call fail.
    pub fn open(peer: &Peer, stream: &Stream, first: &PackedWindow) -> Result<Self, OutboxError> {
        let header = Group::new(0).messages(first.messages_of(0));
        let strata = first.strata.iter().filter(|stratum| stratum.id > 0);
        let groups = strata.map(|stratum| group(stratum, first.header()));
        let options = peer.options.clone().groups([header]).groups(groups);
        // Order of ids: the shuffled one. MRDF would prefer short messages.
        let options = options.mrdf(false).overlap_windows(true).requests(Requests::Refuse);
        let connected = options.connect(&*peer.address);
        let job = connected.map_err(|source| transport(&peer.address, stream, source))?;
        let (stream, peer) = (stream.clone(), peer.address.clone());
        Ok(Self { job, stream, peer, sent: 0, confirmed: 0 })
    }

    /// Sends a window. Waits while the job's buffer is full, or while two windows aren't confirmed.
    ///
    /// # Errors
    /// [`OutboxError::Transport`] if the peer is gone; [`OutboxError::EndedByReceiver`].
    pub fn send(&mut self, window: &PackedWindow) -> Result<(), OutboxError> {
        self.try_send(window).map_err(|source| self.failed(source))?;
        self.sent += 1;
        Ok(())
    }

    fn try_send(&mut self, window: &PackedWindow) -> Result<(), Error> {
        if self.sent > 0 {
            self.job.set_messages(0, window.messages_of(0));
            for stratum in window.strata.iter().filter(|stratum| stratum.id > 0) {
                self.job.set_messages(stratum.id, stratum.messages.len() as u32);
                if !window.is_exact(stratum.id) {
                    self.job.set_msr(stratum.id, job_msr(stratum))?;
                }
            }
        }
        self.job.send_in(0, &window.header.to_message())?;
        for stratum in &window.strata {
            self.job.send_all(stratum.id, &stratum.messages)?;
        }
        self.job.begin_end_window()
    }

    /// The oldest window that was confirmed and not returned, without waiting.
    /// [`Outbox::changed_fd`] shows when to try again.
    ///
    /// # Errors
    /// As [`Outbox::send`].
    pub fn try_confirmed(&mut self) -> Result<Option<Confirmed>, OutboxError> {
        let report = self.job.try_window().map_err(|source| self.failed(source))?;
        Ok(report.map(|report| self.confirm(report)))
    }

    /// Waits for the oldest window that was not confirmed; `None` if there is none.
    ///
    /// # Errors
    /// As [`Outbox::send`].
    pub fn confirmed(&mut self) -> Result<Option<Confirmed>, OutboxError> {
        let report = self.job.next_window().map_err(|source| self.failed(source))?;
        Ok(report.map(|report| self.confirm(report)))
    }

    fn confirm(&mut self, report: WindowReport) -> Confirmed {
        self.confirmed += 1;
        Confirmed { windows: self.confirmed, report }
    }

    /// Windows that were sent and not confirmed.
    pub fn unconfirmed(&self) -> u32 {
        self.sent - self.confirmed
    }

    /// A descriptor for `poll`: as [`Job::changed_fd`].
    ///
    /// # Errors
    /// As [`Job::changed_fd`].
    pub fn changed_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.job.changed_fd()
    }

    /// Ends the job from another thread.
    pub fn handle(&self) -> JobHandle {
        self.job.handle()
    }

    /// Ends the job, once all windows are confirmed.
    ///
    /// # Errors
    /// As [`Outbox::send`].
    pub fn finish(mut self) -> Result<(), OutboxError> {
        while self.confirmed()?.is_some() {}
        let Self { job, stream, peer, .. } = self;
        let ended = job.finish();
        ended.map(drop).map_err(|source| transport(&peer, &stream, source))
    }

    fn failed(&self, source: Error) -> OutboxError {
        transport(&self.peer, &self.stream, source)
    }
}

impl PackedWindow {
    /// The header is a message of the exact group.
    fn messages_of(&self, id: u8) -> u32 {
        let of_id = |stratum: &&PackedStratum| stratum.id == id;
        let messages = self.strata.iter().find(of_id).map_or(0, |stratum| stratum.messages.len());
        messages as u32 + u32::from(id == 0)
    }

    fn is_exact(&self, id: u8) -> bool {
        self.header.groups.iter().any(|group| group.id == id && group.msr == 1.0)
    }

    /// Where the stream is read again once this window is confirmed.
    pub fn position(&self) -> Position {
        self.position
    }
}

fn group(stratum: &PackedStratum, header: &WindowHeader) -> Group {
    let terms = header.groups.iter().find(|group| group.id == stratum.id);
    let (name, is_exact) = terms.map_or(("", false), |group| (&*group.name, group.msr == 1.0));
    let group = Group::new(stratum.id).messages(stratum.messages.len() as u32).name(name);
    match is_exact {
        true => group,
        false => group.msr(job_msr(stratum)).order(Order::Shuffled { buffer: None }),
    }
}

/// The sampling rate at which `ceil(MSR * N)` is the needed number of messages.
fn job_msr(stratum: &PackedStratum) -> f64 {
    match stratum.needed {
        0 => 0.0,
        needed => (needed as f64 - 0.5) / stratum.messages.len() as f64,
    }
}

fn transport(peer: &str, stream: &Stream, source: Error) -> OutboxError {
    let (stream, peer) = (Box::new(stream.clone()), peer.to_owned());
    match source {
        Error::EndedByReceiver => OutboxError::EndedByReceiver { stream, peer },
        source => OutboxError::Transport { stream, peer, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_msr__needs_that_many_messages() {
        for messages in [1, 2, 3, 7, 1_000, 16_777_215] {
            for needed in [0, 1, messages / 2, messages - 1, messages] {
                let stratum = PackedStratum { id: 1, needed, messages: vec![vec![]; messages] };
                let msr = (job_msr(&stratum) * 1e9).round() as u128;
                let found = (msr * messages as u128).div_ceil(1_000_000_000);
                assert_eq!(found, needed as u128, "{needed} of {messages}");
            }
        }
    }
}
