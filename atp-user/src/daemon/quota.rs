//! Budgets: how much of each of this host's resources an owner may hold.
//!
//! Root alone gets the last eighth of a resource. Every other owner holds a quarter at most, and
//! takes one more only while it holds less than its share of the room that is left: that room
//! divided by the number of owners. So the first greedy owner leaves more than half of the room,
//! the second two thirds of that, and the next one always finds some. From [`DIVISOR_MAX`] owners
//! on the divisor stays: each takes a ninth of the room, so that hundreds of modest owners can use
//! nearly all of it.

use super::{refuse, tenant::Tenant};
use approxlib::control::{Refusal, RefusalKind};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The most sending sockets of an owner, of which each has a connection.
const FLOWS_OF_OWNER: usize = atp_common::maps::FLOWS as usize / 4;

/// The ports registered for receiving. A receiver serves many senders.
pub const RECEIVER_PORTS: usize = 1_024;

/// The connections: the library opens one per socket. Some more are for the command line.
pub const CONNECTIONS: usize = 4 * (FLOWS_OF_OWNER + RECEIVER_PORTS / 4 + 64);

/// The number of owners from which on more owners don't make each one's share smaller.
const DIVISOR_MAX: usize = 8;

/// A resource of this host, and how much of it each owner holds. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Mutex<Ledger>>);

#[derive(Debug)]
struct Ledger {
    /// The resource's name in refusals.
    what: &'static str,
    total: usize,
    /// The sum over all owners.
    held: usize,
    by_owner: HashMap<Tenant, usize>,
}

/// Something that an owner holds. Dropping it gives it back.
#[derive(Debug)]
pub struct Held {
    budget: Budget,
    owner: Tenant,
    amount: usize,
}

impl Budget {
    /// A resource of which nothing is held.
    pub fn new(what: &'static str, total: usize) -> Self {
        Self(Arc::new(Mutex::new(Ledger { what, total, held: 0, by_owner: HashMap::new() })))
    }

    /// Takes `amount` for an owner.
    pub fn take(&self, owner: Tenant, amount: usize) -> Result<Held, Refusal> {
        let mut ledger = self.lock();
        if amount > ledger.room(owner) {
            return refuse(RefusalKind::NoRoom, ledger.refusal(owner));
        }
        ledger.held += amount;
        *ledger.by_owner.entry(owner).or_default() += amount;
        Ok(Held { budget: self.clone(), owner, amount })
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut ledger = self.budget.lock();
        ledger.held -= self.amount;
        if let Some(own) = ledger.by_owner.get_mut(&self.owner) {
            *own -= self.amount;
            if *own == 0 {
                ledger.by_owner.remove(&self.owner);
            }
        }
    }
}

impl Ledger {
    /// How much more an owner may take now.
    fn room(&self, owner: Tenant) -> usize {
        if owner == Tenant::Root {
            return self.total - self.held;
        }
        let own = self.own(owner);
        let others = self.by_owner.len() - usize::from(own > 0);
        let divisor = (others + 1).min(DIVISOR_MAX);
        let free = (self.total - self.total / 8).saturating_sub(self.held);
        // It takes one after the other as long as `own * divisor < free`. Each adds one to the left
        // side and takes one from the right side.
        let share = free.saturating_sub(own * divisor).div_ceil(divisor + 1);
        share.min((self.total / 4).saturating_sub(own))
    }

    fn own(&self, owner: Tenant) -> usize {
        self.by_owner.get(&owner).copied().unwrap_or(0)
    }

