//! The common part of jobs and streams: one lock, the end, and the report that remains after it.

use crate::{
    forks,
    memory::{Lent, ReleaseLater, atp_bytes},
    report::{atp_report, atp_shortfall},
    sized::{Out, SizeFirst},
    status::{Failure, Outcome, atp_status::*},
    table::Table,
};
use approxlib::{Error, Job, JobBuilder, Report, Shortfall, Stream};
use std::{
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A job or a stream of approxlib.
pub trait Sending: Sized + Send + 'static {
    /// Its name in errors.
    const KIND: &'static str;

    fn open(builder: JobBuilder, peer: &str) -> Result<Self, Error>;
    fn job(&self) -> &Job;
    fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error>;
    fn send_all(&mut self, group: u8, messages: &[atp_bytes]) -> Result<Range<u32>, Error>;
    fn send_lent(&mut self, group: u8, message: Lent) -> Result<u32, Error>;
    fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error>;
}

macro_rules! sending {
    ($type:ident, $kind:literal, $open:ident, |$this:ident| $job:expr) => {
        impl Sending for $type {
            const KIND: &'static str = $kind;

            fn open(builder: JobBuilder, peer: &str) -> Result<Self, Error> {
                builder.$open(peer)
            }

            fn job(&self) -> &Job {
                let $this = self;
                $job
            }

            fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error> {
                $type::send_in(self, group, message)
            }

            fn send_all(&mut self, group: u8, messages: &[atp_bytes]) -> Result<Range<u32>, Error> {
                $type::send_all(self, group, messages)
            }

            fn send_lent(&mut self, group: u8, message: Lent) -> Result<u32, Error> {
                $type::send_owned(self, group, message, drop)
            }

            fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
                $type::set_msr(self, group, msr)
            }
        }
    };
}

sending!(Job, "job", connect, |this| this);
sending!(Stream, "stream", stream, |this| Stream::job(this));

/// A job or a stream behind a handle.
pub struct Sender<S>(Mutex<State<S>>);

struct State<S> {
    /// `None` after its end.
    sending: Option<S>,
    /// Of the job's end, or of a stream's last window.
    report: Option<Report>,
    shortfall: Option<atp_shortfall>,
}

impl<S: Sending> Sender<S> {
    /// Opens a job or stream, and returns its handle.
    pub fn open(table: &Table<Self>, builder: JobBuilder, peer: &str) -> Outcome<u64> {
        forks::count()?;
        let sending = Some(S::open(builder, peer)?);
        Ok(table.add(Self(Mutex::new(State { sending, report: None, shortfall: None }))))
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the job or stream, unless it has ended.
    pub fn with<T>(&self, work: impl FnOnce(&mut S) -> Result<T, Error>) -> Outcome<T> {
        let _later = ReleaseLater::begin();
        let mut state = self.lock();
        let done = work(state.sending.as_mut().ok_or_else(ended::<S>)?);
        done.map_err(|error| state.keep(error))
    }

    /// Ends it by `end`, which may wait, and keeps the report.
    pub fn end(
        &self,
        end: impl FnOnce(S) -> Result<Report, Error>,
        out: Option<&Out<atp_report>>,
    ) -> Outcome {
        // Other threads needn't wait for the end to learn that it has begun.
        let sending = self.lock().sending.take().ok_or_else(ended::<S>)?;
        let outcome = end(sending);
        self.lock().keep_outcome(outcome, out)
    }

    /// Keeps the report of a job that has ended without a call that waits.
    pub fn end_if<T>(
        &self,
        poll: impl FnOnce(&mut S) -> Result<Option<Report>, Error>,
        out: Option<&Out<atp_report>>,
        ended_now: T,
        not_yet: T,
    ) -> Outcome<T> {
        let mut state = self.lock();
        let Some(outcome) = poll(state.sending.as_mut().ok_or_else(ended::<S>)?).transpose() else {
            return Ok(not_yet);
        };
        let sending = state.sending.take();
        let kept = state.keep_outcome(outcome, out);
        drop(state);
        drop(sending);
        kept.map(|()| ended_now)
    }

    /// Keeps the report of a window for the functions that read reports.
    pub fn keep_report(&self, report: Report) {
        self.lock().report = Some(report);
    }

    /// Reads the report, if there is one.
    pub fn report<T>(&self, read: impl FnOnce(&Report) -> Outcome<T>) -> Outcome<T> {
        let state = self.lock();
        let kind = S::KIND;
        let none = || {
            let text = format!("the {kind} has no report: it has not ended yet");
            Failure::new(ATP_ERROR_STATE, text)
        };
        read(state.report.as_ref().ok_or_else(none)?)
    }

    pub fn shortfall(&self) -> atp_shortfall {
        self.lock().shortfall.unwrap_or_else(atp_shortfall::initial)
    }

    /// Ends it without waiting for the peer, if it has not ended.
    pub fn abandon(&self) {
        let sending = self.lock().sending.take();
        drop(sending);
    }
}

impl<S> State<S> {
    /// Keeps what is known of a job that has failed.
    fn keep(&mut self, error: Error) -> Failure {
        if let Error::Short(shortfall) = &error {
            let shortfall: &Shortfall = shortfall;
            self.shortfall = Some(shortfall.into());
            self.report = Some(shortfall.report.clone());
        }
        error.into()
    }

    fn keep_outcome(
        &mut self,
        outcome: Result<Report, Error>,
        out: Option<&Out<atp_report>>,
    ) -> Outcome {
        let report = outcome.map_err(|error| self.keep(error))?;
        if let Some(out) = out {
            out.write(&(&report).into());
        }
        self.report = Some(report);
        Ok(())
    }
}

fn ended<S: Sending>() -> Failure {
    let kind = S::KIND;
    let text = format!("the {kind} has ended: read its report, free it, and open another one");
    Failure::new(ATP_ERROR_STATE, text)
}

/// The element of a report at `index`.
pub fn element<'a, T>(all: &'a [T], index: usize, what: &str) -> Outcome<&'a T> {
    all.get(index).ok_or_else(|| {
        let text = format!("there is no {what} {index}: there are {}", all.len());
        Failure::new(ATP_ERROR_ARGUMENT, text)
    })
}
