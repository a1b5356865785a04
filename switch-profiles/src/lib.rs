//! Switches: queue profiles as data, and what they become on a platform.

mod profile;
mod read;
mod render_tc;

pub use profile::{Profile, QUEUES, Queue};
pub use read::ProfileError;
pub use render_tc::{Fidelity, QueueNote, TcKernel, TcRendering, render_tc};
