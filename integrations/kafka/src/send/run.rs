//! The loop of the sending bridge.

use super::{
    assignment::{Assignment, Key, State, commit, warn_of_commit},
    client_config,
    ends::Ends,
    metrics,
    partition::{Cutting, Partition},
    records::record,
    rules::{Exact, Rules},
};
use crate::{
    client::{TIMEOUT, cluster_id, partitions, patiently, wrong_properties},
    config::SendConfig,
    stop, systemd,
};
use anyhow::{Context, Result, anyhow, bail};
use approx_windows::{Outbox, Plan, Target};
use rdkafka::{
    Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer, RebalanceProtocol},
    error::{KafkaError, RDKafkaErrorCode},
    message::BorrowedMessage,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The longest wait for a record: confirmations are looked at in between.
const POLL: Duration = Duration::from_millis(20);
/// How long the receiver may take to say that it takes windows.
const HELLO: Duration = Duration::from_secs(15);
/// How long windows on their way may take when the program ends.
const SETTLE: Duration = Duration::from_secs(10);
/// The interval of lines about one error that lasts.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// How long there may be no partition before the log says so.
const UNASSIGNED: Duration = Duration::from_secs(10);
/// Between two looks at the workers, the most records, and the longest wait for more of them.
/// Messages of open windows are sent at a look.
const BATCH: usize = 500;
const LOOK: Duration = Duration::from_millis(10);
/// The share of the memory that records may take between two looks.
const MEMORY_SHARE: u64 = 16;

/// How it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// End once all records are confirmed that the topics have at the start.
    pub until_end: bool,
}

/// Runs until it is told to stop.
///
/// # Errors
/// One sentence: the brokers, the topics or the receiver can't be used, or failed for too long.
pub fn run(config: &SendConfig, options: Options) -> Result<()> {
    let sampling = config.sampling().map_err(anyhow::Error::msg)?;
    let (rule, limits) = (config.window.rule(), config.window.limits());
    let plan = Plan { rule, limits, sampling: sampling.clone() };
    let cutting = Cutting { plan, idle: config.window.idle() };
    // One hello below is for all partitions.
    let target = |peer| Target { peer, sampling: sampling.clone(), retry: config.atp.retry() };
    let targets: Vec<Target> = config.peers().into_iter().map(target).collect();
    let mut client = client_config(config)?;
    if options.until_end {
        // librdkafka names the partition of an end, and not its topic.
        if config.kafka.topics.len() > 1 {
            bail!(
                "--until-end reads one topic: start a process for each of {:?}",
                config.kafka.topics
            );
        }
        client.set("enable.partition.eof", "true");
    }
    let shown = Arc::new(OnceLock::<Arc<Assignment>>::new());
    let to_show = shown.clone();
    let fill = move |registry: &mut _| {
        to_show.get().into_iter().for_each(|assignment| metrics::fill(registry, assignment));
    };
    let _metrics = crate::metrics::serve(config.metrics, "atp_kafka_send", fill)?;
    let brokers = &config.kafka.brokers;
    let inquirer = crate::client::inquirer(&client)?;
    let mut ends = BTreeMap::new();
    for topic in &config.kafka.topics {
        for partition in partitions(&inquirer, topic, brokers)? {
            if options.until_end {
                let (low, high) = inquirer
                    .fetch_watermarks(topic, partition, TIMEOUT)
                    .with_context(|| format!("can't read the end of {topic} [{partition}]"))?;
                if low < high {
                    ends.insert((topic.clone(), partition), high as u64);
                }
            }
        }
    }
    let cluster = cluster_id(inquirer.client(), brokers)?;
    targets.iter().try_for_each(|target| Outbox::hello(&target.peer, HELLO))?;

    let assignment = Assignment::new(cluster, &config.kafka, cutting, targets);
    let consumer: BaseConsumer<Assignment> =
        client.create_with_context(assignment).map_err(wrong_properties)?;
    let _ = shown.set(consumer.context().clone());
    let _ends = match config.metrics {
        Some(_) => Some(Ends::start(inquirer, consumer.context().clone())?),
        None => None,
    };
    let topics: Vec<&str> = config.kafka.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics).map_err(|error| anyhow!("can't read {topics:?}: {error}"))?;
    tracing::info!(?topics, group = config.kafka.group, peer = %config.peer, "sending windows");
    systemd::ready(&format!("sending windows of {} to {}", topics.join(", "), config.peer));

    let mut sending = Sending {
        rules: Rules::new(config),
        memory_bytes_max: config.window.memory_bytes_max(),
        ends: options.until_end.then_some(ends),
        consumer,
        logged: None,
        say_unassigned_at: Instant::now() + UNASSIGNED,
    };
    let ended = sending.run();
    systemd::stopping();
    let left = sending.end(ended.is_ok());
    ended.and(left)
}

