//! The class `Job`.

use crate::{
    address,
    arguments::{self, Copied, Group},
    buffers::release_pending,
    errors::raise,
    exceptions::{is_own, timed_out},
    options,
    parts::Parts,
    sender::Sender,
    stub::stub,
    types, wait,
};
use approxlib::{Error, WindowReport};
use pyo3::{
    exceptions::PyException,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyRange, PyType},
};
use std::{
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long an interrupted `with` block waits for the receiver to learn of the end. The job goes on
/// telling it until it is dropped.
const INTERRUPTED: Duration = Duration::from_millis(250);

#[doc = stub!(Job)]
#[pyclass(frozen, subclass, module = "atp")]
pub struct Job {
    sender: Arc<Sender>,
    id: u32,
    peer: SocketAddr,
    datapath: String,
    pacing: String,
    report: PyOnceLock<Py<PyAny>>,
}

/// How an application ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finish,
    Cancel,
}

impl Job {
    fn open(peer: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (py, options, peer) = (peer.py(), options::job(options)?, address::given(peer)?);
        let options::Job { builder, message_bytes_max, deadline } = options;
        let opened = wait::on_thread(py, deadline, move || builder.connect(peer))?;
        let late = || timed_out(py, "the job could not be opened in time: try again", vec![]);
        let job = opened.ok_or_else(late)?.map_err(|error| raise(py, error))?;
        Ok(Self {
            id: job.id(),
            peer: job.peer(),
            datapath: job.datapath().to_owned(),
            pacing: job.pacing().to_owned(),
            sender: Arc::new(Sender::new(job, message_bytes_max as usize)),
            report: PyOnceLock::new(),
        })
    }

    /// The report of a job that has ended; `None` before its end.
    fn try_end(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let ended = self.sender.job.take_ended(py, |job| job.try_outcome().transpose())?;
        let Some((outcome, job)) = ended else { return Ok(None) };
        py.detach(|| drop(job));
        // The job's thread has ended, and has released every buffer.
        release_pending(py);
        let report = types::report(py, &outcome.map_err(|error| raise(py, error))?)?.unbind();
        Ok(Some(self.report.get_or_init(py, || report).clone_ref(py)))
    }

    fn end(&self, py: Python<'_>, end: End, deadline: Option<Instant>) -> PyResult<Py<PyAny>> {
        self.begin(py, end)?;
        self.until(py, deadline, || self.try_end(py))
    }

    /// Tries until the deadline, whenever the job has changed.
    fn until<T>(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        attempt: impl FnMut() -> PyResult<Option<T>>,
    ) -> PyResult<T> {
        let done = self.sender.until(py, deadline, attempt)?;
        let text = "the end was not confirmed before the timeout: the job goes on; call again \
                    (with overlap_windows next_window, not end_window)";
        done.ok_or_else(|| timed_out(py, text, vec![]))
    }

    /// The report that `attempt` may give.
    fn window<'py>(
        &self,
        py: Python<'py>,
        attempt: impl FnOnce(&mut approxlib::Job) -> Result<Option<WindowReport>, Error> + Send,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let report = self.sender.job.with(py, attempt)?.map_err(|error| raise(py, error))?;
        report.map(|report| types::window_report(py, &report)).transpose()
    }

    fn begin_end(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<()> {
        self.until(py, deadline, || Ok(self.try_begin_end_window(py)?.then_some(())))
    }

    fn begin(&self, py: Python<'_>, end: End) -> PyResult<()> {
        self.sender.job.with(py, |job| match end {
            End::Finish => job.begin_finish(),
            End::Cancel => job.begin_cancel(),
        })
    }
}

#[pymethods]
impl Job {
    #[new]
    #[pyo3(signature = (peer, **options))]
    fn new(peer: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::open(peer, options)
    }

    #[doc = stub!(Job.id)]
    #[getter]
    fn id(&self) -> u32 {
        self.id
    }

    #[doc = stub!(Job.peer)]
    #[getter]
    fn peer(&self) -> (String, u16) {
        address::pair(self.peer)
    }

    #[doc = stub!(Job.datapath)]
    #[getter]
    fn datapath(&self) -> &str {
        &self.datapath
    }

    #[doc = stub!(Job.pacing)]
    #[getter]
    fn pacing(&self) -> &str {
        &self.pacing
    }

    #[doc = stub!(Job.ended)]
    #[getter]
    fn ended(&self, py: Python<'_>) -> PyResult<bool> {
        self.sender.job.has_ended(py)
    }

    #[doc = stub!(Job.report)]
    #[getter]
    fn report(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.report.get(py).map(|report| report.clone_ref(py))
    }

