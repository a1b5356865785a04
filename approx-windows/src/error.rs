//! The errors of windows.

use crate::stream::Stream;

/// Bytes of a sender that are no window.
#[derive(Debug, thiserror::Error)]
pub enum MalformedError {
    /// A message of no kind that is known.
    #[error("a message of an unknown kind or version: both ends must have the same version of ATP")]
    Kind,
    /// The header can't be read.
    #[error("its header is damaged: {0}")]
    Header(postcard::Error),
    /// The header contradicts itself.
    #[error("its header is wrong: {0}")]
    WrongHeader(&'static str),
    /// There is none, or a second one.
    #[error("it has no header, or several")]
    HeaderCount,
    /// A record can't be read.
    #[error("a record is damaged: {0}")]
    Record(postcard::Error),
    /// A record that isn't of the window.
    #[error("it has record {0}, which its header doesn't name, or twice")]
    Foreign(u64),
}

/// A receiver of windows failed.
#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] approxlib::Error),
}

/// A sender of windows failed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The transport failed, or the peer.
    #[error("sending windows of {stream} to {peer} failed: {cause}")]
    Transport {
        /// The stream.
        stream: Box<Stream>,
        /// The peer.
        peer: String,
        /// The cause.
        cause: approxlib::Error,
    },
    /// No receiver answers at the peer's address.
    #[error("no receiver of windows answers at {peer}: {cause}")]
    NoReceiver {
        /// The peer.
        peer: String,
        /// The cause.
        cause: approxlib::Error,
    },
    /// The peer is no receiver of windows.
    #[error(
        "the program at {peer} takes messages, but confirms no windows: start a receiver of \
         windows there"
    )]
    NoWindows {
        /// The peer.
        peer: String,
    },
    /// The receiver doesn't want more.
    #[error(
        "the receiver at {peer} refused a window of {stream}: its log says why, such as windows \
         that need more than its `memory_max`"
    )]
    EndedByReceiver {
        /// The stream.
        stream: Box<Stream>,
        /// The peer.
        peer: String,
    },
    /// A sampling rate that is none.
    #[error("the rate of group {group:?} must lie between 0 and 1, not {msr}")]
    Rate {
        /// The group.
        group: String,
        /// The rate.
        msr: f64,
    },
    /// A group's name that has a meaning already.
    #[error("the group {0:?} is one of ATP's: give it another name")]
    GroupName(String),
    /// Too many groups.
    #[error("{groups} groups: there can be {groups_max} at most")]
    Groups {
        /// The number.
        groups: usize,
        /// The limit.
        groups_max: usize,
    },
}

/// A record that a sender of windows doesn't take.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Offsets ascend.
    #[error("offset {offset} follows {last}: offsets must ascend")]
    Order {
        /// The record's offset.
        offset: u64,
        /// The one before.
        last: u64,
    },
    /// The group's name is unknown.
    #[error("there is no group {name:?}: the groups are {groups}")]
    NoGroup {
        /// The name.
        name: String,
        /// The names of the groups.
        groups: String,
    },
}