    fn refusal(&self, owner: Tenant) -> String {
        let Self { what, total, .. } = self;
        match (owner, self.own(owner)) {
            (Tenant::Root, _) => {
                format!("this host has reached its limit of {total} {what}: end some jobs first")
            }
            (_, own) if own >= total / 4 => {
                format!("{owner} has {own} {what}, the limit for one user: end one, or ask as root")
            }
            (_, own) => format!(
                "{owner} has {own} {what}, and this host has room for {} more, as other users have \
                 most of its {total}: end one, or ask as root",
                self.room(owner)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::maps::{ADVISED_LANES, FLOWS, JOBS, LANES};
    use proptest::prelude::*;

    /// The sizes of all budgets.
    fn totals() -> impl Strategy<Value = usize> {
        let of_maps = [JOBS, FLOWS, LANES, ADVISED_LANES].map(|total| total as usize);
        prop::sample::select([&of_maps[..], &[RECEIVER_PORTS, CONNECTIONS]].concat())
    }

    fn message(refused: Result<Held, Refusal>) -> String {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NoRoom);
        refusal.message
    }

    #[test]
    fn take__a_quarter_for_one_owner_and_all_for_root() {
        let budget = Budget::new("jobs", 1_024);
        let own = budget.take(Tenant::User(1000), 256).unwrap();
        let said = message(budget.take(Tenant::User(1000), 1));
        assert!(said.starts_with("user 1000 has 256 jobs, the limit for one user"), "{said}");
        let _roots = budget.take(Tenant::Root, 768).unwrap();
        let said = message(budget.take(Tenant::Root, 1));
        assert!(said.starts_with("this host has reached its limit of 1024 jobs"), "{said}");
        drop(own);
        let _more = budget.take(Tenant::Root, 128).unwrap();
        let said = message(budget.take(Tenant::User(1000), 1));
        assert!(said.contains("has 0 jobs, and this host has room for 0 more"), "{said}");
        budget.take(Tenant::Root, 128).unwrap();
    }

    /// Hundreds of owners with little use nearly everything but root's eighth.
    #[test]
    fn take__modest_owners_use_nearly_all() {
        let budget = Budget::new("lanes", 4_096);
        let lanes: Vec<_> =
            (0..).map_while(|user| budget.take(Tenant::User(user), 8).ok()).collect();
        assert!(lanes.len() * 8 > 4_096 * 3 / 4, "{} owners", lanes.len());
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Takes as much as it gets, in pieces of this size.
        Fill(u32, usize),
        /// Takes one piece.
        Take(u32, usize),
        /// Gives everything back.
        End(u32),
    }

    /// Steps of at most 32 owners.
    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0u32..32, 1usize..9).prop_map(|(owner, piece)| Step::Fill(owner, piece)),
            (0u32..32, 1usize..300).prop_map(|(owner, piece)| Step::Take(owner, piece)),
            (0u32..32).prop_map(Step::End),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        /// One more owner and root find room after any steps of 32 greedy owners, of which none
        /// holds more than a quarter.
        #[test]
        fn take__leaves_room_for_one_more_owner_and_for_root(total in totals(), steps in steps()) {
            let budget = Budget::new("things", total);
            let mut held: HashMap<u32, Vec<Held>> = HashMap::new();
            for step in steps {
                match step {
                    Step::Fill(owner, piece) => {
                        let more = || budget.take(Tenant::User(owner), piece).ok();
                        held.entry(owner).or_default().extend(std::iter::from_fn(more));
                    }
                    Step::Take(owner, piece) => {
                        let taken = budget.take(Tenant::User(owner), piece).ok();
                        held.entry(owner).or_default().extend(taken);
                    }
                    Step::End(owner) => drop(held.remove(&owner)),
                }
                prop_assert!(budget.take(Tenant::User(99), 1).is_ok());
                prop_assert!(budget.take(Tenant::Root, total / 8).is_ok());
            }
            for owner in 0..32 {
                prop_assert!(budget.lock().own(Tenant::User(owner)) <= total / 4);
            }
            drop(held);
            prop_assert_eq!(budget.lock().held, 0);
            prop_assert!(budget.lock().by_owner.is_empty());
        }

        /// Taking several at once is as taking one after the other.
        #[test]
        fn room__is_that_of_single_steps(total in totals(), before in prop::collection::vec(0u32..5, 0..900)) {
            let budget = Budget::new("things", total);
            let _held: Vec<_> =
                before.iter().filter_map(|owner| budget.take(Tenant::User(*owner), 1).ok()).collect();
            let owner = Tenant::User(2);
            let room = budget.lock().room(owner);
            let singles: Vec<_> =
                std::iter::from_fn(|| budget.take(owner, 1).ok()).collect();
            prop_assert_eq!(singles.len(), room);
        }
    }
}
