//! Shared by the kernel tests: the capabilities they need, packets, and programs run without an
//! interface.

pub mod capability;
pub mod packets;
pub mod prog_run;
