//! Receiver advice: the receiving host divides its line among the approximate lanes that arrive,
//! and each sender limits its rate law by the result.
//!
//! | file | contents |
//! |---|---|
//! | `lane` | what the receiving host knows of a lane: arrivals, demand, whether it is active |
//! | `fill` | the receiving host: max-min fair rates of all lanes |
//! | `floor` | the sender: the least part of the advice, an eighth or a quarter |
//! | `limit` | the sender: the rate between that part of the advice and the advice; uneven gaps |
//!
//! The theory is in docs/src/control/advice.md.

mod fill;
mod floor;
mod lane;
mod limit;

pub use fill::{available, fill, left_beside, queues_are_deep};
pub use floor::Floor;
pub use lane::{Arrivals, LaneArrivals, Span};
pub use limit::{AdviceLimit, uneven_bytes};

/// The window of arrivals in a datapath whose controller runs every 2 ms.
pub const WINDOW_NS: u64 = 10_000_000;

/// A lane is silent only after it could have sent this many packets at its advice.
const PACKETS_MIN: u64 = 4;

/// A full packet on an Ethernet line.
const FULL_PACKET_BYTES: u64 = 1_538;
