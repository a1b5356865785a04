//! Queue profiles of switch ports: reads and checks them, and renders them for a platform.

mod parse;
mod profile;
mod render_tc;

pub use parse::ProfileError;
pub use profile::{Profile, QUEUES, Queue};
pub use render_tc::{Fidelity, QueueNote, TcKernel, TcRendering, render_tc};
