//! The bytes of a message: the job's own copy, or memory of the application.

use super::owned::OwnedMessage;
use atp_common::wire::HEADER_LEN;
use std::{ops::Deref, sync::Arc};

/// A message's bytes, until they are no longer needed.
#[derive(Debug)]
pub enum Data {
    /// Copied by `Job::send_in`.
    Copied(MessageCopy),
    /// Shared with the application (`Job::send_shared`).
    Shared(Arc<[u8]>),
    /// Taken from the application, which gets it back (`Job::send_owned`).
    Owned(OwnedMessage),
}

/// A copy of a message with room for a header in front. A message of one packet then lies in memory
/// in one piece, which the kernel copies faster than two.
#[derive(Debug)]
pub struct MessageCopy(Box<[u8]>);

impl MessageCopy {
    /// A copy of `data`, in the memory of `used` if that has the same length.
    pub fn copy(data: &[u8], used: Option<Self>) -> Self {
        match used {
            Some(mut used) if used.len() == data.len() => {
                used.0[HEADER_LEN..].copy_from_slice(data);
                used
            }
            _ => {
                let mut bytes = Vec::with_capacity(HEADER_LEN + data.len());
                bytes.extend_from_slice(&[0; HEADER_LEN]);
                bytes.extend_from_slice(data);
                Self(bytes.into())
            }
        }
    }

    /// Writes the header of the packet that holds the complete message.
    pub fn write_header(&mut self, header: &[u8; HEADER_LEN]) {
        self.0[..HEADER_LEN].copy_from_slice(header);
    }

    /// Header and message.
    pub fn packet(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for MessageCopy {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[HEADER_LEN..]
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Copied(data) => data,
            Self::Shared(data) => data,
            Self::Owned(data) => data.bytes(),
        }
    }
}

impl Data {
    /// The message's length. It asks no code of the application.
    pub fn len(&self) -> usize {
        match self {
            Self::Copied(data) => data.len(),
            Self::Shared(data) => data.len(),
            Self::Owned(data) => data.len(),
        }
    }
}

impl Default for Data {
    fn default() -> Self {
        Self::Shared(Arc::default())
    }
}
