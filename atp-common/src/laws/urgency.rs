//! Gives up yielding, in steps, where a deadline would be missed otherwise.
//!
//! A lane that yields takes what exact traffic leaves, and needs an RTT to return after each burst.
//! If that is too little for a deadline, its window doubles, at each look at its progress, and has
//! no limit in the end: the lane then takes what TCP would. It returns in the same steps.

/// Looks from beginning to deadline.
const LOOKS: u64 = 16;
/// Receipts come in batches, a few milliseconds apart.
const LOOK_NS_MIN: u64 = 4_000_000;

/// How much a job hurries: windows are 2^level times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgency {
    level: u8,
    deadline_ns: u64,
    interval_ns: u64,
    /// The last look: its time, and the messages that had been delivered.
    looked: (u64, u32),
}

impl Urgency {
    /// The level without a window.
    pub const LEVEL_MAX: u8 = 4;

    /// The urgency of messages that begin now and have a deadline: none so far.
    pub const fn begin(now_ns: u64, deadline_ns: u64) -> Self {
        let interval_ns = deadline_ns.saturating_sub(now_ns) / LOOKS;
        let interval_ns = if interval_ns < LOOK_NS_MIN { LOOK_NS_MIN } else { interval_ns };
        Self { level: 0, deadline_ns, interval_ns, looked: (now_ns, 0) }
    }

    /// Looks at the progress, if it is time to, and returns the level: a step up if the deadline
    /// would be missed at the pace since the last look, a step down if half the time would do.
    pub const fn look(&mut self, now_ns: u64, delivered: u32, needed: u32) -> u8 {
        let (looked_ns, before) = self.looked;
        let elapsed_ns = now_ns.saturating_sub(looked_ns);
        if elapsed_ns < self.interval_ns {
            return self.level;
        }
        self.looked = (now_ns, delivered);
        let left_ns = self.deadline_ns.saturating_sub(now_ns) as u128;
        // delivered / elapsed against needed / left, without a division.
        let pace = delivered.saturating_sub(before) as u128 * left_ns;
        let wanted = needed.saturating_sub(delivered) as u128 * elapsed_ns as u128;
        if pace < wanted {
            if self.level < Self::LEVEL_MAX {
                self.level += 1;
            }
        } else if pace > 2 * wanted {
            self.level = self.level.saturating_sub(1);
        }
        self.level
    }
}

/// A window of `packets` at a level; 0: no limit.
pub const fn window_packets(level: u8, packets: u32) -> u32 {
    if level >= Urgency::LEVEL_MAX { 0 } else { packets.saturating_mul(1 << level) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// The levels of a job with a deadline after 1.6 s that delivers so many of 1,600 messages in
    /// each interval of 100 ms.
    fn levels(paces: &[u32]) -> Vec<u8> {
        let mut urgency = Urgency::begin(7 * MS, 1_607 * MS);
        let mut delivered = 0;
        let look = |(n, pace): (usize, &u32)| {
            delivered += pace;
            urgency.look((107 + 100 * n as u64) * MS, delivered, 1_600)
        };
        paces.iter().enumerate().map(look).collect()
    }

    #[test]
    fn look__rises_where_the_deadline_is_missed() {
        assert_eq!(levels(&[100; 5]), [0; 5]);
        assert_eq!(levels(&[99; 5]), [1, 2, 3, 4, 4]);
        assert_eq!(levels(&[0, 0, 150, 150, 150]), [1, 2, 2, 2, 2]);
        // Twice as fast as it has to be.
        assert_eq!(levels(&[0, 0, 400, 400, 80]), [1, 2, 1, 0, 0]);
    }

    proptest! {
        // At any progress, the level moves by a step at most, and only at a look.
        #[test]
        fn look__moves_in_steps(
            length_ns in 0u64..10_000 * MS,
            looks in proptest::collection::vec((0u64..500 * MS, any::<u32>()), 1..50),
            needed in any::<u32>(),
        ) {
            let mut urgency = Urgency::begin(0, length_ns);
            let (mut now_ns, mut before, mut looked_ns) = (0, 0, 0);
            for (gap_ns, delivered) in looks {
                now_ns += gap_ns;
                let level = urgency.look(now_ns, delivered, needed);
                prop_assert!(level.abs_diff(before) <= 1 && level <= Urgency::LEVEL_MAX);
                if level != before {
                    prop_assert!(now_ns - looked_ns >= LOOK_NS_MIN.max(length_ns / LOOKS));
                    looked_ns = now_ns;
                }
                before = level;
            }
        }
    }

    #[test]
    fn window_packets__doubles_and_ends() {
        let of =
            |packets: u32| (0..=4).map(|level| window_packets(level, packets)).collect::<Vec<_>>();
        assert_eq!(of(3), [3, 6, 12, 24, 0]);
        assert_eq!(of(u32::MAX), [u32::MAX, u32::MAX, u32::MAX, u32::MAX, 0]);
    }
}
