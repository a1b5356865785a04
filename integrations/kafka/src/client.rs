//! Clients of Kafka: their errors as sentences, their log as this program's.

use anyhow::{Context, Result, anyhow, bail};
use rdkafka::{
    ClientContext, TopicPartitionList,
    client::Client,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    metadata::Metadata,
    types::{RDKafkaTopicPartition, RDKafkaTopicPartitionList},
};
use std::{
    slice,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long the brokers may take for an answer that the program needs at its start.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// How long brokers may be unreachable, all of them, at the start.
const UNREACHABLE: Duration = Duration::from_secs(4);

/// How long brokers may take to learn of a topic.
const UNKNOWN: Duration = Duration::from_secs(3);

/// The wait between two questions to brokers that refuse.
const RETRY: Duration = Duration::from_millis(100);

/// The time of one question for metadata.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Writes librdkafka's log to this program's, and keeps the last error.
#[derive(Debug, Default)]
pub struct Logged {
    /// Lines are for debugging only: the caller says what failed.
    is_quiet: bool,
    last: Mutex<LastError>,
}

#[derive(Debug, Default)]
struct LastError {
    reason: Option<String>,
    /// The reason why a connection ended, which isn't always reported as an error.
    disconnected: Option<String>,
    /// No broker can be reached, and no other error followed.
    no_broker: bool,
}

impl ClientContext for Logged {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            // The name of a thread comes first.
            let (_, reason) = message.split_once("]: ").unwrap_or(("", message));
            self.last().disconnected = Some(reason.to_owned());
        }
        match level {
            RDKafkaLogLevel::Debug => tracing::debug!("librdkafka {facility}: {message}"),
            _ if self.is_quiet => tracing::debug!("librdkafka {facility}: {message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!("librdkafka {facility}: {message}");
            }
            // A broker that can't be reached is an error only if it stays away.
            _ => tracing::warn!("librdkafka {facility}: {message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {error}: {reason}");
        let mut last = self.last();
        let code = error.rdkafka_error_code();
        last.no_broker = code == Some(RDKafkaErrorCode::AllBrokersDown);
        if !last.no_broker {
            last.reason = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Logged {}

impl Logged {
    fn quiet() -> Self {
        Self { is_quiet: true, ..Self::default() }
    }

    /// The error that came last, as the reason of a failure.
    pub fn reason(&self) -> String {
        let last = self.last();
        last.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"))
    }

    fn last(&self) -> MutexGuard<'_, LastError> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A consumer that asks for metadata and offsets, and joins no group.
pub type Inquirer = BaseConsumer<Logged>;

/// Makes an [`Inquirer`].
///
/// # Errors
/// A property is wrong.
pub fn inquirer(config: &rdkafka::ClientConfig) -> Result<Inquirer> {
    let mut config = config.clone();
    // Lost connections are logged at this level, and the reason of a failure may be nowhere else.
    if (config.log_level as u8) < RDKafkaLogLevel::Info as u8 {
        config.set_log_level(RDKafkaLogLevel::Info);
    }
    config.create_with_context(Logged::quiet()).map_err(wrong_properties)
}

/// The error of a client that can't be made.
pub fn wrong_properties(error: KafkaError) -> anyhow::Error {
    match error {
        KafkaError::ClientConfig(_, why, name, _) => anyhow!("[kafka.properties] {name}: {why}"),
        KafkaError::ClientCreation(why) => anyhow!("[kafka.properties] {why}"),
        other => anyhow!("can't make a client of Kafka: {other}"),
    }
}

/// The partitions of a topic.
///
/// # Errors
/// No broker answers, or none has the topic.
pub fn partitions(inquirer: &Inquirer, topic: &str, brokers: &str) -> Result<Vec<i32>> {
    partitions_within(UNKNOWN, inquirer, topic, brokers)
}

/// Like [`partitions`], asked for so long while brokers don't know the topic: the brokers of a
/// cluster learn of a new one at different times.
///
/// # Errors
/// As [`partitions`].
pub fn partitions_within(
    limit: Duration,
    inquirer: &Inquirer,
    topic: &str,
    brokers: &str,
) -> Result<Vec<i32>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(partitions) = known_partitions(inquirer, topic, brokers)? {
            return Ok(partitions);
        }
        if Instant::now() >= deadline {
            bail!("there is no topic {topic:?} at {brokers}: make it, or name another one");
        }
        thread::sleep(RETRY);
    }
}

/// The partitions, if the broker that answers knows the topic.
fn known_partitions(inquirer: &Inquirer, topic: &str, brokers: &str) -> Result<Option<Vec<i32>>> {
    let metadata = metadata(inquirer, topic, brokers)?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Ok(None);
    };
    match found.error().map(RDKafkaErrorCode::from) {
        None => {}
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            return Ok(None);
        }
        Some(code) => bail!("can't read topic {topic:?} at {brokers}: {code}"),
    }
    let mut partitions: Vec<i32> = found.partitions().iter().map(|p| p.id()).collect();
    partitions.sort_unstable();
    Ok(Some(partitions).filter(|partitions| !partitions.is_empty()))
}

