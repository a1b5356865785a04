//! The class `Receiving`: a table that arrives. `atp.receive` and `atp.aio.receive` run it.

use super::{
    answering::{self, parsed},
    errors::raise,
    input::Level,
    planner::plan_report,
    rows::rows,
};
use crate::{
    address,
    arguments::{duration, integer, number, truth},
    errors,
    exceptions::{closed, timed_out},
    guarded::Guarded,
    options, wait,
};
use approx_answers::{AcceptedError, QueryError};
use approx_session::{Accepted, Answered, Pace, Reception, Session, SessionError, Step};
use arrow_schema::{DataType, TimeUnit};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyTuple},
};
use std::time::{Duration, Instant};

/// The least time between two lines.
const LINES: Duration = Duration::from_millis(100);

/// A table that arrives: the answers of a query, or its rows.
#[pyclass(frozen, module = "atp")]
pub struct Receiving {
    state: Guarded<State>,
    ended: PyOnceLock<Py<PyAny>>,
    address: (String, u16),
}

struct State {
    reception: Reception,
    session: Session,
    is_of_rows: bool,
    pace: Pace,
}

/// A line, and the messages that arrived and were sent.
type Shown = (Option<String>, u64, Option<u64>);

impl State {
    /// Takes events until `until`. Returns whether the session has ended.
    fn run(&mut self, until: Instant) -> Result<bool, SessionError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.session.step(&mut self.reception, left)? {
                Step::Ended => return Ok(true),
                Step::Took | Step::Nothing if left.is_zero() => return Ok(false),
                Step::Took | Step::Nothing => {}
            }
        }
    }
}

/// The answers at the end of a session, whose keys have these types.
fn answered(
    py: Python<'_>,
    answered: Answered,
    key_types: Vec<Option<DataType>>,
) -> PyResult<Bound<'_, PyAny>> {
    let verdict = answered.verdict_with_warnings();
    let Answered { query, answers, report, notes, left_out, .. } = answered;
    let notes = PyTuple::new(py, notes)?;
    let report = report.map(|report| plan_report(py, report)).transpose()?;
    let answers = answering::answers(py, &query, answers)?;
    let kinds = PyTuple::new(py, key_types.iter().map(|kind| kind.as_ref().and_then(key_type)))?;
    answers.call_method1("_ended", (verdict.name(), report, notes, left_out, kinds))
}

