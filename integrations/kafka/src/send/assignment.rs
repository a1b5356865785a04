//! The partitions that the group assigns to this process, and takes away.

use super::{
    committed::{self, Committed},
    partition::{Counts, Cutting, Partition},
    times::{Buckets, Of, Times},
};
use crate::{
    client::{Logged, TIMEOUT, patiently, texts},
    config::{SourceKafka, Start},
    topic_id::topic_id,
};
use anyhow::Result;
use approx_windows::{Position, Stream, Target};
use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult},
    types::RDKafkaRespErr,
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long windows that were sent may take to be confirmed before their partition goes to another
/// process, which would send them again.
const SETTLE: Duration = Duration::from_secs(3);

/// A topic and a partition of it.
pub type Key = (String, i32);

/// The partitions of this process. librdkafka calls it while it is polled.
pub struct Assignment {
    /// Cluster and group.
    cluster: String,
    group: String,
    /// Where a group without committed offsets begins.
    start: Start,
    cutting: Cutting,
    /// The target of a partition follows from its number.
    targets: Vec<Target>,
    state: Mutex<State>,
    /// The ids of topics, by name, as of the last assignment.
    topic_ids: Mutex<BTreeMap<String, String>>,
    times: Times,
    logged: Logged,
}

/// The partitions, and whether the process must end.
#[derive(Debug, Default)]
pub struct State {
    /// The partitions that are assigned.
    pub partitions: BTreeMap<Key, Partition>,
    /// The counts of those that were assigned before.
    pub past: BTreeMap<Key, Counts>,
    /// The reason why the process must end.
    pub failure: Option<String>,
}

impl Assignment {
    /// No partition yet.
    pub fn new(
        cluster: String,
        kafka: &SourceKafka,
        cutting: Cutting,
        targets: Vec<Target>,
    ) -> Self {
        Self {
            cluster,
            group: kafka.group.clone(),
            start: kafka.start,
            cutting,
            targets,
            state: Mutex::default(),
            topic_ids: Mutex::default(),
            times: Times::new_with_constructor(Buckets),
            logged: Logged::default(),
        }
    }

    /// The partitions.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The times from the close of windows to their confirmation.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// The error that came last, as the reason of a failure.
    pub fn reason(&self) -> String {
        self.logged.reason()
    }

    /// Takes new partitions. Returns them with the offsets from which they are read.
    fn assign(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &TopicPartitionList,
    ) -> TopicPartitionList {
        let mut asked = TopicPartitionList::new();
        for element in list.elements() {
            asked.add_partition(element.topic(), element.partition());
        }
        let committed = match patiently(|| consumer.committed_offsets(asked.clone(), TIMEOUT)) {
            Ok(committed) => committed,
            Err(error) => {
                self.fail(format!("can't read the committed offsets: {error}"));
                return list.clone();
            }
        };
        if let Err(error) = self.note_topic_ids(consumer, &committed) {
            self.fail(format!("{error:#}"));
            return committed;
        }
        let mut list = TopicPartitionList::new();
        let mut new = Vec::new();
        for (element, text) in committed.elements().iter().zip(texts(&committed)) {
            let key = (element.topic().to_owned(), element.partition());
            match self.begin(consumer, &key, element.offset(), &text) {
                Ok((partition, is_new)) => {
                    let begun = partition.begun();
                    tracing::info!(stream = %partition.stream(), offset = begun.offset, "assigned");
                    if is_new {
                        new.push((key.clone(), begun));
                    }
                    let offset = Offset::Offset(begun.offset as i64);
                    // Names and numbers of an assignment are valid.
                    let _ = list.add_partition_offset(&key.0, key.1, offset);
                    self.state().partitions.insert(key, partition);
                }
                Err(error) => {
                    self.fail(format!("can't begin with {} [{}]: {error:#}", key.0, key.1))
                }
            }
        }
        // Otherwise a later owner would begin elsewhere, at the end of that time.
        if let Err(error) = patiently(|| commit(consumer, new.clone(), CommitMode::Sync)) {
            self.fail(format!("can't commit where the group begins: {error}"));
        }
        list
    }

    /// Asks for the ids of topics.
    fn note_topic_ids(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &TopicPartitionList,
    ) -> Result<()> {
        let mut ids = BTreeMap::new();
        for element in list.elements() {
            if let Entry::Vacant(entry) = ids.entry(element.topic().to_owned()) {
                entry.insert(topic_id(consumer.client(), element.topic(), TIMEOUT)?);
            }
        }
        self.topic_ids.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
        Ok(())
    }

