//! Samples and answers as bytes, for other processes, languages and versions: JSON, as the guide's
//! page *Stored samples* states it.
//!
//! The fields are those of the structures. A change of one is a new version, and a test holds the
//! bytes of this one. Bytes come from outside: each structure checks itself before it is used.

mod answers;
mod cells;
pub(crate) mod checked;
mod group_by;
mod keyed;
mod moments;
pub(crate) mod number;
mod sample;
pub(crate) mod strata;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::AnswerError;
use checked::Checked;

/// The version that is written. Others aren't read.
const VERSION: u32 = 1;

/// A structure that is stored.
pub(crate) trait Stored: Serialize + DeserializeOwned {
    /// The name of the format.
    const FORMAT: &'static str;

    /// Checks what no type says.
    fn check(&self) -> Checked;
}

/// The bytes as they are written.
#[derive(Serialize)]
struct Writing<'a, T> {
    format: &'a str,
    version: u32,
    data: &'a T,
}

/// The part of all versions.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading<T> {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    data: T,
}

pub(crate) fn to_bytes<T: Stored>(data: &T) -> Vec<u8> {
    let written = Writing { format: T::FORMAT, version: VERSION, data };
    // Memory takes all bytes, and the keys of all maps are texts or numbers.
    serde_json::to_vec(&written).unwrap_or_default()
}

pub(crate) fn from_bytes<T: Stored>(bytes: &[u8]) -> Result<T, AnswerError> {
    let unread = |reason: String| AnswerError::Decode { format: T::FORMAT, reason };
    let head: Head = serde_json::from_slice(bytes).map_err(|error| unread(error.to_string()))?;
    if head.format != T::FORMAT {
        return Err(unread(format!("their format is {:?}", shortened(&head.format))));
    }
    if head.version != VERSION {
        let other = head.version;
        return Err(unread(format!(
            "their version is {other}, and this program reads {VERSION}; update the older one"
        )));
    }
    let read: Reading<T> =
        serde_json::from_slice(bytes).map_err(|error| unread(error.to_string()))?;
    read.data.check().map_err(unread)?;
    Ok(read.data)
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
