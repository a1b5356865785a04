//! The class `Windows`.

use super::window;
use crate::{
    address,
    arguments::{deadline, integer},
    errors,
    exceptions::{closed, state_failed, timed_out},
    guarded::Guarded,
    options,
    stub::stub,
    wait,
};
use approx_windows::{Arrival, Counted, Inbox, InboxError, ReceivedWindow, StateError, StateFile};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyType},
};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// The bytes of windows that are open or wait.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

#[doc = stub!(Windows)]
#[pyclass(frozen, module = "atp.kafka")]
pub struct Windows {
    state: Guarded<State>,
    /// Another thread closes it: a loop must not take the lock again.
    is_closing: AtomicBool,
    timeout: Option<Py<PyAny>>,
    local: SocketAddr,
}

// Dropped in this order: the file is free for another receiver once this one has ended.
struct State {
    inbox: Inbox,
    file: Option<StateFile>,
    /// The window that was handed over and isn't confirmed.
    pending: Option<Arc<ReceivedWindow>>,
}

impl State {
    /// Stores and confirms the pending window. Returns whether there was one.
    fn confirm(&mut self) -> Result<bool, StateError> {
        let Some(window) = &self.pending else { return Ok(false) };
        if let Some(file) = &self.file {
            let mut counted = self.inbox.counted().clone();
            counted.insert(&window.header);
            file.store(&counted)?;
        }
        self.inbox.confirm(window);
        self.pending = None;
        Ok(true)
    }

    /// Gives the pending window back, so that its sender sends it again.
    fn reject(&mut self) {
        if let Some(window) = self.pending.take() {
            self.inbox.reject(&window);
        }
    }

    /// The next arrival, until `until` at most. A window is pending from then on.
    fn next(&mut self, until: Instant) -> Result<Option<Next>, InboxError> {
        let left = until.saturating_duration_since(Instant::now());
        Ok(self.inbox.next(Some(left))?.map(|arrival| match arrival {
            Arrival::Window(window) => {
                let window = Arc::<ReceivedWindow>::new(*window);
                self.pending = Some(window.clone());
                Next::Window(window)
            }
            other => Next::Other(other),
        }))
    }
}

enum Next {
    Window(Arc<ReceivedWindow>),
    Other(Arrival),
}

impl Windows {
    fn open(
        address: &Bound<'_, PyAny>,
        state: Option<PathBuf>,
        memory_bytes_max: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(State, SocketAddr)> {
        let (py, builder) = (address.py(), options::windows_receiver(options)?);
        let local = address::given(address)?;
        // First: another receiver may have the port for the same reason.
        let opened = state.map(|path| py.detach(|| StateFile::open(&path))).transpose();
        let (file, counted) = match opened.map_err(|error| state_failed(py, &error))? {
            Some((file, counted)) => (Some(file), counted),
            None => (None, Counted::default()),
        };
        let bound = wait::on_thread(py, None, move || {
            Inbox::bind(builder, local, counted, memory_bytes_max)
        })?;
        let bound = bound.ok_or_else(|| closed("receiver"))?;
        let inbox = bound.map_err(|error| failed(py, error))?;
        let local = inbox.local_addr().map_err(|error| failed(py, error))?;
        Ok((State { inbox, file, pending: None }, local))
    }

    /// Confirms the window that the loop's body has handled.
    fn confirm_pending(&self, py: Python<'_>) -> PyResult<bool> {
        let confirmed = self.state.with_detached(py, State::confirm)?;
        confirmed.map_err(|error| state_failed(py, &error))
    }

    fn next_window<'py>(
        &self,
        py: Python<'py>,
        deadline: Option<Instant>,
    ) -> PyResult<Bound<'py, PyAny>> {
        loop {
            // First: a window that was taken is handed over.
            py.check_signals()?;
            if self.is_closing.load(Ordering::Acquire) {
                return Err(closed("receiver"));
            }
            let slice = Instant::now() + wait::SLICE;
            let until = deadline.map_or(slice, |deadline| deadline.min(slice));
            let next = self.state.with_detached(py, |state| state.next(until))?;
            match next.map_err(|error| failed(py, error))? {
                Some(Next::Window(window)) => {
                    let made = window::window(py, window);
                    if made.is_err() {
                        self.state.with_detached(py, State::reject)?;
                    }
                    return made;
                }
                Some(Next::Other(arrival)) => report(py, arrival)?,
                None if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    let text = "no window has ended before the timeout: look whether the sender \
                                runs, or wait longer";
                    return Err(timed_out(py, text, vec![]));
                }
                None => {}
            }
        }
    }
}

