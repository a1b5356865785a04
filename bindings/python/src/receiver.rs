//! The class `Receiver`.

use crate::{
    address,
    arguments::{Group, deadline, integer, number},
    errors::raise,
    exceptions::{closed, is_own},
    guarded::Guarded,
    message::Message,
    options,
    stub::stub,
    types, wait,
};
use approxlib::{Error, Event, RateRequest};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyList, PyTuple, PyType},
};
use std::{
    collections::VecDeque,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

#[doc = stub!(Receiver)]
#[pyclass(frozen, module = "atp")]
pub struct Receiver {
    receiver: Guarded<Source>,
    local: SocketAddr,
    datapath: String,
    /// Readable while events wait. Made when a call first waits.
    readable: PyOnceLock<OwnedFd>,
}

struct Source {
    receiver: approxlib::Receiver,
    /// The error of a call that had events to return. The next call without events raises it.
    failure: Option<Error>,
    /// The exception of an event that has no Python object. The next call raises it.
    raised: Option<PyErr>,
    /// The events after the one that raised.
    kept: VecDeque<Event>,
}

impl Receiver {
    fn readable(&self, py: Python<'_>) -> PyResult<BorrowedFd<'_>> {
        let own = |source: &mut Source| {
            source.receiver.readable_fd()?.try_clone_to_owned().map_err(Error::Thread)
        };
        let make = || self.receiver.with(py, own)?.map_err(|error| raise(py, error));
        Ok(self.readable.get_or_try_init(py, make)?.as_fd())
    }

    /// Takes up to `max` events; `None` if there is none after `deadline`.
    fn take(
        &self,
        py: Python<'_>,
        max: usize,
        deadline: Option<Instant>,
    ) -> PyResult<Option<Vec<Event>>> {
        let attempt = || {
            let (raised, taken) = self.receiver.with(py, |source| {
                let raised = source.raised.take();
                let taken = if raised.is_some() { Ok(Vec::new()) } else { source.take_ready(max) };
                (raised, taken)
            })?;
            if let Some(raised) = raised {
                return Err(raised);
            }
            let events = taken.map_err(|error| raise(py, error))?;
            Ok((!events.is_empty()).then_some(events))
        };
        wait::until(py, || self.readable(py), deadline, attempt)
    }

    fn one<'py>(
        &self,
        py: Python<'py>,
        deadline: Option<Instant>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let event = self.take(py, 1, deadline)?.and_then(|mut events| events.pop());
        event.map(|event| types::event(py, event)).transpose()
    }
}

impl Source {
    /// The events that wait, without waiting for others.
    fn take_ready(&mut self, max: usize) -> Result<Vec<Event>, Error> {
        let kept = self.kept.len().min(max);
        let mut events: Vec<Event> = self.kept.drain(..kept).collect();
        while events.len() < max && self.failure.is_none() {
            match self.receiver.recv(Some(Duration::ZERO)) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return Ok(events),
                Err(error) => self.failure = Some(error),
            }
        }
        match self.failure.take_if(|_| events.is_empty()) {
            Some(failure) => Err(failure),
            None => Ok(events),
        }
    }
}

#[pymethods]
impl Receiver {
    #[new]
    #[pyo3(signature = (address, **options))]
    fn new(address: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (py, builder) = (address.py(), options::receiver(options)?);
        let local = address::given(address)?;
        let bound = wait::on_thread(py, None, move || builder.bind(local))?;
        let bound = bound.ok_or_else(|| closed("receiver"))?;
        let receiver = bound.map_err(|error| raise(py, error))?;
        let local = receiver.local_addr().map_err(|error| raise(py, error))?;
        let datapath = receiver.datapath().to_owned();
        let source = Source { receiver, failure: None, raised: None, kept: VecDeque::new() };
        Ok(Self {
            local,
            datapath,
            receiver: Guarded::new("receiver", source),
            readable: PyOnceLock::new(),
        })
    }