    #[doc = stub!(Job.send)]
    #[pyo3(signature = (data, group = Group(0), *, copy = Copied(None), timeout = None))]
    fn send(
        &self,
        data: &Bound<'_, PyAny>,
        group: Group,
        copy: Copied,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u32> {
        let deadline = arguments::deadline(timeout)?;
        let batch = self.sender.one(data, group, copy)?;
        Ok(self.sender.send_batch(data.py(), batch, deadline)?.start)
    }

    #[doc = stub!(Job.send_many)]
    #[pyo3(signature = (messages, group = Group(0), *, copy = Copied(None), timeout = None))]
    fn send_many<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        group: Group,
        copy: Copied,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyRange>> {
        let deadline = arguments::deadline(timeout)?;
        let batch = self.sender.several("send_many", messages, group, copy)?;
        types::ids(messages.py(), self.sender.send_batch(messages.py(), batch, deadline)?)
    }

    #[doc = stub!(Job.send_parts)]
    #[pyo3(signature = (messages, group = Group(0), *, copy = Copied(None)))]
    fn send_parts(
        &self,
        messages: &Bound<'_, PyAny>,
        group: Group,
        copy: Copied,
    ) -> PyResult<Parts> {
        let batch = self.sender.several("send_parts", messages, group, copy)?;
        Ok(Parts::new(self.sender.clone(), batch))
    }

    #[doc = stub!(Job.try_send_many)]
    #[pyo3(signature = (messages, group = Group(0), *, copy = Copied(None)))]
    fn try_send_many<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        group: Group,
        copy: Copied,
    ) -> PyResult<Bound<'py, PyRange>> {
        let (py, mut batch) =
            (messages.py(), self.sender.several("try_send_many", messages, group, copy)?);
        let ids = self.sender.try_send(py, &mut batch)?;
        types::ids(py, ids)
    }

    #[doc = stub!(Job.set_msr)]
    fn set_msr(&self, py: Python<'_>, group: Group, msr: &Bound<'_, PyAny>) -> PyResult<()> {
        let msr = arguments::number("msr", msr)?;
        let done = self.sender.job.with_detached(py, |job| job.set_msr(group.0, msr))?;
        done.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Job.progress)]
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        types::progress(py, &self.sender.job.with(py, |job| job.progress())?)
    }

    #[doc = stub!(Job.set_messages)]
    fn set_messages(
        &self,
        py: Python<'_>,
        group: Group,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let messages = arguments::integer("messages", messages, u32::MAX.into())? as u32;
        self.sender.job.with(py, |job| job.set_messages(group.0, messages))
    }

    #[doc = stub!(Job.end_window)]
    #[pyo3(signature = (*, timeout = None))]
    fn end_window<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let deadline = arguments::deadline(timeout)?;
        self.begin_end(py, deadline)?;
        self.until(py, deadline, || self.try_last_window(py))
    }

    #[doc = stub!(Job.begin_end_window)]
    fn begin_end_window(&self, py: Python<'_>) -> PyResult<()> {
        self.begin_end(py, None)
    }

    #[doc = stub!(Job.try_begin_end_window)]
    fn try_begin_end_window(&self, py: Python<'_>) -> PyResult<bool> {
        let begun = self.sender.job.with(py, approxlib::Job::try_begin_end_window)?;
        begun.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Job.next_window)]
    #[pyo3(signature = (*, timeout = None))]
    fn next_window<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let deadline = arguments::deadline(timeout)?;
        if !self.awaits_window(py)? {
            return Ok(None);
        }
        self.until(py, deadline, || self.try_window(py)).map(Some)
    }

    #[doc = stub!(Job.awaits_window)]
    #[getter]
    fn awaits_window(&self, py: Python<'_>) -> PyResult<bool> {
        self.sender.job.with(py, |job| job.awaits_window())
    }

    #[doc = stub!(Job.try_last_window)]
    fn try_last_window<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.window(py, approxlib::Job::try_last_window)
    }

    #[doc = stub!(Job.try_window)]
    fn try_window<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.window(py, approxlib::Job::try_window)
    }

    #[doc = stub!(Job.finish)]
    #[pyo3(signature = (*, timeout = None))]
    fn finish(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        self.end(py, End::Finish, arguments::deadline(timeout)?)
    }

    #[doc = stub!(Job.cancel)]
    #[pyo3(signature = (*, timeout = None))]
    fn cancel(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        self.end(py, End::Cancel, arguments::deadline(timeout)?)
    }

    #[doc = stub!(Job.forget_waits)]
    fn forget_waits(&self, py: Python<'_>) -> PyResult<()> {
        self.sender.forget_waits(py)
    }

    #[doc = stub!(Job.begin_finish)]
    fn begin_finish(&self, py: Python<'_>) -> PyResult<()> {
        self.begin(py, End::Finish)
    }

    #[doc = stub!(Job.begin_cancel)]
    fn begin_cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.begin(py, End::Cancel)
    }

    #[doc = stub!(Job.try_outcome)]
    fn try_outcome(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.try_end(py)
    }

    #[doc = stub!(Job.fileno)]
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.sender.job.with(py, |_| ())?;
        Ok(self.sender.changed(py)?.as_raw_fd())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: Option<&Bound<'_, PyType>>,
        _value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        // In a forked child, the job is the parent's: the block ends as it would without it.
        if !self.sender.job.is_of_this_process() || self.sender.job.has_ended(py)? {
            return Ok(false);
        }
        let end = if exception.is_none() { End::Finish } else { End::Cancel };
        // KeyboardInterrupt and its like: a user waits for the end of the program.
        let is_ordinary =
            exception.map_or(Ok(true), |kind| kind.is_subclass_of::<PyException>())?;
        let deadline = (!is_ordinary).then(|| Instant::now() + INTERRUPTED);
        match self.end(py, end, deadline) {
            // The exception that ended the block says more.
            Err(error) if exception.is_some() && is_own(py, &error)? => Ok(false),
            done => done.map(|_| false),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (class, job) = (slf.get_type().name()?.to_string(), slf.get());
        Ok(format!("<atp.{class} {} to {}>", job.id, job.peer))
    }
}
