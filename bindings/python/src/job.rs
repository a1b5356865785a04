//! The classes `Job` and `Stream`.

use crate::{
    arguments::{self, Copied, Group, address},
    buffers::{Buffer, release_pending},
    errors::raise,
    exceptions::{closed, is_own},
    guarded::Guarded,
    handle::{Batch, End, Handle},
    options, types, wait,
};
use approxlib::Error;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyRange, PyType},
};
use std::{
    net::SocketAddr,
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// The sending side of a job: see `atp/_native.pyi`.
#[pyclass(frozen, subclass, module = "atp")]
pub struct Job {
    handle: Guarded<Handle>,
    id: u32,
    peer: SocketAddr,
    datapath: String,
    pacing: String,
    /// Readable when a call that had to wait may go on. Made when a call first waits.
    changed: PyOnceLock<OwnedFd>,
    report: PyOnceLock<Py<PyAny>>,
}

impl Job {
    fn open(
        peer: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
        is_stream: bool,
    ) -> PyResult<Self> {
        let (py, builder, peer) = (peer.py(), options::job(options)?, address(peer)?);
        let open = move || match is_stream {
            false => builder.connect(peer).map(Handle::Job),
            true => builder.stream(peer).map(Handle::Stream),
        };
        let handle = wait::on_thread(py, open)?.map_err(|error| raise(py, error))?;
        let job = handle.job();
        Ok(Self {
            id: job.id(),
            peer: job.peer(),
            datapath: job.datapath().to_owned(),
            pacing: job.pacing().to_owned(),
            handle: Guarded::new("job", handle),
            changed: PyOnceLock::new(),
            report: PyOnceLock::new(),
        })
    }

    fn changed(&self, py: Python<'_>) -> PyResult<BorrowedFd<'_>> {
        let own =
            |handle: &mut Handle| handle.changed_fd()?.try_clone_to_owned().map_err(Error::Thread);
        let make = || self.handle.with(py, own)?.map_err(|error| raise(py, error));
        Ok(self.changed.get_or_try_init(py, make)?.as_fd())
    }

    /// Sends a part of the batch. Returns whether the job has taken all of it.
    fn try_send(&self, py: Python<'_>, batch: &mut Batch) -> PyResult<bool> {
        let sent = self.handle.with(py, |handle| handle.try_send(batch))?;
        sent.map_err(|error| raise(py, error))
    }

    fn send_batch(&self, py: Python<'_>, mut batch: Batch) -> PyResult<Range<u32>> {
        let attempt = || Ok(self.try_send(py, &mut batch)?.then_some(()));
        let sent = wait::until(py, || self.changed(py), None, attempt);
        let ids = batch.ids.clone();
        drop(batch);
        release_pending(py);
        sent.map(|_| ids)
    }

    /// The report of a job that has ended; `None` before its end.
    fn try_end(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let outcome = match self.handle.with_detached(py, Handle::try_outcome)? {
            Ok(None) => return Ok(None),
            Ok(Some(report)) => Ok(report),
            Err(error) => Err(error),
        };
        drop(self.handle.take(py)?);
        // The job's thread has ended, and has released every buffer.
        release_pending(py);
        let report = types::report(py, &outcome.map_err(|error| raise(py, error))?)?.unbind();
        Ok(Some(self.report.get_or_init(py, || report).clone_ref(py)))
    }

    fn end(&self, py: Python<'_>, end: End) -> PyResult<Py<PyAny>> {
        self.handle.with(py, |handle| handle.begin(end))?;
        let report = wait::until(py, || self.changed(py), None, || self.try_end(py))?;
        report.ok_or_else(|| closed("job"))
    }

    fn try_window<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let attempt = |handle: &mut Handle| handle.stream().map(approxlib::Stream::try_window);
        let report = self.handle.with(py, attempt)?.ok_or_else(|| closed("stream"))?;
        let report = report.map_err(|error| raise(py, error))?;
        report.map(|report| types::window_report(py, &report)).transpose()
    }
}

fn one(data: &Bound<'_, PyAny>, group: Group, copy: Copied) -> PyResult<Batch> {
    Ok(Batch {
        group: group.0,
        messages: vec![Buffer::new(data)?],
        copy: copy.0,
        taken: 0,
        ids: 0..0,
    })
}

fn several(messages: &Bound<'_, PyAny>, group: Group, copy: Copied) -> PyResult<Batch> {
    let not_several = || {
        PyTypeError::new_err(format!(
            "send_many takes several messages, as a list of bytes, not {}",
            arguments::shown(messages)
        ))
    };
    let messages = messages.try_iter().map_err(|_| not_several())?;
    let messages = messages.map(|message| Buffer::new(&message?)).collect::<PyResult<_>>()?;
    Ok(Batch { group: group.0, messages, copy: copy.0, taken: 0, ids: 0..0 })
}

#[pymethods]
impl Job {
    #[new]
    #[pyo3(signature = (peer, **options))]
    fn new(peer: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::open(peer, options, false)
    }

    /// The job's id.
    #[getter]
    fn id(&self) -> u32 {
        self.id
    }

    /// The receiver's address: host and port.
    #[getter]
    fn peer(&self) -> (String, u16) {
        types::address(self.peer)
    }

    /// The datapath with which the job started: `ebpf` or `userspace`.
    #[getter]
    fn datapath(&self) -> &str {
        &self.datapath
    }

    /// The pacing with which the job started: `fq`, `htb` or `userspace`.
    #[getter]
    fn pacing(&self) -> &str {
        &self.pacing
    }

    /// Whether `finish` or `cancel` has ended the job, or its failure.
    #[getter]
    fn ended(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.has_ended(py)
    }

    /// The report of a job that has ended; `None` before its end, or if it failed.
    #[getter]
    fn report(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.report.get(py).map(|report| report.clone_ref(py))
    }

    /// Sends a message, and returns its id. Waits while the buffer is full.
    #[pyo3(signature = (data, group = Group(0), *, copy = Copied(None)))]
    fn send(&self, data: &Bound<'_, PyAny>, group: Group, copy: Copied) -> PyResult<u32> {
        Ok(self.send_batch(data.py(), one(data, group, copy)?)?.start)
    }

    /// Sends several messages, and returns their ids. Waits while the buffer is full.
    #[pyo3(signature = (messages, group = Group(0), *, copy = Copied(None)))]
    fn send_many<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        group: Group,
        copy: Copied,
    ) -> PyResult<Bound<'py, PyRange>> {
        let ids = self.send_batch(messages.py(), several(messages, group, copy)?)?;
        types::ids(messages.py(), ids)
    }

    /// Sends the first messages for which there is room, and returns their ids.
    #[pyo3(signature = (messages, group = Group(0), *, copy = Copied(None)))]
    fn try_send_many<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        group: Group,
        copy: Copied,
    ) -> PyResult<Bound<'py, PyRange>> {
        let (py, mut batch) = (messages.py(), several(messages, group, copy)?);
        self.try_send(py, &mut batch)?;
        types::ids(py, batch.ids.clone())
    }

    /// Changes a group's minimal sampling rate.
    fn set_msr(&self, py: Python<'_>, group: Group, msr: &Bound<'_, PyAny>) -> PyResult<()> {
        let msr = arguments::number("msr", msr)?;
        let done = self.handle.with_detached(py, |handle| handle.set_msr(group.0, msr))?;
        done.map_err(|error| raise(py, error))
    }

    /// What was sent and delivered up to now.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        types::progress(py, &self.handle.with(py, |handle| handle.progress())?)
    }

    /// Ends the input, and waits for the job's end.
    fn finish(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.end(py, End::Finish)
    }

    /// Ends the job now, with the messages delivered so far.
    fn cancel(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.end(py, End::Cancel)
    }

    /// `finish` without waiting; `try_outcome` is its second step.
    fn begin_finish(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.with(py, |handle| handle.begin(End::Finish))
    }

    /// `cancel` without waiting; `try_outcome` is its second step.
    fn begin_cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.with(py, |handle| handle.begin(End::Cancel))
    }

    /// The report of a job that has ended, once; `None` before its end.
    fn try_outcome(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.try_end(py)
    }

    /// The descriptor that is readable when a call that didn't wait may give another answer.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.handle.with(py, |_| ())?;
        Ok(self.changed(py)?.as_raw_fd())
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
        if self.handle.has_ended(py)? {
            return Ok(false);
        }
        let end = if exception.is_none() { End::Finish } else { End::Cancel };
        match self.end(py, end) {
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

/// A job of windows: see `atp/_native.pyi`.
#[pyclass(frozen, extends = Job, subclass, module = "atp")]
pub struct Stream;

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (peer, **options))]
    fn new(
        peer: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let job = Job::open(peer, options, true)?;
        Ok(PyClassInitializer::from(job).add_subclass(Self))
    }

    /// Announces N of a group for the next window and those after it.
    fn set_messages(
        slf: &Bound<'_, Self>,
        group: Group,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let messages = arguments::integer("messages", messages, u32::MAX.into())? as u32;
        slf.as_super().get().handle.with(slf.py(), |handle| {
            if let Some(stream) = handle.stream() {
                stream.set_messages(group.0, messages);
            }
        })
    }

    /// Ends the input of the window, and waits for the window's end.
    fn end_window<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, job) = (slf.py(), slf.as_super().get());
        Self::begin_end_window(slf)?;
        let report = wait::until(py, || job.changed(py), None, || job.try_window(py))?;
        report.ok_or_else(|| closed("stream"))
    }

    /// `end_window` without waiting; `try_window` is its second step.
    fn begin_end_window(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.as_super().get().handle.with(slf.py(), |handle| {
            if let Some(stream) = handle.stream() {
                stream.begin_end_window();
            }
        })
    }

    /// The report of a window that has ended, once; `None` before its end.
    fn try_window<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        slf.as_super().get().try_window(slf.py())
    }
}
