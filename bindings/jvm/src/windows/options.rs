//! Options of a sender of windows, from Java's builder: names and values as texts.

use crate::{
    failure::{Failure, Outcome},
    options::{self, Texts, number},
};
use approx_windows::{Group, Limits, Peer, Plan, Position, Rule, Sampling, Stream, Target};
use approxlib::JobBuilder;
use std::time::Duration;

const WINDOW_BYTES_MAX: usize = 32 << 20;

/// The options of a sender of windows, parsed.
pub struct SenderOptions {
    pub target: Target,
    pub stream: Stream,
    pub plan: Plan,
    pub begin: Option<Position>,
}

pub fn sender(
    peer: String,
    texts: &Texts,
    (job, message_bytes_max): (JobBuilder, u32),
) -> Outcome<SenderOptions> {
    let mut stream = Stream::default();
    let (mut groups, mut msr, mut msr_max) = (Vec::new(), 1.0, 0.0);
    let mut retry = Duration::ZERO;
    let (mut records, mut length, mut watermark_delay, mut begin) = (None, None, None, None);
    let mut window_bytes_max = WINDOW_BYTES_MAX;
    for (name, value) in options::pairs(texts) {
        match name {
            "topic" => stream.topic = value.to_owned(),
            "topic_id" => stream.topic_id = value.to_owned(),
            "partition" => stream.partition = number(name, value)?,
            "consumer_group" => stream.group = value.to_owned(),
            "cluster" => stream.cluster = value.to_owned(),
            "records" => records = Some(number(name, value)?),
            "length" => length = Some(options::duration(name, value)?),
            "watermark_delay" => watermark_delay = Some(options::duration(name, value)?),
            "group" => groups.push(group(value)?),
            "msr" => msr = number(name, value)?,
            "msr_max" => msr_max = number(name, value)?,
            "position" => begin = Some(position(value)?),
            "window_bytes_max" => window_bytes_max = number(name, value)?,
            "retry" => retry = options::duration(name, value)?,
            _ => return Err(options::unknown(name)),
        }
    }
    let sampling = Sampling::with_others(groups, msr)
        .and_then(|sampling| sampling.up_to(msr_max))
        .map_err(|error| Failure::argument(error.to_string()))?;
    let plan = Plan {
        rule: rule(records, length, watermark_delay)?,
        limits: Limits { window_bytes_max, record_bytes_max: message_bytes_max as usize - 1 },
        sampling: sampling.clone(),
    };
    let peer = Peer { address: peer, options: job };
    Ok(SenderOptions { target: Target { peer, sampling, retry }, stream, plan, begin })
}

/// `msr name`.
fn group(value: &str) -> Outcome<Group> {
    let (msr, name) = value.split_once(' ').unwrap_or((value, ""));
    Ok(Group { name: name.to_owned(), msr: number("group", msr)? })
}

/// Without a watermark delay, windows by time close by `advance`.
fn rule(
    records: Option<u64>,
    length: Option<Duration>,
    watermark_delay: Option<Duration>,
) -> Outcome<Rule> {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match (records, length) {
        (Some(0), None) => Err(Failure::argument("records must be 1 at least")),
        (Some(_), None) if watermark_delay.is_some() => {
            Err(Failure::argument("watermarkDelay is for windows by time: give length"))
        }
        (Some(records), None) => Ok(Rule::Records(records)),
        (None, Some(length)) if ms(length) == 0 => {
            Err(Failure::argument("length must be 1 ms at least"))
        }
        (None, Some(length)) => Ok(Rule::Time {
            length_ms: ms(length),
            watermark_delay_ms: watermark_delay.map_or(Rule::NEVER, ms),
        }),
        _ => Err(Failure::argument(
            "give records, the number of each window, or length, its time, and not both",
        )),
    }
}

/// The position in the text of [`position_text`], or the offset at which a stream begins.
fn position(text: &str) -> Outcome<Position> {
    let position = match text.split_once(' ') {
        Some((offset, text)) => offset.parse().ok().and_then(|at| Position::parse(at, text)),
        None => text.parse().ok().map(Position::begin),
    };
    position
        .ok_or_else(|| Failure::argument("position must be the text of another sender's position"))
}

pub fn position_text(position: &Position) -> String {
    format!("{} {position}", position.offset)
}