    #[doc = stub!(Receiver.address)]
    #[getter]
    fn address(&self) -> (String, u16) {
        address::pair(self.local)
    }

    #[doc = stub!(Receiver.datapath)]
    #[getter]
    fn datapath(&self) -> &str {
        &self.datapath
    }

    #[doc = stub!(Receiver.recv)]
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.one(py, deadline(timeout)?)
    }

    #[doc = stub!(Receiver.recv_batch)]
    #[pyo3(signature = (max, timeout = None))]
    fn recv_batch<'py>(
        &self,
        py: Python<'py>,
        max: &Bound<'py, PyAny>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let max = integer("max", max, u32::MAX.into())? as usize;
        if max == 0 {
            return Err(PyValueError::new_err("max must be at least 1: recv_batch(64)"));
        }
        let mut events = self.take(py, max, deadline(timeout)?)?.unwrap_or_default().into_iter();
        let mut made = Vec::new();
        while let Some(event) = events.next() {
            match types::event(py, event) {
                Ok(event) => made.push(event),
                Err(error) => {
                    // The next call raises it, and later ones return the events behind it.
                    self.receiver.with(py, |source| {
                        source.raised = Some(error);
                        source.kept = events.chain(source.kept.drain(..)).collect();
                    })?;
                    break;
                }
            }
        }
        if made.is_empty()
            && let Some(raised) = self.receiver.with(py, |source| source.raised.take())?
        {
            return Err(raised);
        }
        PyList::new(py, made)
    }

    #[doc = stub!(Receiver.recycle)]
    fn recycle(&self, py: Python<'_>, message: &Bound<'_, Message>) -> PyResult<()> {
        let mut memory = Some(message.get().recycle()?);
        let recycled = self.receiver.with(py, |source| {
            if let Some(memory) = memory.take() {
                source.receiver.recycle(memory);
            }
        });
        // A receiver that has ended takes none.
        if let Some(memory) = memory {
            message.get().restore(memory);
        }
        recycled
    }

    #[doc = stub!(Receiver.request_msr)]
    fn request_msr(
        &self,
        py: Python<'_>,
        run: &Bound<'_, PyAny>,
        group: Group,
        msr: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (run, msr) = (integer("run", run, u64::MAX)?, number("msr", msr)?);
        let request = RateRequest { run, group: group.0, msr };
        let asked = self.receiver.with(py, |source| source.receiver.request_msr(&request))?;
        asked.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Receiver.request_end)]
    fn request_end(&self, py: Python<'_>, run: &Bound<'_, PyAny>) -> PyResult<()> {
        let run = integer("run", run, u64::MAX)?;
        self.receiver.with(py, |source| source.receiver.request_end(run))
    }

    #[doc = stub!(Receiver.progress)]
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let asked = self.receiver.with(py, |source| source.receiver.ask_progress())?;
        // Other threads use the receiver between two attempts.
        let attempt = || self.receiver.with(py, |source| source.receiver.try_progress(asked));
        types::sources_progress(py, &wait::until_given(py, attempt)?)
    }

    #[doc = stub!(Receiver.stats)]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        types::stats(py, &self.receiver.with(py, |source| source.receiver.stats())?)
    }

    #[doc = stub!(Receiver.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.receiver.take(py)? {
            None => Ok(()),
            Some(receiver) => wait::on_thread(py, None, move || drop(receiver)).map(|_| ()),
        }
    }

    #[doc = stub!(Receiver.fileno)]
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.receiver.with(py, |_| ())?;
        Ok(self.readable(py)?.as_raw_fd())
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The next event. A receiver that another thread closes ends the loop.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.one(py, None) {
            Err(error) if is_own(py, &error)? && self.receiver.has_ended(py)? => Ok(None),
            done => done,
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: Option<&Bound<'_, PyType>>,
        _value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        // In a forked child, the receiver is the parent's.
        if self.receiver.is_of_this_process() {
            self.close(py)?;
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<atp.Receiver at {}>", self.local)
    }
}
