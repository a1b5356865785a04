//! The class `WindowSender`.

use crate::{
    address,
    answers::{share, with_bytes},
    arguments::{self, duration, integer, shown},
    errors,
    exceptions::{closed, timed_out},
    guarded::Guarded,
    options,
    stub::stub,
    wait,
};
use approx_windows::{
    Group, Limits, OutboxError, Peer, Plan, Position, RecordRef, Rule, Sampling, SenderProgress,
    SenderState, Stream, StreamSender, Target,
};
use pyo3::{
    exceptions::{PyException, PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyMapping, PyType},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const WINDOW_BYTES_MAX: usize = 32 << 20;

#[doc = stub!(WindowSender)]
#[pyclass(frozen, module = "atp.kafka")]
pub struct WindowSender {
    sending: Guarded<StreamSender>,
    progress: Arc<SenderProgress>,
    name: String,
}

/// A record, with bytes of its own.
struct Given {
    offset: u64,
    value: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    timestamp_ms: Option<i64>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    group: Option<String>,
}

impl Given {
    fn record(&self) -> RecordRef<'_> {
        let headers = self.headers.iter();
        RecordRef {
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: headers.map(|(name, value)| (&**name, value.as_deref())).collect(),
        }
    }
}

impl WindowSender {
    /// Waits until the thread has done something. Raises its error.
    fn until(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        is_done: impl Fn(&SenderState) -> bool + Copy + Send + Sync,
    ) -> PyResult<()> {
        loop {
            self.check(py)?;
            if is_done(&self.progress.lock()) {
                return Ok(());
            }
            py.check_signals()?;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                let text = "windows were not confirmed before the timeout: they may be later; call \
                            again";
                return Err(timed_out(py, text, vec![]));
            }
            let slice = left.map_or(wait::SLICE, |left| left.min(wait::SLICE));
            py.detach(|| self.progress.wait(slice, is_done));
        }
    }

    /// Raises the error of the thread; later calls raise that it has ended.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let (failure, has_failed) = {
            let mut state = self.progress.lock();
            (state.failure.take(), state.has_failed)
        };
        match failure {
            Some(error) => Err(failed(py, error)),
            None if has_failed => Err(closed("sender of windows")),
            None => Ok(()),
        }
    }
}

fn failed(py: Python<'_>, error: OutboxError) -> PyErr {
    let text = error.to_string();
    match error {
        OutboxError::Transport { cause, .. } | OutboxError::NoReceiver { cause, .. } => {
            errors::raise_with(py, cause, text)
        }
        OutboxError::EndedByReceiver { .. } => {
            errors::raise_with(py, approxlib::Error::EndedByReceiver, text)
        }
        OutboxError::NoWindows { .. }
        | OutboxError::Rate { .. }
        | OutboxError::GroupName(_)
        | OutboxError::Groups { .. } => PyValueError::new_err(text),
    }
}