struct Sending {
    rules: Rules,
    memory_bytes_max: u64,
    /// The offsets at which partitions end for this run.
    ends: Option<BTreeMap<Key, u64>>,
    consumer: BaseConsumer<Assignment>,
    /// The error that was logged last, and when.
    logged: Option<(String, Instant)>,
    /// When the log says that there is no partition, if none comes before.
    say_unassigned_at: Instant,
}

impl Sending {
    fn run(&mut self) -> Result<()> {
        while !stop::is_asked() {
            systemd::alive();
            self.read()?;
            self.advance()?;
            if self.has_ended()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the records of a short time.
    fn read(&mut self) -> Result<()> {
        let (mut first, mut bytes) = (None::<Instant>, 0);
        for _ in 0..BATCH {
            let wait = first.map_or(POLL, |first| LOOK.saturating_sub(first.elapsed()));
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => bytes += self.take(&message),
                Some(Err(KafkaError::PartitionEOF(number))) => self.note_end(number),
                Some(Err(error)) => self.check(error)?,
            }
            if bytes > self.memory_bytes_max / MEMORY_SHARE {
                break;
            }
            first.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Returns the bytes that the record takes.
    fn take(&self, message: &BorrowedMessage<'_>) -> u64 {
        let mut record = record(message);
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let (group, exact) = self.rules.group(now_ms as i64, &mut record);
        let mut state = self.consumer.context().state();
        let key = (message.topic().to_owned(), message.partition());
        let Some(partition) = state.partitions.get_mut(&key) else { return 0 };
        let before = partition.bytes();
        if exact == Some(Exact::WrongTime) {
            partition.note_untimed(record.offset);
        }
        partition.push(&record, group, self.rules.number(&record, group));
        partition.bytes().saturating_sub(before) as u64
    }

    /// Notes that a partition was read to its end, of the only topic. Its last offsets may have no
    /// record: transactions end with one of their own.
    fn note_end(&self, number: i32) {
        let (Some(ends), mut state) = (&self.ends, self.consumer.context().state()) else { return };
        for (key, partition) in &mut state.partitions {
            if let Some(end) = ends.get(key).filter(|_| key.1 == number) {
                partition.skip_to(*end);
            }
        }
    }

    /// The offset that a partition reads next isn't there: its records have expired, or the topic
    /// is another one. librdkafka doesn't name the partition.
    ///
    /// # Errors
    /// A partition ends before the offset up to which it was read.
    fn find_expired(&self) -> Result<()> {
        let keys: Vec<Key> = self.consumer.context().state().partitions.keys().cloned().collect();
        let mut again = TopicPartitionList::new();
        for key in keys {
            let (topic, number) = &key;
            let ends = patiently(|| self.consumer.fetch_watermarks(topic, *number, TIMEOUT));
            let (low, high) = ends.with_context(|| format!("can't read the ends of {topic}"))?;
            let mut state = self.consumer.context().state();
            let Some(partition) = state.partitions.get_mut(&key) else { continue };
            let [low, high] = [low, high].map(|end| end.max(0) as u64);
            if high < partition.next() {
                return Err(partition.backwards(high).into());
            }
            if low > partition.next() {
                partition.expire(low);
            }
            partition.set_paused(false);
            let next = Offset::Offset(partition.next() as i64);
            again.add_partition_offset(topic, *number, next)?;
        }
        // A partition that failed is read on only if it is assigned once more.
        match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => {
                self.consumer.incremental_unassign(&again)?;
                self.consumer.incremental_assign(&again)?;
            }
            _ => self.consumer.assign(&again)?,
        }
        Ok(())
    }

    /// Fails for errors that don't pass by themselves.
    fn check(&mut self, error: KafkaError) -> Result<()> {
        let reason = self.consumer.context().reason();
        let code = error.rdkafka_error_code();
        let is_lasting = matches!(error, KafkaError::MessageConsumptionFatal(_))
            || matches!(
                code,
                Some(
                    RDKafkaErrorCode::UnknownTopicOrPartition
                        | RDKafkaErrorCode::UnknownTopic
                        | RDKafkaErrorCode::TopicAuthorizationFailed
                        | RDKafkaErrorCode::GroupAuthorizationFailed
                        | RDKafkaErrorCode::SaslAuthenticationFailed
                        | RDKafkaErrorCode::Authentication
                )
            );
        if is_lasting {
            bail!("reading failed: {error}{reason}");
        }
        if matches!(
            code,
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
        ) {
            return self.find_expired();
        }
        let text = format!("{error}{reason}");
        let is_known = self
            .logged
            .as_ref()
            .is_some_and(|(logged, at)| *logged == text && at.elapsed() < LOG_INTERVAL);
        if !is_known {
            tracing::warn!("reading failed, and is tried again: {text}");
            self.logged = Some((text, Instant::now()));
        }
        Ok(())
    }

    /// Commits confirmed windows, closes those of idle partitions, and pauses and resumes.
    fn advance(&mut self) -> Result<()> {
        let mut positions = Vec::new();
        let mut state = self.consumer.context().state();
        if let Some(why) = state.failure.take() {
            bail!(why);
        }
        for (key, partition) in &mut state.partitions {
            partition.close_if_idle();
            partition.send_open();
            if let Some(position) = partition.advance()? {
                positions.push((key.clone(), position));
            }
        }
        self.bound_memory(&mut state);
        let now = Instant::now();
        if !state.partitions.is_empty() {
            self.say_unassigned_at = now + UNASSIGNED;
        } else if now >= self.say_unassigned_at {
            self.say_unassigned_at = now + LOG_INTERVAL;
            tracing::info!(
                "no partition is assigned: other members of the group have them all, or one has \
                 ended without leaving and `session.timeout.ms` isn't over"
            );
        }
        drop(state);
        warn_of_commit(commit(&self.consumer, positions, CommitMode::Async));
        Ok(())
    }

    /// Pauses partitions whose windows wait for the receiver, and all of them while windows take
    /// more memory than they may. Resumes the others.
    fn bound_memory(&self, state: &mut State) {
        let bytes = |partition: &Partition| partition.bytes() as u64;
        let is_over = state.partitions.values().map(bytes).sum::<u64>() > self.memory_bytes_max;
        if is_over && state.partitions.values().all(|partition| partition.unconfirmed() == 0) {
            // Nothing would become free: the largest window closes early.
            let largest = state.partitions.values_mut().max_by_key(|p| p.open_bytes());
            largest.into_iter().for_each(Partition::close);
        }
        let (mut to_pause, mut to_resume) = (TopicPartitionList::new(), TopicPartitionList::new());
        for ((topic, number), partition) in &mut state.partitions {
            let must_wait = partition.is_full() || is_over;
            if must_wait != partition.is_paused() {
                let list = if must_wait { &mut to_pause } else { &mut to_resume };
                list.add_partition(topic, *number);
                partition.set_paused(must_wait);
            }
        }
        if to_pause.count() > 0 {
            warn_of(self.consumer.pause(&to_pause));
        }
        if to_resume.count() > 0 {
            warn_of(self.consumer.resume(&to_resume));
        }
    }

    /// Whether everything is confirmed that the topics had at the start. Then no window is open.
    fn has_ended(&self) -> Result<bool> {
        let Some(ends) = &self.ends else { return Ok(false) };
        let mut state = self.consumer.context().state();
        for (key, partition) in &mut state.partitions {
            if ends.get(key).is_some_and(|end| partition.has_read(*end)) {
                partition.close();
            }
        }
        let is_done = |(key, end): (&Key, &u64)| {
            state.partitions.get(key).is_some_and(|p| p.has_read(*end) && p.is_done())
        };
        Ok(ends.iter().all(is_done))
    }

    /// Waits for windows on their way, commits them, and leaves the group.
    ///
    /// # Errors
    /// The commit failed: the next run sends these windows again.
    fn end(&self, is_good: bool) -> Result<()> {
        tracing::info!("ending: waiting for windows on their way");
        let deadline = Instant::now() + if is_good { SETTLE } else { Duration::ZERO };
        let mut state = self.consumer.context().state();
        let partitions = std::mem::take(&mut state.partitions);
        let mut counts: Vec<_> = state.past.values().copied().collect();
        drop(state);
        let (mut positions, mut unconfirmed) = (Vec::new(), 0);
        for (key, mut partition) in partitions {
            positions.extend(partition.settle(deadline).map(|position| (key, position)));
            counts.push(partition.counts());
            unconfirmed += partition.unconfirmed();
        }
        let committed = commit(&self.consumer, positions, CommitMode::Sync);
        self.consumer.unsubscribe();
        let records: u64 = counts.iter().map(|counts| counts.records).sum();
        let confirmed: u64 = counts.iter().map(|counts| counts.confirmed).sum();
        tracing::info!(records, confirmed, "ended");
        if unconfirmed > 0 {
            tracing::warn!(windows = unconfirmed, "not confirmed: the next run sends them again");
        }
        committed.context("committing offsets failed, so the next run sends these windows again")
    }
}

fn warn_of<T>(result: Result<T, KafkaError>) {
    if let Err(error) = result {
        tracing::warn!("can't pause or resume: {error}");
    }
}
