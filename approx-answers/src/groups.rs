//! Random groups of messages: variances of answers that aren't sums, in bounded memory.
//!
//! The variance of a rank needs each message's count below the quantile, which isn't known before
//! the end, and the order of two keys needs the covariance of each pair. Both follow from the
//! totals of a few groups of messages, whatever is asked for later. Pilot cut points would be as
//! small, but bind the quantiles to the first messages. The price of groups is degrees of freedom:
//! 49 instead of m - 1, so an interval is 2.5 % wider.

use std::collections::BTreeMap;

/// Groups in each stratum.
pub(crate) const GROUPS: usize = 50;

/// The number of messages in each group of a stratum.
pub(crate) type Sizes = [u64; GROUPS];

/// The groups of all strata.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) sizes: BTreeMap<u32, Sizes>,
    /// Mixed from all messages, so that each sample has groups of its own, and each run the same.
    pub(crate) state: u64,
}

impl Groups {
    pub fn sizes(&self, stratum: u32) -> Sizes {
        self.sizes.get(&stratum).copied().unwrap_or([0; GROUPS])
    }

    /// A number that follows from all messages.
    pub fn state(&self) -> u64 {
        self.state
    }

    /// Forgets a stratum.
    pub fn remove_stratum(&mut self, stratum: u32) {
        self.sizes.remove(&stratum);
    }

    /// Puts a message into a group. The group is drawn: a turn for each would spread ordered
    /// messages evenly, and groups would be more alike than chance makes them. `contents` is any
    /// number that follows from the message.
    pub fn add(&mut self, stratum: u32, contents: u64) -> usize {
        self.state = mix(mix(self.state ^ u64::from(stratum)) ^ contents);
        let group = drawn(self.state);
        self.sizes.entry(stratum).or_insert([0; GROUPS])[group] += 1;
        group
    }

    /// Adds the groups of another part of the job. Returns the new group of each of its groups.
    pub fn merge(&mut self, other: &Self) -> BTreeMap<u32, [usize; GROUPS]> {
        self.state = mix(self.state ^ other.state);
        let state = self.state;
        let strata = other.sizes.iter().map(|(&stratum, theirs)| {
            let own = self.sizes.entry(stratum).or_insert([0; GROUPS]);
            let messages: u64 = own.iter().sum();
            let places = std::array::from_fn(|group| {
                // Drawn as well: equal groups of two ordered parts would be too much alike.
                let draw = mix(state ^ u64::from(stratum)) ^ group as u64;
                let place = if messages == 0 { group } else { drawn(mix(draw)) };
                own[place] += theirs[group];
                place
            });
            (stratum, places)
        });
        strata.collect()
    }
}

fn drawn(number: u64) -> usize {
    (number % GROUPS as u64) as usize
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): draws that every run repeats.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The variance s^2 of messages, from the totals of their groups, and its degrees of freedom.
///
/// It is the delete-group jackknife in the form that it has for totals (Kott 2001), with groups
/// weighted by their sizes. If each message has a group of its own, it is the usual s^2.
pub(crate) fn variance(sizes: &Sizes, total: impl Fn(usize) -> f64) -> (f64, f64) {
    let used = || sizes.iter().enumerate().filter(|(_, size)| **size > 0);
    let messages: u64 = sizes.iter().sum();
    let mean = used().map(|(group, _)| total(group)).sum::<f64>() / messages.max(1) as f64;
    let square =
        |(group, &size): (usize, &u64)| (total(group) - size as f64 * mean).powi(2) / size as f64;
    let degrees_of_freedom = used().count() as f64 - 1.0;
    (used().map(square).sum::<f64>() / degrees_of_freedom.max(1.0), degrees_of_freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(messages: u64) -> Groups {
        let mut groups = Groups::default();
        for _ in 0..messages {
            groups.add(3, 0);
        }
        groups
    }

    #[test]
    fn next__draws_all_groups_alike() {
        // 2,000 each, with a standard deviation of 44.
        assert!(filled(100_000).sizes(3).iter().all(|size| (1_750..2_250).contains(size)));
    }

    #[test]
    fn merge__keeps_every_message() {
        for (own, others) in [(0, 70), (20, 20), (20, 500), (500, 3), (9, 0)] {
            let mut merged = filled(own);
            let theirs = filled(others);
            let places = merged.merge(&theirs);
            assert_eq!(merged.sizes(3).iter().sum::<u64>(), own + others);
            let is_same =
                |places: &[usize; GROUPS]| places.iter().enumerate().all(|(a, b)| a == *b);
            assert_eq!(places.values().any(is_same), own == 0);
        }
    }

    #[test]
    fn variance__is_unbiased_for_messages_in_order() {
        // Totals that grow: groups in turn would be far too much alike.
        let mut sum = 0.0;
        let messages = 2_000u32;
        let strata = 400;
        for stratum in 0..strata {
            let mut groups = Groups::default();
            let mut totals = [0.0; GROUPS];
            for message in 0..messages {
                let group = groups.add(stratum, message.into());
                totals[group] += f64::from(message);
            }
            sum += variance(&groups.sizes(stratum), |group| totals[group]).0;
        }
        let n = f64::from(messages);
        let ratio = sum / f64::from(strata) / (n * (n + 1.0) / 12.0);
        // The standard error is 1 %.
        assert!((0.96..1.04).contains(&ratio), "{ratio}");
    }

    #[test]
    fn variance__of_single_messages_is_the_usual_one() {
        let mut sizes = [0; GROUPS];
        sizes[..4].fill(1);
        let totals = [4.0, 7.0, 13.0, 16.0];
        assert_eq!(variance(&sizes, |group| totals[group]), (30.0, 3.0));
    }
}
