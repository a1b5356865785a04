//! The groups of records, and the strata in which they are sampled.

use crate::error::OutboxError;

/// The most groups besides the exact one: each has two groups of a job.
pub(crate) const GROUPS_MAX: usize = 127;
/// Records of one packet share messages of at most this many bytes, which fit into one packet of an
/// MTU of 1,500.
pub(crate) const MESSAGE_BYTES: usize = 1_400;

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
pub struct GroupId(usize);

impl GroupId {
    /// The group that each stream has: all of its records arrive.
    pub const EXACT: Self = Self(0);

    /// The group at this place of [`Sampling::new`].
    pub const fn at(index: usize) -> Self {
        Self(index + 1)
    }

    /// The group of the job for records of this many bytes.
    ///
    /// A record of several packets arrives more rarely than one of a single packet, if packets are
    /// lost. Together they would be no fair sample, so each length has its own stratum.
    pub(crate) fn stratum(self, bytes: usize) -> u8 {
        match self {
            Self::EXACT => 0,
            Self(index) => (2 * index - usize::from(bytes < MESSAGE_BYTES)) as u8,
        }
    }
}

/// The groups of a stream's records.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    groups: Vec<Group>,
}

/// The terms of a stratum.
pub(crate) struct Stratum<'a> {
    pub(crate) name: &'a str,
    pub(crate) msr: f64,
    pub(crate) is_long: bool,
}

impl Sampling {
    /// Groups with their rates, besides the exact one.
    ///
    /// # Errors
    /// [`OutboxError::Groups`] if there are more than 127.
    pub fn new(groups: Vec<Group>) -> Result<Self, OutboxError> {
        match groups.len() {
            ..=GROUPS_MAX => Ok(Self { groups }),
            groups => Err(OutboxError::Groups { groups, groups_max: GROUPS_MAX }),
        }
    }

    /// The groups, without the exact one.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The strata, which are groups of a job, by id.
    pub(crate) fn strata(&self) -> impl Iterator<Item = (u8, Stratum<'_>)> {
        let exact = Stratum { name: "exact", msr: 1.0, is_long: false };
        let others = self.groups.iter().enumerate().flat_map(|(index, group)| {
            [false, true].map(|is_long| {
                let id = (2 * index + 1 + usize::from(is_long)) as u8;
                (id, Stratum { name: &group.name, msr: group.msr, is_long })
            })
        });
        [(0, exact)].into_iter().chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strata__have_the_ids_of_their_records() {
        let group = |name: &str| Group { name: name.into(), msr: 0.5 };
        let sampling = Sampling::new(vec![group("a"), group("b")]).unwrap();
        let ids: Vec<u8> = sampling.strata().map(|(id, _)| id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4]);
        let of = |id: GroupId| [id.stratum(10), id.stratum(MESSAGE_BYTES)];
        assert_eq!(of(GroupId::EXACT), [0, 0]);
        assert_eq!((of(GroupId::at(0)), of(GroupId::at(1))), ([1, 2], [3, 4]));
        let long = sampling.strata().filter(|(_, stratum)| stratum.is_long).map(|(id, _)| id);
        assert_eq!(long.collect::<Vec<_>>(), [2, 4]);
        assert!(Sampling::new(vec![group("c"); GROUPS_MAX + 1]).is_err());
        assert_eq!(GroupId::at(GROUPS_MAX - 1).stratum(MESSAGE_BYTES), 254);
    }
}
