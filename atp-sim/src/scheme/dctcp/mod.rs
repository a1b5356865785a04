//! DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) with selective acknowledgements: one byte stream
//! per flow, in which messages stand one after the other.

mod receiver;
mod sender;
mod window;

pub use receiver::DctcpReceiver;
pub use sender::{DctcpSender, DctcpSettings};

/// IP and TCP headers, with the time-stamp option.
const HEADER_BYTES: u32 = 20 + 32;
/// Bytes of the stream in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_448;
