//! The readers of a table that several senders send, each with a header of its own.

use crate::{FrameError, FrameReader};
use approx_answers::QueryError;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, SchemaRef};
use std::collections::HashMap;

/// The most bytes of headers that differ from the first one.
const HEADERS_BYTES_MAX: usize = 256 << 20;

/// The readers of a table. The headers of frames with the same columns may differ: in their
/// dictionaries, and in what pandas says of its index.
#[derive(Clone, Debug)]
pub struct Readers {
    first: FrameReader,
    /// By the strata of the other headers.
    others: HashMap<u32, FrameReader>,
    bytes: usize,
}

impl Readers {
    /// The reader of the first header.
    pub fn new(header: &[u8]) -> Result<Self, FrameError> {
        Ok(Self { first: FrameReader::new(header)?, others: HashMap::new(), bytes: 0 })
    }

    pub fn schema(&self) -> &SchemaRef {
        self.first.schema()
    }

    /// Takes the header of another stratum, whose columns have the same names, and the same types
    /// where `types` matter.
    pub fn join(&mut self, stratum: u32, header: &[u8], types: bool) -> Result<(), QueryError> {
        let refused = |reason: String| QueryError::Message { reason };
        if !FrameReader::is_header(header) {
            return Err(differs("it isn't Arrow's, as that of another sender is"));
        }
        let bytes = self.bytes + header.len();
        if bytes > HEADERS_BYTES_MAX {
            return Err(refused("too many headers differ from that of another sender".to_owned()));
        }
        let reader = FrameReader::new(header).map_err(|error| refused(error.to_string()))?;
        let is_same = |(one, other): (&Field, &Field)| {
            one.name() == other.name()
                && (!types || one.data_type() == other.data_type())
                && (!types || one.is_nullable() == other.is_nullable())
        };
        let (ours, theirs) = (self.schema().fields(), reader.schema().fields());
        let pairs = || ours.iter().map(AsRef::as_ref).zip(theirs.iter().map(AsRef::as_ref));
        if let Some((one, other)) = pairs().find(|pair| !is_same(*pair)) {
            let [one, other] =
                [one, other].map(|field| format!("{:?} of {}", field.name(), field.data_type()));
            return Err(differs(&format!("it has a column {other} in the place of {one}")));
        }
        if ours.len() != theirs.len() {
            let (ours, theirs) = (ours.len(), theirs.len());
            return Err(differs(&format!("it has {theirs} columns, and another sender's {ours}")));
        }
        self.others.insert(stratum, reader);
        self.bytes = bytes;
        Ok(())
    }

    /// The type of a column's values, if all headers agree.
    pub fn value_type(&self, column: usize) -> Option<&DataType> {
        let first = value_type(&self.first, column)?;
        let agree = self.others.values().all(|other| value_type(other, column) == Some(first));
        agree.then_some(first)
    }

    pub fn read(&self, stratum: u32, message: &[u8]) -> Result<RecordBatch, FrameError> {
        self.others.get(&stratum).unwrap_or(&self.first).read(message)
    }
}

/// The type of a column's values, which a dictionary may hold.
fn value_type(reader: &FrameReader, column: usize) -> Option<&DataType> {
    Some(match reader.schema().fields().get(column)?.data_type() {
        DataType::Dictionary(_, values) => values,
        plain => plain,
    })
}

/// A header that belongs to another table.
pub fn differs(how: &str) -> QueryError {
    QueryError::Message { reason: format!("{how}: receive them apart, by job or by address") }
}
