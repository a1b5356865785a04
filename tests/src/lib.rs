//! What the kernel tests share: what they need of a machine, packets, and programs run without an
//! interface.

pub mod capability;
pub mod hosts;
pub mod packets;
pub mod prog_run;
