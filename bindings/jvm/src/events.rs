//! Events as bytes for Java, one behind the other in memory of Java.
//!
//! Each begins with its length and its kind. A message's bytes lie at its end.

use crate::{record::Record, reports};
use approxlib::{Event, Receiver};

const MESSAGE: u32 = 1;
const STARTED: u32 = 2;
const TERMS_CHANGED: u32 = 3;
const WINDOW_ENDED: u32 = 4;
const FINISHED: u32 = 5;

/// The length and the kind.
const HEAD_BYTES: usize = 8;
/// A message's fields, from its address to the length of its bytes.
const MESSAGE_BYTES: usize = 24 + 4 + 8 + 4 + 4 + 4 + 4;

/// Writes an event into `room`, and returns how many bytes it took. Returns the event if it needs
/// more bytes than there are.
pub fn write(
    event: Event,
    room: &mut [u8],
    receiver: &mut Receiver,
) -> Result<usize, (Event, usize)> {
    let mut record = Record::default();
    let (kind, data): (u32, &[u8]) = match &event {
        Event::Message { source, job, run, window, group, message, data } => {
            // Messages are the most events by far: their fields need no growing memory.
            record = Record::with_capacity(MESSAGE_BYTES);
            record.address(*source).u32(*job).u64(*run).u32(*window).u32((*group).into());
            // Their lengths fit: the receiver's option has 32 bits.
            record.u32(*message).u32(data.len() as u32);
            (MESSAGE, data)
        }
        Event::Started { source, job, run, terms } => {
            record.address(*source).u32(*job).u64(*run);
            reports::terms(&mut record, terms);
            (STARTED, &[])
        }
        Event::TermsChanged { source, job, run, terms } => {
            record.address(*source).u32(*job).u64(*run);
            reports::terms(&mut record, terms);
            (TERMS_CHANGED, &[])
        }
        Event::WindowEnded { source, job, run, summary } => {
            record.address(*source).u32(*job).u64(*run);
            reports::summary(&mut record, summary);
            (WINDOW_ENDED, &[])
        }
        Event::Finished { source, job, run, summary } => {
            record.address(*source).u32(*job).u64(*run);
            reports::summary(&mut record, summary);
            (FINISHED, &[])
        }
    };
    let fields = record.into_bytes();
    let bytes = HEAD_BYTES + fields.len() + data.len();
    let Some(room) = room.get_mut(..bytes) else { return Err((event, bytes)) };
    let (head, rest) = room.split_at_mut(HEAD_BYTES);
    let (for_fields, for_data) = rest.split_at_mut(fields.len());
    head[..4].copy_from_slice(&(bytes as u32).to_ne_bytes());
    head[4..].copy_from_slice(&kind.to_ne_bytes());
    for_fields.copy_from_slice(&fields);
    for_data.copy_from_slice(data);
    if let Event::Message { data, .. } = event {
        receiver.recycle(data);
    }
    Ok(bytes)
}
