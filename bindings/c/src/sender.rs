//! A job behind a handle: one lock, the end, and the report that remains after it.

use crate::{
    forks,
    memory::ReleaseLater,
    report::{self, atp_report, atp_shortfall},
    sized::{Out, SizeFirst},
    status::{Failure, Outcome, atp_status::*},
    table::Table,
};
use approxlib::{Error, Job, JobBuilder, JobHandle, Report, Shortfall, WindowReport};
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// A job behind a handle.
pub struct Sender {
    state: Mutex<State>,
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

struct State {
    /// `None` once `is_taken`.
    job: Option<Job>,
    /// Once `is_over`.
    outcome: Option<Outcome>,
    /// The report of the job's end, or of its last window.
    report: Option<Report>,
    shortfall: Option<atp_shortfall>,
}

impl Sender {
    /// Opens a job, and returns its handle.
    pub fn open(table: &Table<Self>, builder: JobBuilder, peer: &str) -> Outcome<u64> {
        forks::count()?;
        let job = builder.connect(peer)?;
        let handle = job.handle();
        let state = State { job: Some(job), outcome: None, report: None, shortfall: None };
        let (state, over) = (Mutex::new(state), Condvar::new());
        let [is_taken, is_canceled, is_over] = [false; 3].map(AtomicBool::new);
        Ok(table.add(Self { state, over, handle, is_taken, is_canceled, is_over }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the job for its end.
    fn take(&self) -> Option<Job> {
        let job = self.lock().job.take();
        self.is_taken.store(true, Ordering::Relaxed);
        job
    }

    /// The job's handle for calls that wait for no other, also while it ends.
    pub fn handle(&self) -> &JobHandle {
        &self.handle
    }

    /// Ends the input without waiting, unless another call ends it or has ended it.
    pub fn begin_finish(&self) -> Outcome {
        if self.is_taken.load(Ordering::Relaxed) {
            return Err(ended());
        }
        self.handle.begin_finish();
        Ok(())
    }

    /// Ends it now without waiting, also while another call waits for its end.
    pub fn begin_cancel(&self) -> Outcome {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(ended());
        }
        self.is_canceled.store(true, Ordering::Release);
        self.handle.begin_cancel();
        Ok(())
    }

    /// Uses the job, unless it has ended.
    pub fn with<T>(&self, work: impl FnOnce(&mut Job) -> Result<T, Error>) -> Outcome<T> {
        let _later = ReleaseLater::begin();
        let mut state = self.lock();
        let done = work(state.job.as_mut().ok_or_else(ended)?);
        done.map_err(|error| state.keep(error))
    }

    /// Ends the input, waits for the end, and keeps the report.
    pub fn finish(&self, out: Option<&Out<atp_report>>) -> Outcome {
        // Other threads needn't wait for the end to learn that it has begun.
        let job = self.take().ok_or_else(ended)?;
        let over = Over(self);
        let outcome = job.finish();
        // The deadline of the last window ends the job like a cancel.
        let was_canceled = self.is_canceled.load(Ordering::Acquire)
            && outcome.as_ref().is_ok_and(|report| report.canceled);
        self.lock().keep_outcome(outcome, out.filter(|_| !was_canceled))?;
        drop(over);
        if was_canceled {
            let text = "another call has canceled the job: read its report";
            return Err(Failure::new(ATP_ERROR_ENDED, text));
        }
        Ok(())
    }

    /// Ends it now. A thread that waits in another call learns it first, also one that waits for
    /// the end.
    pub fn cancel(&self, out: Option<&Out<atp_report>>) -> Outcome {
        self.begin_cancel()?;
        if let Some(job) = self.take() {
            let over = Over(self);
            let outcome = job.cancel();
            let kept = self.lock().keep_outcome(outcome, out);
            drop(over);
            return kept;
        }
        let is_open = |state: &mut State| state.outcome.is_none();
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
        let job = state.job.as_mut().ok_or_else(ended)?;
        let Some(outcome) = job.try_outcome().transpose() else { return Ok(None) };
        let job = state.job.take();
        self.is_taken.store(true, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Relaxed);
        let kept = state.keep_outcome(outcome, out);
        drop(state);
        drop(job);
        kept.map(Some)
    }

    /// Ends a window by `end`, if that gives a report, and keeps it for the functions that read
    /// reports.
    pub fn end_window(
        &self,
        end: impl FnOnce(&mut Job) -> Result<Option<WindowReport>, Error>,
        out: Option<&Out<atp_report>>,
    ) -> Outcome<Option<()>> {
        let mut state = self.lock();
        let window = end(state.job.as_mut().ok_or_else(ended)?);
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
        let none = || Failure::new(ATP_ERROR_STATE, "the job has no report: it has not ended yet");
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
struct Over<'a>(&'a Sender);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let fault = || Err(Failure::new(ATP_ERROR_INTERNAL, "the call that ended it has a fault"));
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.lock().outcome.get_or_insert_with(fault);
        self.0.over.notify_all();
    }
}

impl State {
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

fn ended() -> Failure {
    let text = "the job has ended: read its report, free it, and open another one";
    Failure::new(ATP_ERROR_STATE, text)
}

/// The element of a report at `index`.
pub fn element<'a, T>(all: &'a [T], index: usize, what: &str) -> Outcome<&'a T> {
    all.get(index).ok_or_else(|| {
        let text = format!("there is no {what} {index}: there are {}", all.len());
        Failure::new(ATP_ERROR_ARGUMENT, text)
    })
}
