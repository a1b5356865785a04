//! Options of Java's builders: names as in the table of options, and values as text.
//!
//! Java sends each option that was set as two texts. Durations are nanoseconds.

use crate::failure::{Failure, Outcome};
use approxlib::{Group, JobBuilder, Order, RateLaw, ReceiverBuilder, Requests, Rules, ScopedIp};
use std::{path::PathBuf, str::FromStr, time::Duration};

/// Names and values, one after the other.
pub type Texts = [String];

/// The longest message of a job. Set, so that Java can check a batch before its first message.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

/// The options of a job, and the length of its longest message.
pub fn job(options: &Texts) -> Outcome<(JobBuilder, u32)> {
    let (mut builder, mut message_bytes_max) = (JobBuilder::default(), MESSAGE_BYTES_MAX);
    for (name, value) in pairs(options) {
        builder = match name {
            "control_socket" => builder.control_socket(path(value)),
            "id" => builder.id(value),
            "messages" => builder.messages(number(name, value)?),
            "msr" => builder.msr(number(name, value)?),
            "order" => builder.order(order(value)?),
            "groups" => builder.groups([group(value)?]),
            "try_every_message" => builder.try_every_message(number(name, value)?),
            "window_deadline" => builder.window_deadline(duration(name, value)?),
            "rate_max_bytes_per_s" => builder.rate_max_bytes_per_s(number(name, value)?),
            "peer_timeout" => builder.peer_timeout(duration(name, value)?),
            "refused_timeout" => builder.refused_timeout(duration(name, value)?),
            "timer_granularity" => builder.timer_granularity(duration(name, value)?),
            "buffer_bytes" => builder.buffer_bytes(number(name, value)?),
            "payload_bytes" => builder.payload_bytes(number(name, value)?),
            "message_bytes_max" => {
                message_bytes_max = number(name, value)?;
                builder
            }
            "mrdf" => builder.mrdf(number(name, value)?),
            "packing" => builder.packing(number(name, value)?),
            "initial_window_packets" => builder.initial_window_packets(number(name, value)?),
            "rank_by_bytes" => builder.rank_by_bytes(number(name, value)?),
            "rules" => builder.rules(rules(value)?),
            "name_lost" => builder.name_lost(number(name, value)?),
            "requests" => builder.requests(requests(value)?),
            "windows" => builder.windows(number(name, value)?),
            "overlap_windows" => builder.overlap_windows(number(name, value)?),
            _ => return Err(unknown(name)),
        };
    }
    Ok((builder.message_bytes_max(message_bytes_max), message_bytes_max))
}

/// The options of a receiver.
pub fn receiver(options: &Texts) -> Outcome<ReceiverBuilder> {
    let mut builder = ReceiverBuilder::default();
    for (name, value) in pairs(options) {
        builder = match name {
            "control_socket" => builder.control_socket(path(value)),
            "jobs" => builder.job(value),
            "peers" => builder.peer(ip(value)?),
            "sources_max" => builder.sources_max(number(name, value)?),
            "message_bytes_max" => builder.message_bytes_max(received_bytes(name, value)?),
            "incomplete_bytes_max" => builder.incomplete_bytes_max(number(name, value)?),
            "memory_bytes_max" => builder.memory_bytes_max(number(name, value)?),
            "buffer_bytes" => builder.buffer_bytes(number(name, value)?),
            "linger" => builder.linger(duration(name, value)?),
            "line_rate_bytes_per_s" => builder.line_rate_bytes_per_s(number(name, value)?),
            "queue_depth_packets" => builder.queue_depth_packets(number(name, value)?),
            _ => return Err(unknown(name)),
        };
    }
    Ok(builder)
}

pub fn pairs(options: &Texts) -> impl Iterator<Item = (&str, &str)> {
    let (pairs, _) = options.as_chunks::<2>();
    pairs.iter().map(|[name, value]| (name.as_str(), value.as_str()))
}

