//! UDP in batches: many packets per system call, and no copy of sent data.
//!
//! - `socket`: a socket with the options that ATP needs, and its error queue;
//! - `send`: sends a batch, with GSO buffers where the host supports them;
//! - `receive`: receives a batch at the sender (ACKs and control packets);
//! - `gro`: receives GRO buffers at the receiver, without copying complete messages;
//! - `wait`: the clock, and sleeping until a socket is ready.

mod gro;
mod receive;
mod send;
mod socket;
mod wait;

pub use gro::{GroBatch, fits_gro_buffer};
pub use receive::ReceiveBatch;
pub use send::{Outgoing, SendBatch};
pub use socket::{PATH_MTU_BYTES_MIN, RECEIVE_BUFFER_BYTES, SocketErrors, UdpSocket};
pub use wait::{Interest, now_ns, shared_ns, wait};

/// The most packets that one system call sends or receives.
pub const BATCH: usize = 64;
