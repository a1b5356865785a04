//! How a job was delivered: facts that decide whether a sample can be trusted.

use crate::Warning;

/// How the transport chose the messages. An answer warns if the choice may bias it.
///
/// The default is a job in no particular order, with messages of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The sender sent messages with the fewest remaining bytes first (`JobBuilder::mrdf`).
    pub is_mrdf: bool,
    /// The messages follow an order of the data, such as time.
    pub is_ordered: bool,
    /// The job ended before each message was tried once.
    pub stopped_early: bool,
    /// The shortest and the longest message that arrived, bytes.
    pub message_bytes: Option<(u64, u64)>,
}

impl Delivery {
    /// Notes the length of a message.
    pub fn note_message_bytes(&mut self, bytes: u64) {
        let (least, most) = self.message_bytes.unwrap_or((bytes, bytes));
        self.message_bytes = Some((least.min(bytes), most.max(bytes)));
    }

    /// The facts of two parts of a job.
    pub fn merge(&mut self, other: &Self) {
        self.is_mrdf |= other.is_mrdf;
        self.is_ordered |= other.is_ordered;
        self.stopped_early |= other.stopped_early;
        if let Some((least, most)) = other.message_bytes {
            self.note_message_bytes(least);
            self.note_message_bytes(most);
        }
    }

    /// The warnings of an incomplete job.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Warning> {
        let unequal = self.message_bytes.filter(|(least, most)| self.is_mrdf && least != most);
        let unequal =
            unequal.map(|(bytes_min, bytes_max)| Warning::UnequalSizes { bytes_min, bytes_max });
        let stopped = self.is_ordered && self.stopped_early;
        unequal.into_iter().chain(stopped.then_some(Warning::StoppedEarly))
    }
}