#[pymethods]
impl WindowSender {
    #[new]
    #[pyo3(signature = (
        peer, *, topic, partition = None, group = None, cluster = None, records = None,
        length = None, watermark_delay = None, groups = None, msr = None, msr_max = None,
        position = None,
        window_bytes_max = None, **options
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python, by name")]
    fn new(
        peer: &Bound<'_, PyAny>,
        topic: String,
        partition: Option<&Bound<'_, PyAny>>,
        group: Option<String>,
        cluster: Option<String>,
        records: Option<&Bound<'_, PyAny>>,
        length: Option<&Bound<'_, PyAny>>,
        watermark_delay: Option<&Bound<'_, PyAny>>,
        groups: Option<&Bound<'_, PyAny>>,
        msr: Option<&Bound<'_, PyAny>>,
        msr_max: Option<&Bound<'_, PyAny>>,
        position: Option<&str>,
        window_bytes_max: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = peer.py();
        let options = options::windows_job(options)?;
        let number = |name, value: Option<&Bound<'_, PyAny>>, max| {
            value.map(|value| integer(name, value, max)).transpose()
        };
        let window_bytes_max = number("window_bytes_max", window_bytes_max, u64::MAX)?;
        let msr = msr.map_or(Ok(1.0), |msr| share("msr", msr))?;
        let msr_max = msr_max.map_or(Ok(0.0), |msr| share("msr_max", msr))?;
        let sampling = Sampling::with_others(self::groups(groups)?, msr);
        let sampling = sampling.and_then(|sampling| sampling.up_to(msr_max));
        let stream = Stream {
            cluster: cluster.unwrap_or_default(),
            group: group.unwrap_or_default(),
            topic,
            topic_id: String::new(),
            partition: number("partition", partition, u32::MAX.into())?.unwrap_or(0) as u32,
        };
        let name = stream.to_string();
        let peer = Peer { address: address::given(peer)?, options: options.builder };
        let plan = Plan {
            rule: rule(records, length, watermark_delay)?,
            limits: Limits {
                window_bytes_max: window_bytes_max.map_or(WINDOW_BYTES_MAX, |max| max as usize),
                record_bytes_max: options.message_bytes_max as usize - 1,
            },
            sampling: sampling.map_err(|error| failed(py, error))?,
        };
        let begin = position.map(self::position).transpose()?;
        let target = Target { peer, sampling: plan.sampling.clone(), retry: Duration::ZERO };
        let sending = StreamSender::start(target, stream, plan, begin)?;
        let progress = sending.progress();
        Ok(Self { sending: Guarded::new("sender of windows", sending), progress, name })
    }

    #[doc = stub!(WindowSender.confirmed)]
    #[getter]
    fn confirmed(&self) -> u64 {
        self.progress.lock().confirmed
    }

    #[doc = stub!(WindowSender.unconfirmed)]
    #[getter]
    fn unconfirmed(&self) -> usize {
        self.progress.lock().unconfirmed
    }

    #[doc = stub!(WindowSender.position)]
    #[getter]
    fn position(&self) -> Option<String> {
        let position = self.progress.lock().position;
        position.map(|position| format!("{} {position}", position.offset))
    }

    #[doc = stub!(WindowSender.send)]
    #[pyo3(signature = (offset, value, key = None, timestamp = None, headers = None, group = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python, by name")]
    fn send(
        &self,
        py: Python<'_>,
        offset: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        group: Option<String>,
    ) -> PyResult<()> {
        let given = Given {
            offset: integer("offset", offset, u64::MAX - 1)?,
            value: value.map(bytes).transpose()?,
            key: key.map(bytes).transpose()?,
            timestamp_ms: timestamp.map(self::timestamp_ms).transpose()?,
            headers: headers.map(self::headers).transpose()?.unwrap_or_default(),
            group,
        };
        self.sending.check_process()?;
        self.check(py)?;
        let push =
            |sending: &mut StreamSender| sending.push(&given.record(), given.group.as_deref());
        let pushed = self.sending.with(py, push)?;
        pushed.map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.until(py, None, SenderState::has_room)
    }

    #[doc = stub!(WindowSender.flush)]
    #[pyo3(signature = (*, timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let deadline = arguments::deadline(timeout)?;
        self.sending.check_process()?;
        self.check(py)?;
        self.sending.with_detached(py, StreamSender::close_windows)?;
        self.until(py, deadline, |state| state.unconfirmed == 0)
    }

    #[doc = stub!(WindowSender.close)]
    #[pyo3(signature = (*, timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        if self.sending.has_ended(py)? {
            return Ok(());
        }
        let deadline = arguments::deadline(timeout)?;
        let closed = self.flush(py, timeout).and_then(|()| {
            self.sending.with(py, StreamSender::finish)?;
            self.until(py, deadline, |state| state.has_finished)
        });
        let has_failed = self.progress.lock().has_failed;
        if closed.is_ok() || has_failed {
            self.abandon(py)?;
        }
        closed
    }

    #[doc = stub!(WindowSender.abandon)]
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.sending.take(py)?;
        py.detach(|| drop(taken));
        Ok(())
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
        // In a forked child, the sender is the parent's.
        if self.sending.is_of_this_process() {
            match exception {
                None => self.close(py, None)?,
                Some(_) => self.abandon(py)?,
            }
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<atp.kafka.WindowSender of {}>", self.name)
    }
}

