//! Keyword arguments as the options of the library's builders.

use crate::arguments::{deadline, duration, integer, job_id, number, shown, truth};
use approxlib::{
    AddressError, Group, JobBuilder, Order, RateLaw, ReceiverBuilder, Requests, Rules, ScopedIp,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyString},
};
use std::{path::PathBuf, time::Instant};

type Options<'a, 'py> = Option<&'a Bound<'py, PyDict>>;

/// The longest message of a job. Set, so that a batch can be checked before its first message.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

pub struct Job {
    pub builder: JobBuilder,
    pub message_bytes_max: u32,
    /// When the opening has taken too long.
    pub deadline: Option<Instant>,
}

/// The options of a job. Options that have no default value take `None`.
pub fn job(options: Options<'_, '_>) -> PyResult<Job> {
    let (mut message_bytes_max, mut opens_until) = (MESSAGE_BYTES_MAX, None);
    let mut builder = JobBuilder::default();
    for (name, value) in options.into_iter().flatten() {
        let name = name.extract::<String>()?;
        let u32 = || integer(&name, &value, u32::MAX.into()).map(|number| number as u32);
        let u64 = || integer(&name, &value, u64::MAX);
        builder = match name.as_str() {
            "control_socket" => builder.control_socket(path(&name, &value)?),
            "id" if value.is_none() => builder,
            "id" => builder.id(job_id(&name, &value)?),
            "messages" if value.is_none() => builder,
            "messages" => builder.messages(u32()?),
            "msr" => builder.msr(number(&name, &value)?),
            "order" => builder.order(order(&value, None)?),
            "groups" => builder.groups(groups(&value)?),
            "try_every_message" => builder.try_every_message(truth(&name, &value)?),
            "window_deadline" if value.is_none() => builder,
            "window_deadline" => builder.window_deadline(duration(&name, &value)?),
            "rate_max_bytes_per_s" => builder.rate_max_bytes_per_s(u64()?),
            "peer_timeout" => builder.peer_timeout(duration(&name, &value)?),
            "refused_timeout" => builder.refused_timeout(duration(&name, &value)?),
            "timer_granularity" => builder.timer_granularity(duration(&name, &value)?),
            "buffer_bytes" => builder.buffer_bytes(u64()?),
            "payload_bytes" if value.is_none() => builder,
            "payload_bytes" => builder.payload_bytes(u32()?),
            "message_bytes_max" => {
                message_bytes_max = u32()?;
                builder
            }
            "mrdf" => builder.mrdf(truth(&name, &value)?),
            "packing" => builder.packing(truth(&name, &value)?),
            "initial_window_packets" => builder.initial_window_packets(u32()?),
            "rank_by_bytes" => builder.rank_by_bytes(truth(&name, &value)?),
            "rules" => builder.rules(rules(&value)?),
            "name_lost" => builder.name_lost(truth(&name, &value)?),
            "requests" => builder.requests(requests(&value)?),
            "windows" => builder.windows(truth(&name, &value)?),
            "overlap_windows" => builder.overlap_windows(truth(&name, &value)?),
            "timeout" => {
                opens_until = deadline(Some(&value).filter(|value| !value.is_none()))?;
                builder
            }
            _ => return Err(unknown(&name, "Job")),
        };
    }
    let builder = builder.message_bytes_max(message_bytes_max);
    Ok(Job { builder, message_bytes_max, deadline: opens_until })
}

/// The options of a receiver.
pub fn receiver(options: Options<'_, '_>) -> PyResult<ReceiverBuilder> {
    let mut builder = ReceiverBuilder::default();
    for (name, value) in options.into_iter().flatten() {
        let name = name.extract::<String>()?;
        let u64 = || integer(&name, &value, u64::MAX);
        builder = match name.as_str() {
            "control_socket" => builder.control_socket(path(&name, &value)?),
            "jobs" => each(&value)?.iter().try_fold(builder, |builder, id| {
                PyResult::Ok(builder.job(job_id("a job of jobs", id)?))
            })?,
            "peers" => each(&value)?
                .iter()
                .try_fold(builder, |builder, address| PyResult::Ok(builder.peer(ip(address)?)))?,
            "sources_max" => builder.sources_max(integer(&name, &value, u32::MAX.into())? as usize),
            "message_bytes_max" => {
                builder.message_bytes_max(integer(&name, &value, u32::MAX.into())? as u32)
            }
            "incomplete_bytes_max" => builder.incomplete_bytes_max(u64()?),
            "memory_bytes_max" => builder.memory_bytes_max(u64()?),
            "buffer_bytes" => builder.buffer_bytes(u64()?),
            "linger" => builder.linger(duration(&name, &value)?),
            "line_rate_bytes_per_s" => builder.line_rate_bytes_per_s(u64()?),
            "queue_depth_packets" => {
                builder.queue_depth_packets(integer(&name, &value, u32::MAX.into())? as u32)
            }
            _ => return Err(unknown(&name, "Receiver")),
        };
    }
    Ok(builder)
}

/// The options of a receiver of windows: a `WindowsOptions`.
pub fn windows_receiver(options: Options<'_, '_>) -> PyResult<ReceiverBuilder> {
    let known = ["peers", "sources_max", "message_bytes_max", "incomplete_bytes_max"];
    let more = ["buffer_bytes", "linger", "control_socket"];
    check_known(options, &[&known[..], &more].concat(), "kafka.Windows")?;
    receiver(options)
}