/// Logs what is no window.
fn report(py: Python<'_>, arrival: Arrival) -> PyResult<()> {
    let (kind, text) = match arrival {
        Arrival::Window(_) => return Ok(()),
        Arrival::Repeated(header) => {
            ("info", format!("{header}: was counted before, and is confirmed"))
        }
        Arrival::Unfinished(header) => {
            ("info", format!("{header}: its sender failed or was replaced, and will send it again"))
        }
        Arrival::Ended(stream) => ("info", format!("{stream}: its sender has ended")),
        Arrival::Malformed { source, error } => {
            ("warning", format!("the sender {source} sends no windows: {error}"))
        }
        Arrival::NoMemory { source, bytes_max, .. } => (
            "warning",
            format!(
                "the open windows need more than memory_bytes_max, {bytes_max} bytes: the sender \
                 {source} has to send again; raise it, or let the sender cut shorter windows"
            ),
        ),
    };
    py.import("atp._windows")?.getattr("LOG")?.call_method1(kind, ("%s", text)).map(drop)
}

fn failed(py: Python<'_>, error: InboxError) -> PyErr {
    match error {
        InboxError::Transport(error) => errors::raise(py, error),
    }
}

#[pymethods]
impl Windows {
    #[new]
    #[pyo3(signature = (address, *, state = None, timeout = None, memory_bytes_max = None, **options))]
    fn new(
        address: &Bound<'_, PyAny>,
        state: Option<&Bound<'_, PyAny>>,
        timeout: Option<Bound<'_, PyAny>>,
        memory_bytes_max: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        deadline(timeout.as_ref())?;
        let memory_bytes_max = match memory_bytes_max {
            Some(bytes) => integer("memory_bytes_max", bytes, u64::MAX)?,
            None => MEMORY_BYTES_MAX,
        };
        let path = |path: &Bound<'_, PyAny>| {
            let wanted = || PyTypeError::new_err("state must be the path of a file, or None");
            path.extract::<PathBuf>().map_err(|_| wanted())
        };
        let path = state.map(path).transpose()?;
        let (state, local) = Self::open(address, path, memory_bytes_max, options)?;
        Ok(Self {
            state: Guarded::new("receiver", state),
            is_closing: AtomicBool::new(false),
            timeout: timeout.map(Bound::unbind),
            local,
        })
    }

    #[doc = stub!(Windows.address)]
    #[getter]
    fn address(&self) -> (String, u16) {
        address::pair(self.local)
    }

    #[doc = stub!(Windows.stats)]
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.state.with_detached(py, |state| state.inbox.stats())?;
        window::stats(py, &stats)
    }

    #[doc = stub!(Windows.confirm)]
    fn confirm(&self, py: Python<'_>) -> PyResult<bool> {
        self.confirm_pending(py)
    }

    #[doc = stub!(Windows.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_closing.store(true, Ordering::Release);
        match self.state.take(py)? {
            None => Ok(()),
            Some(state) => wait::on_thread(py, None, move || drop(state)).map(|_| ()),
        }
    }

    /// A loop begins: a window that an earlier one has left is sent again.
    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let py = slf.py();
        if !slf.get().state.has_ended(py)? {
            slf.get().state.with_detached(py, State::reject)?;
        }
        Ok(slf)
    }

    /// Confirms the window before, and waits for the next one. A receiver that another thread
    /// closes ends the loop.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = || {
            self.confirm_pending(py)?;
            let timeout = self.timeout.as_ref().map(|timeout| timeout.bind(py));
            self.next_window(py, deadline(timeout)?)
        };
        match next() {
            Err(error) if is_closed(py, &error)? => Ok(None),
            done => done.map(Some),
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
        if self.state.is_of_this_process() {
            self.close(py)?;
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<atp.kafka.Windows at {}>", self.local)
    }
}

fn is_closed(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    Ok(error.matches(py, py.import("atp._errors")?.getattr("ClosedError")?)?)
}
