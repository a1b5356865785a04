//! The bytes of a message: the job's own copy, or the application's memory.

use std::{ops::Deref, sync::Arc};

/// A message's bytes, until they are no longer needed.
#[derive(Debug)]
pub enum Data {
    /// Copied when the message was handed over.
    Own(Box<[u8]>),
    /// Still the application's as well.
    Shared(Arc<[u8]>),
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(data) => data,
            Self::Shared(data) => data,
        }
    }
}

impl Default for Data {
    fn default() -> Self {
        Self::Own(Box::default())
    }
}

impl From<Box<[u8]>> for Data {
    fn from(data: Box<[u8]>) -> Self {
        Self::Own(data)
    }
}
