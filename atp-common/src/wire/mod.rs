//! What goes over the network: a fixed 32-byte header at the start of every UDP payload, and the
//! bodies of the control packets. Everything is big-endian.
//!
//! Anything read here may come from anybody: unknown versions, kinds and flags are refused.

mod fin;
mod header;
mod probe;
mod receipt;
mod reset;

pub use fin::{FIN_BODY_LEN_MAX, FIN_GROUPS_MAX, FIN_PAGES_MAX, FinBody, FinGroup};
pub use header::{
    COUNT_MAX, Fields, Flags, HEADER_LEN, Header, Kind, ParseError, SEGMENTATION_BITS, U24_MAX,
    VERSION,
};
pub use probe::{
    EpochArrivals, PROBE_EPOCHS, PROBE_LEN, PROBE_SLOTS, PROBE_WORDS, ProbeBody, probe_packet,
};
pub use receipt::{RECEIPT_MESSAGE_MAX, RECEIPT_WORDS_MAX, ReceiptBody, ReceiptWord};
pub use reset::ResetReason;
