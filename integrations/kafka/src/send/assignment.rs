//! The partitions that the group assigns to this process, and takes away.

use super::{
    committed::{self, Committed},
    partition::{Counts, Cutting, Partition},
    times::{Buckets, Of, Times},
    worker::Target,
};
use crate::client::{Logged, TIMEOUT, texts};
use approx_windows::{Position, Stream};
use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult},
    types::RDKafkaRespErr,
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long windows that were sent may take to be confirmed before their partition goes to another
/// process, which would send them again.
const SETTLE: Duration = Duration::from_secs(3);

/// The wait between two questions for committed offsets.
const COMMITTED_RETRY: Duration = Duration::from_millis(100);

/// A topic and a partition of it.
pub type Key = (String, i32);

/// The partitions of this process. librdkafka calls it while it is polled.
pub struct Assignment {
    /// Cluster and group.
    cluster: String,
    group: String,
    cutting: Cutting,
    target: Target,
    state: Mutex<State>,
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
    pub fn new(cluster: String, group: String, cutting: Cutting, target: Target) -> Self {
        let (state, times) = (Mutex::default(), Times::new_with_constructor(Buckets));
        Self { cluster, group, cutting, target, state, times, logged: Logged::default() }
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
        let committed = match read_committed(consumer, &asked) {
            Ok(committed) => committed,
            Err(error) => {
                self.fail(format!("can't read the committed offsets: {error}"));
                return list.clone();
            }
        };
        for (element, text) in committed.elements().iter().zip(texts(&committed)) {
            let (topic, partition) = (element.topic().to_owned(), element.partition());
            let begun = match element.offset() {
                Offset::Offset(offset) => position(offset, &text),
                _ => None,
            };
            let stream = Stream {
                cluster: self.cluster.clone(),
                group: self.group.clone(),
                topic: topic.clone(),
                partition: partition as u32,
            };
            tracing::info!(%stream, offset = begun.map(|begun| begun.offset), "assigned");
            let key = (topic, partition);
            let counts = self.state().past.remove(&key).unwrap_or_default();
            let tally = (counts, self.times.get_or_create_owned(&Of::new(&key.0, key.1)));
            match Partition::new(stream, begun, self.cutting, self.target.clone(), tally) {
                Ok(new) => _ = self.state().partitions.insert(key, new),
                Err(error) => self.fail(format!("can't start a thread: {error}")),
            }
        }
        committed
    }

    /// Commits the epochs of new partitions: a later owner has a greater one.
    fn commit_epochs(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let begun = |key: &Key| self.state().partitions.get(key).and_then(Partition::begun);
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

/// The committed offsets. A coordinator that moves or starts refuses for a while.
fn read_committed(
    consumer: &BaseConsumer<Assignment>,
    asked: &TopicPartitionList,
) -> KafkaResult<TopicPartitionList> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = consumer.committed_offsets(asked.clone(), TIMEOUT);
        if answer.is_ok() || Instant::now() >= deadline {
            return answer;
        }
        thread::sleep(COMMITTED_RETRY);
    }
}

/// The position of a committed offset. One that another program committed has the offset alone.
fn position(offset: i64, metadata: &str) -> Option<Position> {
    let offset = u64::try_from(offset).ok()?;
    Some(Committed::parse(offset, metadata).map_or(Position::begin(offset), |known| known.position))
}

/// Commits positions, if there are any. After a failure the windows are sent again, and the receiver
/// recognizes them.
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
        element.set_metadata(committed::text(position));
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
