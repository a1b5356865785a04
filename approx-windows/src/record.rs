//! Records, and their encoding: that of postcard, one record after the other.

use crate::error::MalformedError;
use serde::{Deserialize, Serialize};

/// A record of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The record's place in its stream.
    pub offset: u64,
    /// Event time, milliseconds since 1970; `None` if the record has none.
    pub timestamp_ms: Option<i64>,
    /// The key, if there is one.
    pub key: Option<Vec<u8>>,
    /// The value; `None` for a tombstone.
    pub value: Option<Vec<u8>>,
    /// Names and values of the headers, in their order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A record that borrows its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// As [`Record::offset`].
    pub offset: u64,
    /// As [`Record::timestamp_ms`].
    pub timestamp_ms: Option<i64>,
    /// As [`Record::key`].
    pub key: Option<&'a [u8]>,
    /// As [`Record::value`].
    pub value: Option<&'a [u8]>,
    /// As [`Record::headers`].
    pub headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

impl RecordRef<'_> {
    /// The record with bytes of its own.
    pub fn to_record(&self) -> Record {
        let header =
            |(name, value): &(&str, Option<&[u8]>)| ((*name).to_owned(), value.map(<[u8]>::to_vec));
        Record {
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key.map(<[u8]>::to_vec),
            value: self.value.map(<[u8]>::to_vec),
            headers: self.headers.iter().map(header).collect(),
        }
    }
}

/// A record as it is sent. Offset and timestamp are relative to the window's.
#[derive(Serialize, Deserialize)]
struct Encoded<'a> {
    offset: u64,
    timestamp_ms: Option<i64>,
    #[serde(borrow, with = "serde_bytes")]
    key: Option<&'a [u8]>,
    #[serde(borrow, with = "serde_bytes")]
    value: Option<&'a [u8]>,
    #[serde(borrow)]
    headers: Vec<(&'a str, Option<Bytes<'a>>)>,
}

#[derive(Serialize, Deserialize)]
struct Bytes<'a>(#[serde(borrow, with = "serde_bytes")] &'a [u8]);

/// The offset and the timestamp that those of a window's records are relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) offset: u64,
    pub(crate) timestamp_ms: i64,
}

/// Appends a record to `out`.
pub(crate) fn encode(record: &RecordRef<'_>, base: Base, out: &mut Vec<u8>) {
    let header = |(name, value): &(_, Option<_>)| (*name, value.map(Bytes));
    let encoded = Encoded {
        offset: record.offset.wrapping_sub(base.offset),
        timestamp_ms: record.timestamp_ms.map(|time_ms| time_ms.wrapping_sub(base.timestamp_ms)),
        key: record.key,
        value: record.value,
        headers: record.headers.iter().map(header).collect(),
    };
    let buffer = std::mem::take(out);
    // Writing into memory fails for no value of these types.
    *out = postcard::to_extend(&encoded, buffer).expect("bytes, numbers and texts");
}

/// The records of a message, one after the other.
pub(crate) fn decode(
    mut bytes: &[u8],
    base: Base,
) -> impl Iterator<Item = Result<RecordRef<'_>, MalformedError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        match postcard::take_from_bytes::<Encoded<'_>>(bytes) {
            Ok((encoded, rest)) => {
                bytes = rest;
                Some(Ok(decoded(encoded, base)))
            }
            Err(error) => {
                bytes = &[];
                Some(Err(MalformedError::Record(error)))
            }
        }
    })
}

fn decoded(encoded: Encoded<'_>, base: Base) -> RecordRef<'_> {
    let Encoded { offset, timestamp_ms, key, value, headers } = encoded;
    RecordRef {
        offset: offset.wrapping_add(base.offset),
        timestamp_ms: timestamp_ms.map(|time_ms| time_ms.wrapping_add(base.timestamp_ms)),
        key,
        value,
        headers: headers.into_iter().map(|(name, value)| (name, value.map(|v| v.0))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, option, prelude::*};

    fn record() -> impl Strategy<Value = Record> {
        let bytes = || option::of(vec(any::<u8>(), 0..40));
        let headers = vec((".{0,8}", bytes()), 0..4);
        (any::<u64>(), any::<Option<i64>>(), bytes(), bytes(), headers).prop_map(
            |(offset, timestamp_ms, key, value, headers)| Record {
                offset,
                timestamp_ms,
                key,
                value,
                headers,
            },
        )
    }

    fn borrowed(record: &Record) -> RecordRef<'_> {
        let headers = record.headers.iter();
        RecordRef {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: headers.map(|(name, value)| (name.as_str(), value.as_deref())).collect(),
        }
    }

    proptest! {
        #[test]
        fn decode__gives_what_was_encoded(
            records in vec(record(), 0..6),
            offset: u64,
            timestamp_ms: i64,
        ) {
            let base = Base { offset, timestamp_ms };
            let mut bytes = Vec::new();
            records.iter().for_each(|record| encode(&borrowed(record), base, &mut bytes));
            let decoded: Result<Vec<_>, _> = decode(&bytes, base).collect();
            let decoded: Vec<_> = decoded.unwrap().iter().map(RecordRef::to_record).collect();
            prop_assert_eq!(decoded, records);
        }

        /// Bytes of another host are records or an error, and take no memory that isn't theirs.
        #[test]
        fn decode__of_any_bytes_ends(bytes in vec(any::<u8>(), 0..200)) {
            let records: Vec<_> = decode(&bytes, Base::default()).collect();
            prop_assert!(records.len() <= bytes.len());
            let errors = records.iter().filter(|record| record.is_err()).count();
            prop_assert!(errors <= 1);
        }
    }
}
