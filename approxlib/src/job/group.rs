//! A job's groups, as its builder is told.

use crate::error::Error;
use atp_common::units::Msr;
use atp_proto::GroupConfig;

/// Messages that share a minimal sampling rate. An application that samples by strata, by quota or by
/// importance has several.
///
/// ```
/// use approxlib::Group;
/// // Stratified: the same rate for all. Quota: so many of each, whatever there is.
/// let strata = (0..4).map(|stratum| Group::new(stratum).msr(0.9));
/// let quota = [(0, 1_000), (1, 400)].map(|(stratum, messages)| {
///     Group::new(stratum).msr(200.0 / f64::from(messages)).messages(messages)
/// });
/// // By importance: what doesn't matter, the usual, the important, and what must all arrive.
/// let importance = [0.0, 0.125, 0.925, 1.0];
/// let by_importance = (0..).zip(importance).map(|(id, msr)| Group::new(id).msr(msr));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    id: u8,
    msr: f64,
    messages: Option<u32>,
}

impl Group {
    /// A group whose messages must all arrive, until it is told otherwise.
    pub const fn new(id: u8) -> Self {
        Self { id, msr: 1.0, messages: None }
    }

    /// The minimal sampling rate: which share of the messages must arrive, 0 to 1. A group of 1 is
    /// *exact*: its messages come in order, and travel as traffic that is not approximate. Default 1.
    pub const fn msr(mut self, msr: f64) -> Self {
        self.msr = msr;
        self
    }

    /// N: how many messages of the group this sender is going to send, in each window if it has
    /// windows. Default: what was sent by the end.
    pub const fn messages(mut self, messages: u32) -> Self {
        self.messages = Some(messages);
        self
    }

    pub(super) fn config(self) -> Result<GroupConfig, Error> {
        let msr = parse_msr(self.msr)?;
        Ok(GroupConfig { total: self.messages, ..GroupConfig::new(self.id, msr) })
    }
}

pub(super) fn parse_msr(msr: f64) -> Result<Msr, Error> {
    if !(0.0..=1.0).contains(&msr) {
        return Err(Error::Msr(msr));
    }
    Msr::from_parts_per_billion((msr * 1e9).round() as u32).ok_or(Error::Msr(msr))
}