pub fn unknown(name: &str) -> Failure {
    Failure::argument(format!("there is no option {name:?}: the jar and its library differ"))
}

/// A number or a flag. Java's types hold more only below 0.
pub fn number<T: FromStr>(name: &str, value: &str) -> Outcome<T> {
    let negative =
        |_| Failure::argument(format!("the option {name} must be 0 or more, not {value}"));
    value.parse().map_err(negative)
}

/// A message and its fields must fit a `ByteBuffer`, which has 2^31 - 1 bytes.
fn received_bytes(name: &str, value: &str) -> Outcome<u32> {
    let fits = |bytes: &u32| *bytes <= 1 << 30;
    value.parse().ok().filter(fits).ok_or_else(|| {
        Failure::argument(format!("the option {name} must be from 0 to {}, not {value}", 1 << 30))
    })
}

pub fn duration(name: &str, value: &str) -> Outcome<Duration> {
    let nanos = value.parse().map_err(|_| {
        Failure::argument(format!("the option {name} must be 0 or longer, not {value} ns"))
    })?;
    Ok(Duration::from_nanos(nanos))
}

/// The socket of a daemon; none for an empty text.
fn path(value: &str) -> Option<PathBuf> {
    (!value.is_empty()).then(|| value.into())
}

/// `id msr messages order name`: a number that isn't there is `-`.
fn group(value: &str) -> Outcome<Group> {
    let fields: Vec<&str> = value.splitn(5, ' ').collect();
    let &[id, msr, messages, sent, name] = fields.as_slice() else {
        return Err(Failure::argument(format!("{value:?} is no group")));
    };
    let group = Group::new(id_of_group(id.parse().unwrap_or(-1))?);
    let group = group.msr(number("groups", msr)?).order(order(sent)?).name(name);
    Ok(match messages {
        "-" => group,
        _ => group.messages(number("groups", messages)?),
    })
}

/// The id of a group, from Java's `int`.
pub fn id_of_group(group: i32) -> Outcome<u8> {
    u8::try_from(group).map_err(|_| {
        Failure::argument(format!("the id of a group must be from 0 to 255, not {group}"))
    })
}

/// `UNKNOWN`, `ORDERED`, `SHUFFLED`, or `SHUFFLED:` with the messages of the buffer.
pub fn order(value: &str) -> Outcome<Order> {
    Ok(match value.split_once(':') {
        None if value == "ORDERED" => Order::Ordered,
        None if value == "SHUFFLED" => Order::Shuffled { buffer: None },
        Some(("SHUFFLED", buffer)) => Order::Shuffled { buffer: Some(number("order", buffer)?) },
        None if value == "UNKNOWN" => Order::Unknown,
        _ => return Err(Failure::argument(format!("{value:?} is no order of messages"))),
    })
}

/// `obey`, `refuse`, or `msr_min msr_max may_end`.
fn requests(value: &str) -> Outcome<Requests> {
    let fields: Vec<&str> = value.split(' ').collect();
    match fields.as_slice() {
        ["obey"] => Ok(Requests::Obey),
        ["refuse"] => Ok(Requests::Refuse),
        [msr_min, msr_max, may_end] => Ok(Requests::Within {
            msr_min: number("requests", msr_min)?,
            msr_max: number("requests", msr_max)?,
            may_end: number("requests", may_end)?,
        }),
        _ => Err(Failure::argument(format!("{value:?} says nothing about requests"))),
    }
}

/// The name of a rate law.
fn rules(value: &str) -> Outcome<Rules> {
    let law = RateLaw::ALL.into_iter().find(|(_, listed)| *listed == value);
    law.map(|(law, _)| Rules::new(law)).ok_or_else(|| {
        let names = RateLaw::ALL.map(|(_, name)| name).join(", ");
        Failure::argument(format!("the option rules must be one of {names}, not {value:?}"))
    })
}

fn ip(value: &str) -> Outcome<ScopedIp> {
    value.parse().map_err(|error| Failure::argument(format!("the option peers: {error}")))
}
