//! The class of `Job.send_parts`: a batch whose ids are told as the job takes its messages.

use crate::{batch::Batch, buffers::release_pending, sender::Sender, types};
use pyo3::{prelude::*, types::PyRange};
use std::{ops::Range, sync::Arc};

/// An iterator of the ids of each part.
#[pyclass(module = "atp")]
pub struct Parts {
    sender: Arc<Sender>,
    /// `None` at the end.
    batch: Option<Batch>,
}

impl Parts {
    pub fn new(sender: Arc<Sender>, batch: Batch) -> Self {
        Self { sender, batch: Some(batch) }
    }

    /// Drops the batch if the job has taken all of it.
    fn taken<'py>(&mut self, py: Python<'py>, ids: Range<u32>) -> PyResult<Bound<'py, PyRange>> {
        if self.left() == 0 {
            self.batch = None;
            release_pending(py);
        }
        types::ids(py, ids)
    }
}

#[pymethods]
impl Parts {
    /// Messages that the job has not taken.
    #[getter]
    fn left(&self) -> usize {
        self.batch.as_ref().map_or(0, Batch::left)
    }

    /// Sends what there is room for, without waiting. `None` if there is none.
    fn try_next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyRange>>> {
        let Some(batch) = &mut self.batch else { return Ok(None) };
        let ids = self.sender.try_send(py, batch)?;
        let is_answer = !ids.is_empty() || batch.left() == 0;
        is_answer.then(|| self.taken(py, ids)).transpose()
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Waits until there is room for one message at least.
    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyRange>>> {
        let Some(batch) = &mut self.batch else { return Ok(None) };
        let ids = self.sender.send_part(py, batch)?;
        self.taken(py, ids).map(Some)
    }
}