    fn topic_id(&self, topic: &str) -> String {
        let ids = self.topic_ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.get(topic).cloned().unwrap_or_default()
    }

    /// A partition, from its committed offset on, or from where a group without one begins. Returns
    /// whether it is without one.
    fn begin(
        &self,
        consumer: &BaseConsumer<Self>,
        key: &Key,
        committed: Offset,
        text: &str,
    ) -> Result<(Partition, bool)> {
        let topic_id = self.topic_id(&key.0);
        let committed = match committed {
            Offset::Offset(offset) => Committed::of(offset, text),
            _ => None,
        };
        // The offsets of a topic that was deleted are of no use.
        let committed = committed.filter(|known| known.is_of_topic(&topic_id));
        let is_new = committed.is_none();
        let begun = match committed {
            Some(committed) => committed.position,
            None => {
                let (low, high) = patiently(|| consumer.fetch_watermarks(&key.0, key.1, TIMEOUT))?;
                let offset = if self.start == Start::Latest { high } else { low };
                Position::begin(offset.max(0) as u64)
            }
        };
        let stream = Stream {
            cluster: self.cluster.clone(),
            group: self.group.clone(),
            topic: key.0.clone(),
            topic_id,
            partition: key.1 as u32,
        };
        let counts = self.state().past.remove(key).unwrap_or_default();
        let tally = (counts, self.times.get_or_create_owned(&Of::new(&key.0, key.1)));
        let target = self.targets[stream.partition as usize % self.targets.len()].clone();
        let partition = Partition::new(stream, begun, &self.cutting, target, tally)?;
        Ok((partition, is_new))
    }

    /// Commits the epochs of new partitions: a later owner has a greater one.
    fn commit_epochs(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let begun = |key: &Key| self.state().partitions.get(key).map(Partition::begun);
        let keys = list.elements();
        let keys = keys.iter().map(|element| (element.topic().to_owned(), element.partition()));
        let positions = keys.filter_map(|key| begun(&key).map(|begun| (key, begun)));
        warn_of_commit(commit(consumer, positions, CommitMode::Async));
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let is_lost = consumer.assignment_lost();
        let deadline = Instant::now() + SETTLE;
        let mut positions = Vec::new();
        for element in list.elements() {
            let key = (element.topic().to_owned(), element.partition());
            let Some(mut partition) = self.state().partitions.remove(&key) else { continue };
            tracing::info!(stream = %partition.stream(), is_lost, "revoked");
            if !is_lost {
                let position = partition.settle(deadline);
                positions.extend(position.map(|position| (key.clone(), position)));
            }
            self.state().past.insert(key, partition.counts());
        }
        warn_of_commit(commit(consumer, positions, CommitMode::Sync));
    }

    fn fail(&self, why: String) {
        self.state().failure.get_or_insert(why);
    }
}

/// Commits positions, if there are any. After a failure the windows are sent again, and the
/// receiver recognizes them.
///
/// # Errors
/// The brokers refuse, or don't answer.
pub fn commit(
    consumer: &BaseConsumer<Assignment>,
    positions: impl IntoIterator<Item = (Key, Position)>,
    mode: CommitMode,
) -> KafkaResult<()> {
    let mut list = TopicPartitionList::new();
    for ((topic, partition), position) in positions {
        let Ok(offset) = i64::try_from(position.offset) else { continue };
        let mut element = list.add_partition(&topic, partition);
        // Offsets of records are valid, and so are texts of numbers.
        let _ = element.set_offset(Offset::Offset(offset));
        let topic_id = consumer.context().topic_id(&topic);
        element.set_metadata(committed::text(position, &topic_id));
    }
    if list.count() == 0 { Ok(()) } else { consumer.commit(&list, mode) }
}

/// Logs that a commit failed.
pub fn warn_of_commit(outcome: KafkaResult<()>) {
    if let Err(error) = outcome {
        tracing::warn!("committing offsets failed: {error}");
    }
}

impl ClientContext for Assignment {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.logged.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.logged.error(error, reason);
    }
}

impl ConsumerContext for Assignment {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let is_cooperative =
            matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
        let done = match kind {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                let begun = self.assign(consumer, list);
                let done = match is_cooperative {
                    true => consumer.incremental_assign(&begun),
                    false => consumer.assign(&begun),
                };
                self.commit_epochs(consumer, list);
                done
            }
            _ => {
                self.revoke(consumer, list);
                match is_cooperative {
                    true => consumer.incremental_unassign(list),
                    false => consumer.unassign(),
                }
            }
        };
        if let Err(error) = done {
            self.fail(format!("the group's rebalance failed: {error}"));
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        warn_of_commit(result);
    }
}
