//! The groups of a job, as options of its builder.

use crate::{error::Error, order::Order};
use atp_common::{units::Msr, wire::GroupName};
use atp_proto::GroupConfig;

/// Messages that share a minimal sampling rate (MSR). Applications that sample by strata, by quota
/// or by importance open a job with several groups.
///
/// ```
/// use approxlib::Group;
/// // Stratified sampling: the same rate for each stratum.
/// let strata = (0..4).map(|stratum| Group::new(stratum).msr(0.9));
/// // Quota sampling: 200 messages of each stratum, whatever its size.
/// let quota = [(0, 1_000), (1, 400)].map(|(stratum, messages)| {
///     Group::new(stratum).msr(200.0 / f64::from(messages)).messages(messages)
/// });
/// // By importance: unimportant, usual and important messages, and those that must all arrive.
/// let importance = [0.0, 0.125, 0.925, 1.0];
/// let by_importance = (0..).zip(importance).map(|(id, msr)| Group::new(id).msr(msr));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    id: u8,
    msr: f64,
    messages: Option<u32>,
    order: Order,
    /// `None` for a name that isn't allowed.
    name: Option<GroupName>,
}

impl Group {
    /// A group with an MSR of 1 (exact) and no announced number of messages.
    pub const fn new(id: u8) -> Self {
        Self { id, msr: 1.0, messages: None, order: Order::Unknown, name: Some(GroupName::EMPTY) }
    }

    /// The minimal sampling rate: the share of the messages that must arrive, 0 to 1. Default 1.
    ///
    /// A group with an MSR of 1 is *exact*: its messages are delivered in order, and its packets
    /// travel in the switches' queue for exact traffic.
    pub const fn msr(mut self, msr: f64) -> Self {
        self.msr = msr;
        self
    }

    /// Announces N, the number of messages of this group from this sender, in each window. Default:
    /// N is the number of messages sent by the end.
    pub const fn messages(mut self, messages: u32) -> Self {
        self.messages = Some(messages);
        self
    }

    /// The order in which the application sends the messages, which the receiver gets in
    /// [`GroupTerms::order`](crate::GroupTerms::order). Default [`Order::Unknown`]. The library
    /// doesn't change the order.
    pub const fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// A name for people, which the receiver gets in [`Event::Started`](crate::Event::Started): at
    /// most 32 bytes without control characters. Default: none.
    pub fn name(mut self, name: &str) -> Self {
        self.name = GroupName::new(name);
        self
    }

    pub(super) fn config(self) -> Result<GroupConfig, Error> {
        let msr = parse_msr(self.msr)?;
        let name = self.name.ok_or(Error::GroupName(self.id))?;
        let order = self.order.into();
        Ok(GroupConfig { total: self.messages, order, name, ..GroupConfig::new(self.id, msr) })
    }
}

pub(crate) fn parse_msr(msr: f64) -> Result<Msr, Error> {
    if !(0.0..=1.0).contains(&msr) {
        return Err(Error::Msr(msr));
    }
    Msr::from_parts_per_billion((msr * 1e9).round() as u32).ok_or(Error::Msr(msr))
}