fn metadata(inquirer: &Inquirer, topic: &str, brokers: &str) -> Result<Metadata> {
    let begin = Instant::now();
    loop {
        let error = match inquirer.fetch_metadata(Some(topic), ATTEMPT) {
            Ok(metadata) => return Ok(metadata),
            Err(error) => error,
        };
        // Serves callbacks, so that the last error is known.
        let _ = inquirer.poll(Duration::from_millis(100));
        let logged = inquirer.context();
        let limit = if logged.last().no_broker { UNREACHABLE } else { TIMEOUT };
        if begin.elapsed() >= limit {
            let mut last = logged.last();
            let reason = last.reason.take().or_else(|| last.disconnected.take());
            let reason = reason.unwrap_or_else(|| error.to_string());
            // librdkafka's numbers of attempts and milliseconds.
            let reason = reason.rsplit_once(" (after ").map_or(&*reason, |(reason, _)| reason);
            match advice(reason) {
                Some(advice) => bail!("no broker can be used at {brokers}: {reason}. {advice}"),
                None => bail!("no broker answers at {brokers}: {reason}"),
            }
        }
    }
}

/// The advice for a connection that the broker or this program refuses.
fn advice(reason: &str) -> Option<&'static str> {
    let advice = [
        (
            "SASL authentication error",
            "Check `sasl.mechanism`, `sasl.username` and `sasl.password` in [kafka.properties]",
        ),
        (
            "certificate verify failed",
            "The file of `ssl.ca.location` in [kafka.properties] needs the authority of the \
             broker's certificate, which must name the host that `brokers` or the broker names",
        ),
        (
            "SSL alert number",
            "The broker wants a certificate of an authority that it trusts: set \
             `ssl.certificate.location` and `ssl.key.pem` in [kafka.properties]",
        ),
        (
            "Disconnected",
            "Check `security.protocol` in [kafka.properties]: the port may want TLS, none, or a \
             login",
        ),
    ];
    advice.iter().find(|(part, _)| reason.contains(part)).map(|(_, advice)| *advice)
}

/// The id of the cluster.
///
/// # Errors
/// No broker answers.
pub fn cluster_id<C: ClientContext>(client: &Client<C>, brokers: &str) -> Result<String> {
    client.fetch_cluster_id(TIMEOUT).with_context(|| format!("no broker at {brokers} answers"))
}

/// The texts beside committed offsets, in the order of the list. rdkafka's own method panics for
/// those that are no UTF-8, which any member of a group can commit.
pub fn texts(list: &TopicPartitionList) -> Vec<String> {
    // SAFETY: the list is alive, and has that many elements.
    let elements = unsafe {
        let RDKafkaTopicPartitionList { elems, cnt, .. } = *list.ptr();
        slice_of(elems, cnt.max(0) as usize)
    };
    let text = |element: &RDKafkaTopicPartition| {
        // SAFETY: the element has that many bytes of metadata, as long as the list is alive.
        let bytes = unsafe { slice_of(element.metadata.cast::<u8>(), element.metadata_size) };
        String::from_utf8_lossy(bytes).into_owned()
    };
    elements.iter().map(text).collect()
}

/// # Safety
/// That many values are there for `'a`, or `begin` is null.
unsafe fn slice_of<'a, T>(begin: *const T, length: usize) -> &'a [T] {
    match begin.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { slice::from_raw_parts(begin, length) },
    }
}

/// Asks again while the brokers refuse: a coordinator that moves or starts does so for a while.
pub fn patiently<T>(mut ask: impl FnMut() -> KafkaResult<T>) -> KafkaResult<T> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = ask();
        if answer.is_ok() || Instant::now() >= deadline {
            return answer;
        }
        thread::sleep(RETRY);
    }
}