/// The name of a key's type in numpy and pandas; `None` of a type whose keys stay texts.
fn key_type(kind: &DataType) -> Option<String> {
    Some(match kind {
        kind if kind.is_integer() || kind.is_floating() => kind.to_string().to_lowercase(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        kind if kind.is_decimal() => "decimal".to_owned(),
        DataType::Timestamp(unit, None) => format!("datetime64[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => {
            format!("datetime64[{}, {zone}]", unit_name(*unit))
        }
        _ => return None,
    })
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// Whether an option names jobs or addresses.
fn names(options: &Bound<'_, PyDict>, option: &str) -> PyResult<bool> {
    options.get_item(option)?.map_or(Ok(false), |value| value.is_truthy())
}

fn failed(py: Python<'_>, error: SessionError) -> PyErr {
    match error {
        SessionError::Transport(error) => errors::raise(py, error),
        SessionError::Answer(error) => raise(py, error),
        SessionError::Query(error) => raise(py, error),
        SessionError::CutShort(why) => timed_out(py, &why, Vec::new()),
        error => raise(py, QueryError::Message { reason: error.to_string() }),
    }
}

#[pymethods]
impl Receiving {
    /// The options are those of `atp.receive`, and `options` those of `Receiver`.
    #[new]
    #[pyo3(signature = (address, query, *, emax, end_in_doubt, confidence, senders, timeout, rows_bytes_max, options))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python, by name")]
    fn new(
        address: &Bound<'_, PyAny>,
        query: Option<&Bound<'_, PyAny>>,
        emax: Option<&Bound<'_, PyAny>>,
        end_in_doubt: &Bound<'_, PyAny>,
        confidence: Level,
        senders: &Bound<'_, PyAny>,
        timeout: &Bound<'_, PyAny>,
        rows_bytes_max: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = address.py();
        let ends_in_doubt = truth("end_in_doubt", end_in_doubt)?;
        let accepted = match emax {
            None => None,
            Some(share) => {
                let share = number("emax", share)?;
                if share >= 1.0 {
                    let text = format!("emax must be a share below 1, such as 0.05, not {share}");
                    return Err(PyValueError::new_err(text));
                }
                let error = AcceptedError::relative(share);
                let error = error.map_err(|error| raise(py, error))?;
                Some(Accepted { error, ends_in_doubt })
            }
        };
        let senders = match integer("senders", senders, u32::MAX.into())? as u32 {
            0 => return Err(PyValueError::new_err("senders must be 1 at least")),
            senders => senders,
        };
        let timeout = duration("timeout", timeout)?;
        if timeout.is_zero() {
            return Err(PyValueError::new_err("timeout must be more than 0 s"));
        }
        let session = match query {
            Some(query) => Session::of_query(parsed(query)?, senders, confidence.0, accepted),
            None => {
                let bytes_max = integer("rows_bytes_max", rows_bytes_max, u64::MAX)?;
                Ok(Session::of_rows(senders, bytes_max))
            }
        };
        let session = session.map_err(|error| failed(py, error))?;
        let is_named = names(options, "jobs")? && names(options, "peers")?;
        let (builder, local) = (options::receiver(Some(options))?, address::given(address)?);
        let bound = wait::on_thread(py, None, move || builder.bind(local))?;
        let bound = bound.ok_or_else(|| closed("receiver"))?;
        let receiver = bound.map_err(|error| errors::raise(py, error))?;
        let local = receiver.local_addr().map_err(|error| errors::raise(py, error))?;
        let reception = Reception::new(receiver, senders, timeout, is_named);
        let (is_of_rows, pace) = (query.is_none(), Pace::new(LINES, Instant::now()));
        let state = State { reception, session, is_of_rows, pace };
        Ok(Self {
            state: Guarded::new("receiver", state),
            ended: PyOnceLock::new(),
            address: address::pair(local),
        })
    }

    /// The address that the receiver is bound to.
    #[getter]
    fn address(&self) -> (String, u16) {
        self.address.clone()
    }

    /// Receives for a number of seconds, or until the end: it is true then.
    fn run(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let until = Instant::now() + wait.min(Duration::from_secs(1));
        let ran = self.state.with_detached(py, |state| state.run(until))?;
        ran.map_err(|error| failed(py, error))
    }

    /// The state of the answer in a line, if there is one, and the messages that arrived and were
    /// sent, where that is known. `None` if it was asked for so recently that it would take much of
    /// the time: an answer may have many keys.
    fn progress(&self, py: Python<'_>) -> PyResult<Option<Shown>> {
        self.state.with_detached(py, |state| {
            let began = Instant::now();
            state.pace.is_due(began).then(|| {
                let (arrived, sent) = state.session.messages();
                let line = state.session.line();
                state.pace.printed(began, Instant::now());
                (line, arrived, sent)
            })
        })
    }

    /// Messages of the table that arrived.
    #[getter]
    fn messages(&self, py: Python<'_>) -> PyResult<u64> {
        self.state.with_detached(py, |state| state.session.messages().0)
    }

    /// Awaits no sender any longer: the next `run` takes what has arrived.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with_detached(py, |state| {
            state.session.cut_short("interrupted: the answer has what had arrived by then");
            state.reception.interrupt();
        })
    }

    /// Ends the session: its answers, or its rows. Another call has them again: an interrupt may
    /// have taken those of the first one.
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(ended) = self.ended.get(py) {
            return Ok(ended.bind(py).clone());
        }
        let state = self.state.take(py)?.ok_or_else(|| closed("receiver"))?;
        let State { reception, session, is_of_rows, .. } = state;
        let ended = match is_of_rows {
            true => py.detach(|| session.finish_rows()).map(|of| rows(py, of)),
            false => {
                let kinds = session.key_types();
                py.detach(|| session.finish()).map(|of| answered(py, of, kinds))
            }
        };
        let ended = ended.map_err(|error| failed(py, error)).flatten();
        if let Ok(ended) = &ended {
            // No other call ends it.
            let _ = self.ended.set(py, ended.clone().unbind());
        }
        // The receiver stays until the senders know of their ends, also after an interrupt.
        wait::on_thread(py, None, move || drop(reception))?;
        ended
    }

    /// Ends the receiver.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.state.take(py)? {
            None => Ok(()),
            Some(state) => wait::on_thread(py, None, move || drop(state)).map(|_| ()),
        }
    }

    fn __repr__(&self) -> String {
        let (host, port) = &self.address;
        format!("<atp.Receiving at {host}:{port}>")
    }
}
