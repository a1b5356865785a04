//! The sender's policy for requests of its receiver.

use super::group::parse_msr;
use crate::error::Error;
use atp_proto::RequestPolicy;

/// The requests that a job obeys, from [`Receiver::request_msr`](crate::Receiver::request_msr)
/// and [`Receiver::request_end`](crate::Receiver::request_end).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Requests {
    /// Any sampling rate of a group that isn't exact, and the job's end.
    #[default]
    Obey,
    /// Nothing.
    Refuse,
    /// Sampling rates in bounds. A request beyond a bound sets the bound.
    Within {
        /// The lowest sampling rate, 0 to 1.
        msr_min: f64,
        /// The highest sampling rate, `msr_min` to 1.
        msr_max: f64,
        /// Whether it may end the job.
        may_end: bool,
    },
}

impl Requests {
    pub(super) fn policy(self) -> Result<RequestPolicy, Error> {
        match self {
            Self::Obey => Ok(RequestPolicy::OBEY),
            Self::Refuse => Ok(RequestPolicy::REFUSE),
            Self::Within { msr_min, msr_max, may_end } => {
                let (least, most) = (parse_msr(msr_min)?, parse_msr(msr_max)?);
                if least > most {
                    return Err(Error::RequestBounds { least: msr_min, most: msr_max });
                }
                Ok(RequestPolicy { msr: Some((least, most)), may_end })
            }
        }
    }
}
