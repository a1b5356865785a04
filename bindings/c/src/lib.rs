//! libatp: the C interface of ApproxLib.
//!
//! The crate translates only: pointers, structures and errors of C to those of [`approxlib`] and
//! [`approx_answers`].
//! `include/atp.h` is generated from it.
//!
//! Handles are numbers in a table and aren't pointers. A handle that was freed, or that belongs to
//! another kind of object, is therefore an error and never a use of freed memory. Numbers aren't
//! used twice.

#![expect(non_camel_case_types, reason = "types have the same names in C")]

mod address;
mod answers;
mod csv;
mod ending;
mod event;
mod forks;
mod inbox;
mod job;
mod memory;
mod options;
mod query;
mod receiver;
mod report;
mod requests;
mod sender;
mod sized;
mod status;
mod table;
mod text;
mod window;

pub use address::{atp_address, atp_address_text};
pub use answers::*;
pub use csv::{atp_csv_options, atp_job_connect_csv};
pub use ending::*;
pub use event::{
    atp_event, atp_event_free, atp_event_group, atp_event_kind, atp_event_terms, atp_group_summary,
    atp_group_terms, atp_range,
};
pub use job::*;
pub use memory::{atp_bytes, atp_release};
pub use options::{
    ATP_MSR_ZERO, atp_flag, atp_group, atp_job_options, atp_job_options_init, atp_receiver_options,
    atp_receiver_options_init, atp_requests,
};
pub use query::*;
pub use receiver::*;
pub use report::{
    atp_group_report, atp_progress, atp_report, atp_sample, atp_short_cause, atp_shortfall,
};
pub use requests::*;
pub use status::{atp_last_error, atp_status, atp_status_name, atp_version};
pub use window::*;
