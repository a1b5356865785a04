//! Tables as Arrow record batches in the messages of a lossy job.
//!
//! A [`Frame`] divides a table into messages for a sender, and a [`FrameReader`] gives a receiver
//! the rows of each message that arrived. The header and any of the messages, one after the other,
//! are a [stream of Arrow's IPC format](https://arrow.apache.org/docs/format/Columnar.html).
//! [`TableAnswering`] answers a query of a table that arrives so, or as CSV; [`TableRows`] keeps
//! its rows.

mod answering;
mod batch_check;
mod batch_rows;
mod body;
mod columns;
mod error;
mod frame;
mod messages;
mod permutation;
mod reader;
mod readers;
mod row_bytes;
mod rows;
mod schema_check;
mod times;
mod wire;

pub use answering::TableAnswering;
pub use error::FrameError;
pub use frame::Frame;
pub use messages::Messages;
pub use reader::FrameReader;
pub use rows::TableRows;
