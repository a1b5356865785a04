//! The common part of jobs and streams: one lock, the end, and the report that remains after it.

use crate::{
    forks,
    memory::{Lent, ReleaseLater, atp_bytes},
    report::{self, atp_report, atp_shortfall},
    sized::{Out, SizeFirst},
    status::{Failure, Outcome, atp_status::*},
    table::Table,
};
use approxlib::{Error, Job, JobBuilder, JobHandle, Report, Shortfall, Stream, WindowReport};
use std::{
    ops::Range,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// A job or a stream of approxlib.
pub trait Sending: Sized + Send + 'static {
    /// Its name in errors.
    const KIND: &'static str;

    fn open(builder: JobBuilder, peer: &str) -> Result<Self, Error>;
    fn job(&self) -> &Job;
    fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error>;
    fn try_send_in(&mut self, group: u8, message: &[u8]) -> Result<Option<u32>, Error>;
    fn send_all(&mut self, group: u8, messages: &[atp_bytes]) -> Result<Range<u32>, Error>;
    fn send_lent(&mut self, group: u8, message: Lent) -> Result<u32, Error>;
    fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error>;
    fn try_outcome(&mut self) -> Result<Option<Report>, Error>;
    fn finish(self) -> Result<Report, Error>;
    fn cancel(self) -> Result<Report, Error>;
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

            fn try_send_in(&mut self, group: u8, message: &[u8]) -> Result<Option<u32>, Error> {
                $type::try_send_in(self, group, message)
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

            fn try_outcome(&mut self) -> Result<Option<Report>, Error> {
                $type::try_outcome(self)
            }

            fn finish(self) -> Result<Report, Error> {
                $type::finish(self)
            }

            fn cancel(self) -> Result<Report, Error> {
                $type::cancel(self)
            }
        }
    };
}

sending!(Job, "job", connect, |this| this);
sending!(Stream, "stream", stream, |this| Stream::job(this));

/// A job or a stream behind a handle.
pub struct Sender<S> {
    state: Mutex<State<S>>,
    /// The outcome is there, for calls that wait for one that waits for the end.
    over: Condvar,
    /// For calls that don't wait for the one that uses the state.
    handle: JobHandle,
    /// A call waits for its end, or it has ended.
    is_taken: AtomicBool,
    /// A call has canceled it.
    is_canceled: AtomicBool,
    /// It has ended.
    is_over: AtomicBool,
}

struct State<S> {
    /// `None` once `is_taken`.
    sending: Option<S>,
    /// Once `is_over`.
    outcome: Option<Outcome>,
    /// Of the job's end, or of a stream's last window.
    report: Option<Report>,
    shortfall: Option<atp_shortfall>,
}

impl<S: Sending> Sender<S> {
    /// Opens a job or stream, and returns its handle.
    pub fn open(table: &Table<Self>, builder: JobBuilder, peer: &str) -> Outcome<u64> {
        forks::count()?;
        let sending = S::open(builder, peer)?;
        let handle = sending.job().handle();
        let sending = Some(sending);
        let state = State { sending, outcome: None, report: None, shortfall: None };
        let (state, over) = (Mutex::new(state), Condvar::new());
        let [is_taken, is_canceled, is_over] = [false; 3].map(AtomicBool::new);
        Ok(table.add(Self { state, over, handle, is_taken, is_canceled, is_over }))
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the job or stream for its end.
    fn take(&self) -> Option<S> {
        let sending = self.lock().sending.take();
        self.is_taken.store(true, Ordering::Relaxed);
        sending
    }

    /// The job's or stream's handle for calls that wait for no other, also while it ends.
    pub fn handle(&self) -> &JobHandle {
        &self.handle
    }

    /// Ends the input without waiting, unless another call ends it or has ended it.
    pub fn begin_finish(&self) -> Outcome {
        if self.is_taken.load(Ordering::Relaxed) {
            return Err(ended::<S>());
        }
        self.handle.begin_finish();
        Ok(())
    }

    /// Ends it now without waiting, also while another call waits for its end.
    pub fn begin_cancel(&self) -> Outcome {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(ended::<S>());
        }
        self.is_canceled.store(true, Ordering::Release);
        self.handle.begin_cancel();
        Ok(())
    }

