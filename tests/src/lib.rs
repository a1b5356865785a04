//! Helpers of the kernel tests: requirements, packets, and eBPF programs that run without an
//! interface.

pub mod capability;
pub mod chain;
pub mod kernel_lock;
pub mod packets;
pub mod prog_run;
pub mod took;