/// The options of a sender of windows, whose groups and windows are its own: a
/// `WindowSenderOptions`.
pub fn windows_job(options: Options<'_, '_>) -> PyResult<Job> {
    let known = ["id", "control_socket", "rate_max_bytes_per_s", "peer_timeout", "refused_timeout"];
    let more = ["buffer_bytes", "payload_bytes", "message_bytes_max", "rules"];
    check_known(options, &[&known[..], &more].concat(), "kafka.WindowSender")?;
    job(options)
}

fn check_known(options: Options<'_, '_>, known: &[&str], class: &str) -> PyResult<()> {
    for (name, _) in options.into_iter().flatten() {
        let name = name.extract::<String>()?;
        if !known.contains(&&*name) {
            return Err(unknown(&name, class));
        }
    }
    Ok(())
}

fn unknown(name: &str, class: &str) -> PyErr {
    PyTypeError::new_err(format!("{class} has no option {name:?}: help(atp.{class}) lists them"))
}

fn path(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    let wanted = || format!("{name} must be a path, or None for no daemon, not {}", shown(value));
    value.extract().map_err(|_| PyTypeError::new_err(wanted()))
}

/// One value, or several.
fn each<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if value.is_instance_of::<PyString>() || value.try_iter().is_err() {
        return Ok(vec![value.clone()]);
    }
    value.try_iter()?.collect()
}

fn groups(value: &Bound<'_, PyAny>) -> PyResult<Vec<Group>> {
    let wanted = || {
        PyTypeError::new_err(format!("groups must be a list of atp.Group, not {}", shown(value)))
    };
    let groups = value.try_iter().map_err(|_| wanted())?;
    groups.map(|group| one_group(&group?)).collect()
}

/// Reads an `atp.Group`.
fn one_group(value: &Bound<'_, PyAny>) -> PyResult<Group> {
    let field = |name| {
        value.getattr(name).map_err(|_| {
            PyTypeError::new_err(format!("groups must hold atp.Group, not {}", shown(value)))
        })
    };
    let id = integer("the id of a group", &field("id")?, u8::MAX.into())? as u8;
    let name: String = field("name")?.extract().map_err(|_| {
        PyTypeError::new_err("the name of a group must be text: atp.Group(1, name=\"flights\")")
    })?;
    let msr = number("the msr of a group", &field("msr")?)?;
    let buffer = field("shuffle_buffer")?;
    let buffer = match buffer.is_none() {
        true => None,
        false => Some(integer("the shuffle_buffer of a group", &buffer, u32::MAX.into())? as u32),
    };
    let order = order(&field("order")?, buffer)?;
    let group = Group::new(id).msr(msr).name(&name).order(order);
    let messages = field("messages")?;
    if messages.is_none() {
        return Ok(group);
    }
    let messages = integer("the messages of a group", &messages, u32::MAX.into())?;
    Ok(group.messages(messages as u32))
}

/// The order of messages: a word, and the messages of a shuffle's buffer.
pub fn order(value: &Bound<'_, PyAny>, buffer: Option<u32>) -> PyResult<Order> {
    match (value.extract::<String>().as_deref(), buffer) {
        (Ok("unknown"), None) => Ok(Order::Unknown),
        (Ok("ordered"), None) => Ok(Order::Ordered),
        (Ok("shuffled"), Some(0)) => Err(PyValueError::new_err(
            "shuffle_buffer must be 1 at least, or None for all messages",
        )),
        (Ok("shuffled"), buffer) => Ok(Order::Shuffled { buffer }),
        (Ok("unknown" | "ordered"), Some(_)) => {
            Err(PyValueError::new_err("a shuffle_buffer needs order=\"shuffled\""))
        }
        _ => Err(PyValueError::new_err(format!(
            "order must be \"shuffled\", \"ordered\" or \"unknown\", not {}",
            shown(value)
        ))),
    }
}

/// What a job's receiver may ask for: a word, or an `atp.RequestBounds`.
fn requests(value: &Bound<'_, PyAny>) -> PyResult<Requests> {
    match value.extract::<String>().as_deref() {
        Ok("obey") => return Ok(Requests::Obey),
        Ok("refuse") => return Ok(Requests::Refuse),
        _ => {}
    }
    let field = |name| {
        let wanted =
            || format!("\"obey\", \"refuse\" or an atp.RequestBounds, not {}", shown(value));
        let field = value.getattr(name);
        field.map_err(|_| PyTypeError::new_err(format!("requests must be {}", wanted())))
    };
    Ok(Requests::Within {
        msr_min: number("msr_min of requests", &field("msr_min")?)?,
        msr_max: number("msr_max of requests", &field("msr_max")?)?,
        may_end: truth("may_end of requests", &field("may_end")?)?,
    })
}

/// The name of a rate law.
fn rules(value: &Bound<'_, PyAny>) -> PyResult<Rules> {
    let name = value.extract::<String>().unwrap_or_default();
    let law = RateLaw::ALL.into_iter().find(|(_, listed)| *listed == name);
    law.map(|(law, _)| Rules::new(law)).ok_or_else(|| {
        let names = RateLaw::ALL.map(|(_, name)| name).join(", ");
        PyValueError::new_err(format!("rules must be one of {names}, not {}", shown(value)))
    })
}

fn ip(value: &Bound<'_, PyAny>) -> PyResult<ScopedIp> {
    // Of a text, or of the module `ipaddress`.
    let text = value.str().map(|text| text.to_string()).unwrap_or_default();
    text.parse().map_err(|error| match error {
        AddressError::NoIp(_) => PyValueError::new_err(format!(
            "a peer of peers must be an IP address, not {}",
            shown(value)
        )),
        error => PyValueError::new_err(format!("a peer of peers: {error}")),
    })
}
