//! The bytes of a message: the job's own copy, or the application's memory.

use atp_common::wire::HEADER_LEN;
use std::{ops::Deref, sync::Arc};

/// A message's bytes, until they are no longer needed.
#[derive(Debug)]
pub enum Data {
    /// Copied when the message was handed over.
    Own(Own),
    /// Still the application's as well.
    Shared(Arc<[u8]>),
}

/// A copy of a message, with room for a header before it: if it is one packet, that lies in one piece.
#[derive(Debug)]
pub struct Own(Box<[u8]>);

impl Own {
    /// A copy of `data`, in used memory if that is as long.
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

    /// Writes the header of the packet that is the whole message.
    pub fn write_head(&mut self, head: &[u8; HEADER_LEN]) {
        self.0[..HEADER_LEN].copy_from_slice(head);
    }

    /// Header and message.
    pub fn packet(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Own {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[HEADER_LEN..]
    }
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
        Self::Shared(Arc::default())
    }
}
