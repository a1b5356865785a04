//! Samples as bytes.

use super::checked::{Checked, ensure};
use super::moments::check_moments;
use super::{Stored, from_bytes, to_bytes};
use crate::delivery::Facts;
use crate::moments::Moments;
use crate::position::Gap;
use crate::stratum::{Stratum, VALUE_MAX, check_value};
use crate::{AnswerError, Sample};

impl Sample {
    /// The sample as bytes, which other processes, languages and versions read: JSON, as the
    /// guide's page *Stored samples* states it.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// The sample of [`Sample::to_bytes`]. It gives the same answers, and merges as the original.
    ///
    /// # Errors
    /// The bytes are no sample, are of another version, or contradict themselves.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
        from_bytes(bytes)
    }
}

impl Stored for Sample {
    const FORMAT: &'static str = "approx-answers sample";

    fn check(&self) -> Checked {
        self.strata.iter().try_for_each(|(number, stratum)| {
            check_stratum(*number, stratum).map_err(|what| format!("stratum {number}: {what}"))
        })
    }
}

fn check_stratum(number: u32, stratum: &Stratum) -> Checked {
    let Stratum { moments, sent, exact_x, facts, ids: _, missing: _ } = stratum;
    if moments.messages() > 0 {
        check_moments(moments, VALUE_MAX)?;
    }
    ensure(moments.messages() > 0 || *moments == Moments::default(), "moments of no messages")?;
    ensure(sent.is_none_or(|sent| sent >= moments.messages()), "more messages arrived than sent")?;
    let exact = exact_x.map(|exact| check_value(number, "exact total", exact.total));
    exact.transpose().map_err(|error| error.to_string())?;
    facts.as_ref().map_or(Ok(()), check_facts)
}

fn check_facts(facts: &Facts) -> Checked {
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    let is_place = match facts.gap {
        None => true,
        Some(Gap::End { share }) => is_share(share),
        Some(Gap::Run { from, to }) => is_share(from) && is_share(to) && from <= to,
        Some(Gap::Uneven { quarters }) => quarters.into_iter().all(is_share),
    };
    ensure(is_place, "missing messages outside of the job")
}
