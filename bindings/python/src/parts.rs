//! The class of `Job.send_parts`: a batch whose ids are told as the job takes its messages.

use crate::stub::stub;
use crate::{batch::Batch, buffers::release_pending, errors::raise, sender::Sender, types};
use pyo3::{prelude::*, types::PyRange};
use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

#[doc = stub!(Parts)]
#[pyclass(frozen, module = "atp")]
pub struct Parts {
    sender: Arc<Sender>,
    /// `None` at the end. Locked only inside a call of the job, which serves one thread at a time.
    batch: Mutex<Option<Batch>>,
    /// Messages that the job has not taken: readable while another thread sends.
    left: AtomicUsize,
    /// The job may have ended since.
    is_over: AtomicBool,
}

/// The outcome of an attempt to send.
enum Part {
    Ids(Range<u32>),
    NoRoom,
    End,
}

impl Parts {
    pub fn new(sender: Arc<Sender>, batch: Batch) -> Self {
        let left = AtomicUsize::new(batch.left());
        Self { sender, batch: Mutex::new(Some(batch)), left, is_over: AtomicBool::new(false) }
    }

    /// Sends what there is room for.
    fn attempt(&self, py: Python<'_>) -> PyResult<Part> {
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(Part::End);
        }
        let sent = self.sender.job.with(py, |job| {
            let mut kept = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(batch) = kept.as_mut() else { return Ok(Part::End) };
            let sent = batch.try_send(job);
            let left = batch.left();
            self.left.store(left, Ordering::Relaxed);
            let ids = sent?;
            if left == 0 {
                *kept = None;
                self.is_over.store(true, Ordering::Relaxed);
            }
            Ok(if ids.is_empty() && left > 0 { Part::NoRoom } else { Part::Ids(ids) })
        })?;
        if self.left.load(Ordering::Relaxed) == 0 {
            release_pending(py);
        }
        sent.map_err(|error| raise(py, error))
    }
}

#[pymethods]
impl Parts {
    #[doc = stub!(Parts.left)]
    #[getter]
    fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    #[doc = stub!(Parts.try_next)]
    fn try_next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyRange>>> {
        match self.attempt(py)? {
            Part::Ids(ids) => types::ids(py, ids).map(Some),
            Part::NoRoom | Part::End => Ok(None),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Waits until there is room for one message at least.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyRange>>> {
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let part = self.sender.send_part(py, || {
            let part = self.attempt(py)?;
            Ok((!matches!(part, Part::NoRoom)).then_some(part))
        })?;
        match part {
            Part::Ids(ids) => types::ids(py, ids).map(Some),
            Part::NoRoom | Part::End => Ok(None),
        }
    }
}
