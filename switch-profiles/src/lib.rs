//! Queue profiles of switch ports: reads and checks them, and renders them for a platform.

mod parse;
mod profile;
mod render_tc;
mod role;

pub use parse::ProfileError;
pub use profile::{Profile, QUEUES, Queue};
pub use render_tc::{Fidelity, QueueNote, TcKernel, TcRendering, render_tc, render_tc_limits};
pub use role::{PerRole, PortRole};
