//! The wire format: a fixed 32-byte header at the start of every UDP payload, and the bodies of the
//! control packets. Everything is big-endian.
//!
//! Input may come from anybody: unknown versions, kinds and flags are rejected.

mod ack;
mod advice;
mod display;
mod features;
mod fin;
mod header;
mod kind;
mod name;
mod order;
mod packed;
mod probe;
mod receipt;
mod request;
mod reset;
mod terms;

pub use ack::{ACK_LEN, Ack, arrival};
pub use advice::Advice;
pub use features::Features;
pub use fin::{FIN_BODY_LEN_MAX, FIN_GROUPS_MAX, FIN_PAGES_MAX, FinBody, FinGroup};
pub use header::{
    COUNT_MAX, Fields, HEADER_LEN, Header, ParseError, SEGMENTATION_BITS, U24_MAX, VERSION, WINDOWS,
};
pub use kind::{Flags, Kind};
pub use name::GroupName;
pub use order::Order;
pub use packed::{MEMBER_HEADER_LEN, PackedBody, member_header};
pub use probe::{
    COUNT_WORDS, EpochArrivals, PROBE_BODY_WORDS, PROBE_EPOCHS, PROBE_LEN, PROBE_SLOTS,
    PROBE_WORDS, ProbeBody, probe_packet,
};
pub use receipt::{RECEIPT_MESSAGE_MAX, RECEIPT_WORDS_MAX, ReceiptBody, ReceiptWord};
pub use request::{
    REQUEST_BODY_LEN_MAX, REQUEST_GROUP_LEN, REQUEST_GROUPS_MAX, REQUEST_LEN_MIN, RequestBody,
};
pub use reset::ResetReason;
pub use terms::{TERMS_BODY_LEN_MAX, TERMS_GROUPS_MAX, TERMS_PAGES_MAX, TermsBody, TermsGroup};
