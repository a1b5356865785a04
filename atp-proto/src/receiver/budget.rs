//! The memory that all receivers of one process may hold together.
//!
//! An address may hold as much as is still free after that: the dynamic threshold of
//! shared-memory switches (Choudhury and Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998; α = 1). One
//! address alone gets half of the budget, and the next one half of the rest. No address can use up
//! the room of the others, and none that sends is ever dropped for another.
//!
//! A quarter of the budget is for records of what arrived, and for terms. A message whose packets
//! are all here can then be delivered, and its memory freed, however many bytes of messages its
//! address holds.
//!
//! Receivers of one budget usually run on one thread. On several threads the budget may be exceeded
//! by one message of each.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The two parts of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Incomplete messages, and complete ones that wait for earlier ones: three quarters.
    #[default]
    Messages,
    /// Records of delivered messages and of arrivals, and terms: one quarter.
    Records,
}

/// A budget of bytes, for receivers on any threads.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    /// By part.
    bytes: [AtomicU64; 2],
}

impl Budget {
    /// A budget of `bytes_max` bytes, all free.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: Default::default() })
    }

    /// The bytes that are held now.
    pub fn bytes(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.load(Relaxed)).sum()
    }

    /// The size of a part.
    pub fn part_bytes_max(&self, part: Part) -> u64 {
        let records_bytes_max = self.bytes_max / 4;
        match part {
            Part::Messages => self.bytes_max - records_bytes_max,
            Part::Records => records_bytes_max,
        }
    }

    /// The share of one address. Take one only for each address.
    pub fn share(self: &Arc<Self>) -> Arc<Share> {
        Arc::new(Share { budget: self.clone(), bytes: Default::default() })
    }
}

/// The bytes that one address holds of a [`Budget`].
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    /// By part.
    bytes: [AtomicU64; 2],
}

impl Share {
    /// Whether `bytes` more fit `times` times.
    fn fits(&self, part: Part, bytes: u64, times: u64) -> bool {
        let held_bytes = self.budget.bytes[part as usize].load(Relaxed);
        let free_bytes = self.budget.part_bytes_max(part).saturating_sub(held_bytes);
        let after_bytes = self.bytes[part as usize].load(Relaxed).saturating_add(bytes);
        after_bytes.saturating_mul(times) <= free_bytes
    }
}

/// The bytes that one holder has taken from its address's [`Share`]. Dropping it gives them back.
/// The default has no limit, and counts nothing.
#[derive(Debug, Default)]
pub struct Account {
    share: Option<Arc<Share>>,
    part: Part,
    bytes: u64,
}

impl Account {
    /// An account of a part of `share`, or one without a limit.
    pub fn new(share: Option<Arc<Share>>, part: Part) -> Self {
        Self { share, part, bytes: 0 }
    }

    /// The bytes taken.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether `bytes` more would fit.
    pub fn fits(&self, bytes: u64) -> bool {
        self.share.as_ref().is_none_or(|share| share.fits(self.part, bytes, 1))
    }

    /// Whether `bytes` more would fit and leave as much for others of the same address.
    pub(crate) fn fits_twice(&self, bytes: u64) -> bool {
        self.share.as_ref().is_none_or(|share| share.fits(self.part, bytes, 2))
    }

    /// Takes `bytes`, which [`Account::fits`] has allowed.
    pub fn take(&mut self, bytes: u64) {
        if let Some(share) = &self.share {
            self.bytes += bytes;
            share.bytes[self.part as usize].fetch_add(bytes, Relaxed);
            share.budget.bytes[self.part as usize].fetch_add(bytes, Relaxed);
        }
    }

    /// Gives `bytes` of those taken back.
    pub fn give_back(&mut self, bytes: u64) {
        if let Some(share) = &self.share {
            let bytes = bytes.min(self.bytes);
            self.bytes -= bytes;
            share.bytes[self.part as usize].fetch_sub(bytes, Relaxed);
            share.budget.bytes[self.part as usize].fetch_sub(bytes, Relaxed);
        }
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        self.give_back(u64::MAX);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn account__one_address_leaves_half_to_others() {
        let budget = Budget::new(4_000);
        let new = |share| Account::new(Some(share), Part::Messages);
        let mut accounts = [budget.share(), budget.share()].map(new);
        for (account, most) in accounts.iter_mut().zip([1_500, 750]) {
            while account.fits(1) {
                account.take(1);
            }
            assert_eq!(account.bytes, most);
        }
        let mut second = Account::new(accounts[0].share.clone(), Part::Messages);
        assert!(!second.fits(1), "a second account is no second share");
        let records = Account::new(accounts[0].share.clone(), Part::Records);
        assert!(records.fits(1_000) && !records.fits(1_001), "messages use up no room of records");
        accounts[0].give_back(1_200);
        assert!(second.fits(1_650) && !second.fits(1_651));
        assert!(second.fits_twice(675) && !second.fits_twice(676));
        second.take(50);
        drop(accounts);
        assert_eq!(budget.bytes(), 50);
        drop(second);
        assert_eq!(budget.bytes(), 0);
    }

    proptest! {
        // Any accounts of any addresses stay within the budget, and their sum is its count.
        #[test]
        fn account__all_together_stay_within_the_budget(
            bytes_max in 0u64..10_000,
            steps in proptest::collection::vec((0usize..12, 0u64..3_000, any::<bool>()), 0..200),
        ) {
            let budget = Budget::new(bytes_max);
            let shares: Vec<_> = (0..4).map(|_| budget.share()).collect();
            let part = |i| if i < 6 { Part::Messages } else { Part::Records };
            let mut accounts: Vec<_> =
                (0..12).map(|i| Account::new(Some(shares[i % 4].clone()), part(i))).collect();
            for (i, bytes, takes) in steps {
                if !takes {
                    accounts[i].give_back(bytes);
                } else if accounts[i].fits(bytes) {
                    accounts[i].take(bytes);
                }
                prop_assert!(budget.bytes() <= bytes_max);
                prop_assert_eq!(budget.bytes(), accounts.iter().map(|a| a.bytes).sum::<u64>());
            }
        }
    }
}
