//! Options of a query, from Java's builders: names and values as texts.

use crate::{
    failure::{Failure, Outcome},
    options::{self, Texts},
};
use approx_answers::{AcceptedError, Confidence, Query};
use approx_session::Accepted;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The options of a query.
pub struct QueryOptions {
    pub confidence: Confidence,
    pub accepted: Option<Accepted>,
    /// The number of senders; 0 if it wasn't given.
    pub senders: u32,
    pub timeout: Duration,
}

/// Parses a query with its options.
pub fn parsed(text: &str, options: &Texts) -> Outcome<(Query, QueryOptions)> {
    let mut parsed =
        QueryOptions { confidence: Confidence::P95, accepted: None, senders: 0, timeout: TIMEOUT };
    let mut ends_in_doubt = false;
    let mut error = None;
    for (name, value) in options::pairs(options) {
        match name {
            "confidence" => parsed.confidence = Confidence::new(options::number(name, value)?)?,
            "emax" => error = Some(relative(options::number(name, value)?)?),
            "emax_absolute" => {
                error = Some(AcceptedError::absolute(options::number(name, value)?)?)
            }
            "end_in_doubt" => ends_in_doubt = options::number(name, value)?,
            "senders" => parsed.senders = senders(value)?,
            "timeout" => parsed.timeout = timeout(options::duration(name, value)?)?,
            _ => return Err(options::unknown(name)),
        }
    }
    if ends_in_doubt && error.is_none() {
        let text = "end_in_doubt is an option of an accepted error: give both, or leave it out";
        return Err(Failure::argument(text));
    }
    parsed.accepted = error.map(|error| Accepted { error, ends_in_doubt });
    let query: Query = text.parse()?;
    parsed.accepted.map_or(Ok(()), |_| query.check_accepts_error())?;
    Ok((query, parsed))
}

fn relative(share: f64) -> Outcome<AcceptedError> {
    if share >= 1.0 {
        let text = format!("emax must be a share below 1, such as 0.05, not {share}");
        return Err(Failure::argument(text));
    }
    Ok(AcceptedError::relative(share)?)
}

fn senders(value: &str) -> Outcome<u32> {
    let senders = value.parse().ok().filter(|senders| *senders > 0);
    senders.ok_or_else(|| Failure::argument(format!("senders must be 1 at least, not {value}")))
}

fn timeout(timeout: Duration) -> Outcome<Duration> {
    if timeout.is_zero() {
        return Err(Failure::argument("timeout must be more than 0 s"));
    }
    Ok(timeout)
}