fn rule(
    records: Option<&Bound<'_, PyAny>>,
    length: Option<&Bound<'_, PyAny>>,
    watermark_delay: Option<&Bound<'_, PyAny>>,
) -> PyResult<Rule> {
    let ms = |name, time: &Bound<'_, PyAny>| {
        let time: Duration = duration(name, time)?;
        Ok::<_, PyErr>(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    };
    match (records, length) {
        (Some(_), None) if watermark_delay.is_some() => {
            Err(PyValueError::new_err("watermark_delay is for windows by time: give length"))
        }
        (Some(records), None) => match integer("records", records, u64::MAX)? {
            0 => Err(PyValueError::new_err("records must be 1 at least")),
            records => Ok(Rule::Records(records)),
        },
        (None, Some(length)) => match ms("length", length)? {
            0 => Err(PyValueError::new_err("length must be 1 ms at least")),
            length_ms => {
                let watermark_delay_ms = watermark_delay
                    .map_or(Ok(0), |watermark_delay| ms("watermark_delay", watermark_delay))?;
                Ok(Rule::Time { length_ms, watermark_delay_ms })
            }
        },
        _ => Err(PyTypeError::new_err(
            "give records, the number of each window, or length, its time: WindowSender(..., \
             records=1_000)",
        )),
    }
}

/// The groups with their rates.
fn groups(groups: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Group>> {
    let Some(groups) = groups else { return Ok(Vec::new()) };
    let wanted = || {
        let shown = shown(groups);
        PyTypeError::new_err(format!(
            "groups must be a dict of names and rates, such as {{\"readings\": 0.9}}, not {shown}"
        ))
    };
    let pairs = groups.cast::<PyMapping>().map_err(|_| wanted())?.items()?;
    let group = |pair: Bound<'_, PyAny>| {
        let (name, msr): (String, Bound<'_, PyAny>) = pair.extract().map_err(|_| wanted())?;
        let msr = share(&format!("the rate of group {name:?}"), &msr)?;
        Ok(Group { name, msr })
    };
    pairs.into_iter().map(group).collect()
}

/// The position in the text of `WindowSender.position`.
fn position(text: &str) -> PyResult<Position> {
    let parts = text.split_once(' ');
    let position = parts.and_then(|(offset, text)| Position::parse(offset.parse().ok()?, text));
    position.ok_or_else(|| {
        PyValueError::new_err("position must be the text of another sender's position")
    })
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    with_bytes(value, <[u8]>::to_vec)
}

fn headers(headers: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Option<Vec<u8>>)>> {
    let wanted = || {
        let shown = shown(headers);
        PyTypeError::new_err(format!("headers must be pairs of a name and bytes, not {shown}"))
    };
    let header = |pair: PyResult<Bound<'_, PyAny>>| {
        let (name, value): (String, Bound<'_, PyAny>) = pair?.extract().map_err(|_| wanted())?;
        let value = if value.is_none() { None } else { Some(bytes(&value)?) };
        Ok((name, value))
    };
    headers.try_iter().map_err(|_| wanted())?.map(header).collect()
}

/// Milliseconds since 1970, of seconds or of a time with a zone.
fn timestamp_ms(time: &Bound<'_, PyAny>) -> PyResult<i64> {
    let wanted = || {
        let shown = shown(time);
        PyValueError::new_err(format!(
            "timestamp must be a datetime with a time zone, or seconds since 1970, not {shown}"
        ))
    };
    let seconds = match time.hasattr("timestamp")? {
        // One without a zone would depend on this host's.
        true if time.call_method0("utcoffset")?.is_none() => return Err(wanted()),
        true => time.call_method0("timestamp")?.extract::<f64>()?,
        false => arguments::number("timestamp", time).map_err(|error| {
            match error.is_instance_of::<PyException>(time.py()) {
                true => wanted(),
                false => error,
            }
        })?,
    };
    let ms = (seconds * 1e3).round();
    // Of i64's ends, floats have the lower one.
    match (i64::MIN as f64..-(i64::MIN as f64)).contains(&ms) {
        true => Ok(ms as i64),
        false => Err(wanted()),
    }
}
