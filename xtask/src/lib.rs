//! What the project's commands share with its tests: the testbed.

pub mod testbed;
