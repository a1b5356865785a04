//! A measured job: its messages, its schemes, its processes in the hosts of a testbed, and the
//! exact traffic beside it. `run` compares schemes with it, and benchmarks measure single jobs.

pub mod accepted;
pub mod answer;
pub mod clock;
mod control;
pub mod exact;
pub mod exact_traffic;
mod fleet;
pub mod intervals;
pub mod messages;
pub mod progress;
pub mod protocol;
pub mod query;
pub mod scheme_name;
mod schemes;
pub mod session;
pub mod table;
mod tcp;
pub mod worker;

use atp_options::quantity;

/// Parses the MSR of a measured job, which needs at least one message.
pub fn msr(text: &str) -> Result<f64, String> {
    match quantity::msr(text)? {
        0.0 => {
            Err("the MSR must be above 0: a job that needs no message measures nothing".to_owned())
        }
        msr => Ok(msr),
    }
}
