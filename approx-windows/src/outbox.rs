//! Sends the windows of one stream.

use crate::{
    error::OutboxError, header::HELLO, outgoing::OutgoingWindow, sampling::Sampling, stream::Stream,
};
use approxlib::{
    Error, Group, Job, JobBuilder, JobHandle, Requests, ResetReason, ShortCause, WindowReport,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    os::fd::BorrowedFd,
    thread,
    time::{Duration, Instant},
};

/// The interval of looks at the answer to a hello.
const HELLO_POLL: Duration = Duration::from_millis(5);
/// An MSR that needs each of a window's messages, and whose group is approximate traffic: one of 1
/// would travel with exact traffic.
const ALL_OF_APPROXIMATE: f64 = 0.999_999_999;
/// The most messages that are given to the job in one call.
const AT_ONCE: usize = 64;

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
    /// The messages of the current window that the job has taken, its first one included.
    current: usize,
    /// Windows that were sent to their end.
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
        let no_receiver = |cause| OutboxError::NoReceiver { peer: peer.address.clone(), cause };
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

    /// Opens the job of a stream.
    ///
    /// # Errors
    /// [`OutboxError::Transport`] if the peer can't be reached at all. One that is silent makes a
    /// later call fail.
    pub fn open(peer: &Peer, stream: &Stream, sampling: &Sampling) -> Result<Self, OutboxError> {
        let groups = sampling.all().map(|(id, name, msr)| group(id, name, msr));
        let options = peer.options.clone().groups(groups);
        // Order of ids: that of the stream. MRDF would prefer short messages.
        let options = options.mrdf(false).overlap_windows(true).requests(Requests::Refuse);
        let connected = options.connect(&*peer.address);
        let job = connected.map_err(|source| transport(&peer.address, stream, source))?;
        let (stream, peer) = (stream.clone(), peer.address.clone());
        Ok(Self { job, stream, peer, current: 0, sent: 0, confirmed: 0 })
    }

    /// Sends what there is of a window. Waits while the job's buffer is full, or while two windows
    /// aren't confirmed.
    ///
    /// # Errors
    /// [`OutboxError::Transport`] if the peer is gone; [`OutboxError::EndedByReceiver`].
    pub fn send(&mut self, window: &OutgoingWindow) -> Result<(), OutboxError> {
        while !self.try_send(window)? {
            let fd = self.job.changed_fd().map_err(|source| self.failed(source))?;
            // After an interrupt it is tried again.
            let _ = poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::NONE);
        }
        Ok(())
    }

    /// Sends what there is of a window and wasn't sent, as far as there is room. `window` is the
    /// one behind those that were sent to their end. Returns whether there was room for all;
    /// [`Outbox::changed_fd`] shows when there may be more.
    ///
    /// # Errors
    /// As [`Outbox::send`].
    pub fn try_send(&mut self, window: &OutgoingWindow) -> Result<bool, OutboxError> {
        self.try_messages(window).map_err(|source| self.failed(source))
    }

    fn try_messages(&mut self, window: &OutgoingWindow) -> Result<bool, Error> {
        // The first message and the header are in the exact group.
        if self.current == 0 {
            if self.job.try_send_in(0, &window.begin.to_message())?.is_none() {
                return Ok(false);
            }
            self.current = 1;
        }
        while let Some((id, _)) = window.messages.get(self.current - 1) {
            let left = &window.messages[self.current - 1..];
            let messages = left.iter().take_while(|(of, _)| of == id).take(AT_ONCE);
            let messages: Vec<&[u8]> = messages.map(|(_, message)| &**message).collect();
            let taken = self.job.try_send_all(*id, &messages)?.len();
            self.current += taken;
            if taken < messages.len() {
                return Ok(false);
            }
        }
        let Some(end) = &window.end else { return Ok(true) };
        if self.job.try_send_in(0, &end.header.to_message())?.is_none() {
            return Ok(false);
        }
        self.job.begin_end_window()?;
        (self.sent, self.current) = (self.sent + 1, 0);
        Ok(true)
    }

    /// The oldest window that was confirmed and not returned, without waiting.
    /// [`Outbox::changed_fd`] shows when to try again.
    ///
    /// # Errors
    /// As [`Outbox::send`].
    pub fn try_confirmed(&mut self) -> Result<Option<Confirmed>, OutboxError> {
        if let Some(report) = self.job.try_window().map_err(|source| self.failed(source))? {
            return Ok(Some(self.confirm(report)));
        }
        // The job may fail while no window awaits its end. This also clears `changed_fd`.
        match self.job.try_outcome().map_err(|source| self.failed(source))? {
            None => Ok(None),
            Some(_) => Err(self.failed(Error::EndedByReceiver)),
        }
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

    /// Windows that were sent to their end and not confirmed.
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

fn group(id: u8, name: &str, msr: f64) -> Group {
    let group = Group::new(id).name(name);
    match msr {
        0.0 | 1.0 => group.msr(msr),
        _ => group.msr(ALL_OF_APPROXIMATE),
    }
}

fn transport(peer: &str, stream: &Stream, source: Error) -> OutboxError {
    let (stream, peer) = (Box::new(stream.clone()), peer.to_owned());
    // An inbox that refuses a run forgets it.
    let is_refused = match &source {
        Error::EndedByReceiver => true,
        Error::Short(short) => short.cause == ShortCause::Refused(Some(ResetReason::Forgotten)),
        _ => false,
    };
    match is_refused {
        true => OutboxError::EndedByReceiver { stream, peer },
        false => OutboxError::Transport { stream, peer, cause: source },
    }
}