    /// Uses the job or stream, unless it has ended.
    pub fn with<T>(&self, work: impl FnOnce(&mut S) -> Result<T, Error>) -> Outcome<T> {
        let _later = ReleaseLater::begin();
        let mut state = self.lock();
        let done = work(state.sending.as_mut().ok_or_else(ended::<S>)?);
        done.map_err(|error| state.keep(error))
    }

    /// Ends the input, waits for the end, and keeps the report.
    pub fn finish(&self, out: Option<&Out<atp_report>>) -> Outcome {
        // Other threads needn't wait for the end to learn that it has begun.
        let sending = self.take().ok_or_else(ended::<S>)?;
        let over = Over(self);
        let outcome = sending.finish();
        // The deadline of a stream's last window ends it like a cancel.
        let was_canceled = self.is_canceled.load(Ordering::Acquire)
            && outcome.as_ref().is_ok_and(|report| report.canceled);
        self.lock().keep_outcome(outcome, out.filter(|_| !was_canceled))?;
        drop(over);
        if was_canceled {
            let text = format!("another call has canceled the {}: read its report", S::KIND);
            return Err(Failure::new(ATP_ERROR_ENDED, text));
        }
        Ok(())
    }

    /// Ends it now. A thread that waits in another call learns it first, also one that waits for
    /// the end.
    pub fn cancel(&self, out: Option<&Out<atp_report>>) -> Outcome {
        self.begin_cancel()?;
        if let Some(sending) = self.take() {
            let over = Over(self);
            let outcome = sending.cancel();
            let kept = self.lock().keep_outcome(outcome, out);
            drop(over);
            return kept;
        }
        let is_open = |state: &mut State<S>| state.outcome.is_none();
        let state = self.over.wait_while(self.lock(), is_open);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.outcome.clone().unwrap_or(Ok(()))?;
        if let (Some(out), Some(report)) = (out, &state.report) {
            out.write(&report.into());
        }
        Ok(())
    }

    /// Keeps the report of a job that has ended without a call that waits; `None` before its end.
    pub fn end_if(&self, out: Option<&Out<atp_report>>) -> Outcome<Option<()>> {
        let mut state = self.lock();
        let sending = state.sending.as_mut().ok_or_else(ended::<S>)?;
        let Some(outcome) = sending.try_outcome().transpose() else { return Ok(None) };
        let sending = state.sending.take();
        self.is_taken.store(true, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Relaxed);
        let kept = state.keep_outcome(outcome, out);
        drop(state);
        drop(sending);
        kept.map(Some)
    }

    /// Ends a window by `end`, if that gives a report, and keeps it for the functions that read
    /// reports.
    pub fn end_window(
        &self,
        end: impl FnOnce(&mut S) -> Result<Option<WindowReport>, Error>,
        out: Option<&Out<atp_report>>,
    ) -> Outcome<Option<()>> {
        let mut state = self.lock();
        let window = end(state.sending.as_mut().ok_or_else(ended::<S>)?);
        let Some(window) = window.map_err(|error| state.keep(error))? else { return Ok(None) };
        let (report, shown) = report::of_window(window);
        state.report = Some(report);
        if let Some(out) = out {
            out.write(&shown);
        }
        Ok(Some(()))
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

    /// Ends it without waiting for the peer, if it has not ended. A thread that waits in another
    /// call learns it first.
    pub fn abandon(&self) {
        self.handle.abandon();
        drop(self.take());
    }
}

/// Tells of the end, when it is dropped, the calls that wait for it: also after a panic.
struct Over<'a, S: Sending>(&'a Sender<S>);

impl<S: Sending> Drop for Over<'_, S> {
    fn drop(&mut self) {
        let fault = || Err(Failure::new(ATP_ERROR_INTERNAL, "the call that ended it has a fault"));
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.lock().outcome.get_or_insert_with(fault);
        self.0.over.notify_all();
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
        let kept = match outcome {
            Ok(report) => {
                if let Some(out) = out {
                    out.write(&(&report).into());
                }
                self.report = Some(report);
                Ok(())
            }
            Err(error) => Err(self.keep(error)),
        };
        self.outcome.insert(kept).clone()
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
