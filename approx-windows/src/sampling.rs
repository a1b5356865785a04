//! The groups of records, and their sampling rates.

use crate::{accepted::Accepted, error::OutboxError};

/// The most groups besides the exact one: the ids of a job's groups are bytes.
pub(crate) const GROUPS_MAX: usize = 254;

/// Records with a minimal sampling rate (MSR) of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The group's name.
    pub name: String,
    /// The share of the group's records that must arrive, 0 to 1.
    pub msr: f64,
}

/// The group of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u8);

impl GroupId {
    /// The group that each stream has: all of its records arrive.
    pub const EXACT: Self = Self(0);

    /// The group at this place of [`Sampling::new`], from 0 to 253.
    pub const fn at(index: usize) -> Self {
        assert!(index < GROUPS_MAX, "there are 254 groups at most");
        Self(index as u8 + 1)
    }

    /// The id of the job's group.
    pub(crate) const fn id(self) -> u8 {
        self.0
    }
}

/// The groups of a stream's records.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    groups: Vec<Group>,
    /// The share of records that is sent while there is room, for groups with a lower rate.
    msr_max: f64,
    accepted: Option<Accepted>,
}

impl Sampling {
    /// The name of the group that each stream has.
    pub const EXACT: &str = "exact";
    /// The name of the group of records without one, of [`Sampling::with_others`].
    pub const OTHERS: &str = "records";

    /// Groups with their rates, and the rate of all other records: with less than 1 they are in a
    /// group of the name [`Sampling::OTHERS`].
    ///
    /// # Errors
    /// [`OutboxError::GroupName`] if a group has that name, or the exact group's; as
    /// [`Sampling::new`].
    pub fn with_others(mut groups: Vec<Group>, msr: f64) -> Result<Self, OutboxError> {
        let is_taken = |group: &&Group| group.name == Self::EXACT || group.name == Self::OTHERS;
        if let Some(Group { name, .. }) = groups.iter().find(is_taken) {
            return Err(OutboxError::GroupName(name.clone()));
        }
        if msr != 1.0 {
            groups.push(Group { name: Self::OTHERS.to_owned(), msr });
        }
        Self::new(groups)
    }

    /// Groups with their rates, besides the exact one.
    ///
    /// # Errors
    /// [`OutboxError::Groups`] if there are more than 254; [`OutboxError::Rate`].
    pub fn new(groups: Vec<Group>) -> Result<Self, OutboxError> {
        if let Some(Group { name, msr }) =
            groups.iter().find(|group| !(0.0..=1.0).contains(&group.msr))
        {
            return Err(OutboxError::Rate { group: name.clone(), msr: *msr });
        }
        match groups.len() {
            ..=GROUPS_MAX => Ok(Self { groups, msr_max: 0.0, accepted: None }),
            groups => Err(OutboxError::Groups { groups, groups_max: GROUPS_MAX }),
        }
    }

    /// Sends this share of the records while there is [`Room`](crate::Room), and MSR at least. Groups
    /// of the rate 0 don't change.
    ///
    /// # Errors
    /// [`OutboxError::Rate`].
    pub fn up_to(self, msr_max: f64) -> Result<Self, OutboxError> {
        match (0.0..=1.0).contains(&msr_max) {
            true => Ok(Self { msr_max, ..self }),
            false => Err(OutboxError::Rate { group: "msr_max".to_owned(), msr: msr_max }),
        }
    }

    /// Sends as many records as the averages of windows need for this error, and MSR at least.
    /// Groups of the rate 0 don't change.
    pub fn accepting(self, error: Accepted) -> Self {
        Self { accepted: Some(error), ..self }
    }

    /// The error that is accepted, if there is one.
    pub(crate) fn accepted(&self) -> Option<Accepted> {
        self.accepted
    }

    /// The share of a group's records that is drawn, with this share of the room.
    pub(crate) fn rate(&self, group: GroupId, room: f64) -> f64 {
        match self.msr(group) {
            0.0 => 0.0,
            msr => msr + room * (self.msr_max - msr).max(0.0),
        }
    }

    /// The groups, without the exact one.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group with this name, but for the exact one.
    pub(crate) fn named(&self, name: &str) -> Option<GroupId> {
        self.groups.iter().position(|group| group.name == name).map(GroupId::at)
    }

    /// The group of records without a name.
    pub(crate) fn others(&self) -> GroupId {
        self.named(Self::OTHERS).unwrap_or(GroupId::EXACT)
    }

    /// The rate of a group. A group that there isn't is exact.
    pub(crate) fn msr(&self, group: GroupId) -> f64 {
        let at = usize::from(group.0).checked_sub(1);
        at.and_then(|at| self.groups.get(at)).map_or(1.0, |group| group.msr)
    }

    /// All groups with the ids of a job, and with names and rates.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u8, &str, f64)> {
        let others = self.groups.iter().enumerate();
        let others =
            others.map(|(at, group)| (GroupId::at(at).id(), group.name.as_str(), group.msr));
        [(GroupId::EXACT.id(), Self::EXACT, 1.0)].into_iter().chain(others)
    }
}

/// The least number of records that is the share `msr` of all.
pub(crate) fn needed(msr: f64, records: u64) -> u64 {
    // Below 2^53, so that only the product is rounded.
    (msr * records as f64).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all__have_the_ids_of_their_records() {
        let group = |name: &str| Group { name: name.into(), msr: 0.5 };
        let sampling = Sampling::new(vec![group("a"), group("b")]).unwrap();
        let all: Vec<_> = sampling.all().collect();
        assert_eq!(all, [(0, "exact", 1.0), (1, "a", 0.5), (2, "b", 0.5)]);
        assert!(Sampling::new(vec![group("c"); GROUPS_MAX + 1]).is_err());
        for msr in [-0.1, 1.1, f64::NAN] {
            assert!(Sampling::new(vec![Group { name: "c".into(), msr }]).is_err(), "{msr}");
        }
        assert_eq!(GroupId::at(GROUPS_MAX - 1).id(), 254);
    }

    #[test]
    fn rate__is_msr_or_more() {
        let group = |msr| Group { name: format!("{msr}"), msr };
        let sampling = Sampling::new([0.0, 0.5, 0.9].map(group).to_vec()).unwrap();
        let sampling = sampling.up_to(0.8).unwrap();
        for (at, room, rate) in [(0, 1.0, 0.0), (1, 1.0, 0.8), (1, 0.0, 0.5), (2, 1.0, 0.9)] {
            assert_eq!(sampling.rate(GroupId::at(at), room), rate, "{at}, {room}");
        }
        assert_eq!(sampling.rate(GroupId::EXACT, 1.0), 1.0);
        assert!(sampling.up_to(1.1).is_err());
    }
}
