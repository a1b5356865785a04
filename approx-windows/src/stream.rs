//! The identity of a stream.

use serde::{Deserialize, Serialize};

/// A stream of records with ascending offsets: a partition, as one group of consumers reads it.
///
/// Offsets are counted once per stream. Another group's name makes another stream of the same
/// partition: that is how a partition is read a second time on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// The id of the cluster.
    pub cluster: String,
    /// The group of consumers to which the sender belongs.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The topic's id, which another topic of the same name doesn't have. Empty if it has none.
    pub topic_id: String,
    /// The partition of the topic.
    pub partition: u32,
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}]", self.topic, self.partition)
    }
}
