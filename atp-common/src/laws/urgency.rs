//! Gives up yielding, in steps, where a deadline would be missed otherwise.
//!
//! A lane that yields takes what exact traffic leaves, and needs an RTT to return after each burst.
//! If that is too little for a deadline, its window doubles, at each look at its progress, and has
//! no limit in the end: the lane then takes what TCP would. It returns in the same steps. If
//! something else holds the lane back, such as the application or advice, it goes on to yield.

/// Looks from beginning to deadline.
const LOOKS: u64 = 16;
/// Receipts come in batches, a few milliseconds apart.
const LOOK_NS_MIN: u64 = 4_000_000;
/// Fewer messages are delivered in too large steps: a look would see nothing, or too much.
const MESSAGES_MIN: u32 = 4 * LOOKS as u32;
/// The window holds a lane back that waits for it in this part of the time, or more.
const FULL_DIVISOR: u64 = 4;

/// How much a job hurries: windows are 2^level times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgency {
    level: u8,
    begun_ns: u64,
    deadline_ns: u64,
    interval_ns: u64,
    /// The last look: its time, and the messages that had been delivered.
    looked: (u64, u32),
    /// When this was called last, and for how long windows have been full since the last look.
    called_ns: u64,
    full_ns: u64,
}

impl Urgency {
    /// The level without a window.
    pub const LEVEL_MAX: u8 = 4;

    /// The urgency of messages that begin now and have a deadline: none so far.
    pub const fn begin(now_ns: u64, deadline_ns: u64) -> Self {
        let interval_ns = deadline_ns.saturating_sub(now_ns) / LOOKS;
        let interval_ns = if interval_ns < LOOK_NS_MIN { LOOK_NS_MIN } else { interval_ns };
        Self {
            level: 0,
            begun_ns: now_ns,
            deadline_ns,
            interval_ns,
            looked: (now_ns, 0),
            called_ns: now_ns,
            full_ns: 0,
        }
    }

    /// Notes whether a full window has held packets back since the last call, and returns whether
    /// it is time for a look.
    pub const fn is_due(&mut self, now_ns: u64, was_full: bool) -> bool {
        if was_full {
            self.full_ns += now_ns.saturating_sub(self.called_ns);
        }
        self.called_ns = now_ns;
        now_ns.saturating_sub(self.looked.0) >= self.interval_ns
    }

    /// Looks at the progress: a step up if the deadline would be missed at the pace since the last
    /// look, and windows were full; a step down if half the time would do. Returns the level.
    pub const fn look(&mut self, now_ns: u64, delivered: u32, needed: u32) -> u8 {
        let (looked_ns, before) = self.looked;
        let elapsed_ns = now_ns.saturating_sub(looked_ns);
        let was_full = self.full_ns >= elapsed_ns / FULL_DIVISOR;
        (self.looked, self.full_ns) = ((now_ns, delivered), 0);
        // The first receipts need an RTT.
        let is_first = delivered == 0 && looked_ns == self.begun_ns;
        if delivered >= needed || needed < MESSAGES_MIN {
            self.level = 0;
            return 0;
        }
        let left_ns = self.deadline_ns.saturating_sub(now_ns) as u128;
        // delivered / elapsed against needed / left, without a division.
        let pace = delivered.saturating_sub(before) as u128 * left_ns;
        let wanted = (needed - delivered) as u128 * elapsed_ns as u128;
        if pace < wanted {
            if was_full && !is_first && self.level < Self::LEVEL_MAX {
                self.level += 1;
            }
        } else if pace > 2 * wanted {
            self.level = self.level.saturating_sub(1);
        }
        self.level
    }

    /// The level at the last look.
    pub const fn level(&self) -> u8 {
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

    /// The levels of a job of 1,600 messages with a deadline after 1.6 s. `paces`: the messages
    /// delivered in each interval of 100 ms. `full`: for how much of it windows are full, percent.
    fn levels(full: u64, paces: &[u32]) -> Vec<u8> {
        let mut urgency = Urgency::begin(7 * MS, 1_607 * MS);
        let mut delivered = 0;
        let look = |(n, pace): (usize, &u32)| {
            delivered += pace;
            let begin_ns = (7 + 100 * n as u64) * MS;
            assert!(!urgency.is_due(begin_ns + full * MS, true));
            assert!(urgency.is_due(begin_ns + 100 * MS, false));
            urgency.look(begin_ns + 100 * MS, delivered, 1_600)
        };
        paces.iter().enumerate().map(look).collect()
    }

    #[test]
    fn look__rises_where_the_deadline_is_missed() {
        assert_eq!(levels(50, &[100; 5]), [0; 5]);
        assert_eq!(levels(25, &[99; 5]), [1, 2, 3, 4, 4]);
        assert_eq!(levels(50, &[10, 10, 150, 150, 150]), [1, 2, 2, 2, 2]);
        // Twice as fast as it has to be.
        assert_eq!(levels(50, &[10, 0, 400, 400, 80]), [1, 2, 1, 0, 0]);
        // All that is needed was delivered.
        assert_eq!(levels(50, &[10, 0, 0, 1_590, 0]), [1, 2, 3, 0, 0]);
    }

    #[test]
    fn look__rises_for_nothing_else() {
        // Nothing is delivered before the first RTT.
        assert_eq!(levels(99, &[0, 0, 0]), [0, 1, 2]);
        // Something else than windows holds the job back.
        assert_eq!(levels(24, &[10; 5]), [0; 5]);
        // Few messages.
        let mut urgency = Urgency::begin(0, 1_600 * MS);
        assert!(urgency.is_due(300 * MS, true));
        assert_eq!(urgency.look(300 * MS, 1, MESSAGES_MIN - 1), 0);
    }

    proptest! {
        // At any progress, the level moves by a step at most, or to 0.
        #[test]
        fn look__moves_in_steps(
            length_ns in 0u64..10_000 * MS,
            calls in proptest::collection::vec((0u64..500 * MS, any::<u32>(), any::<bool>()), 1..50),
            needed in any::<u32>(),
        ) {
            let mut urgency = Urgency::begin(0, length_ns);
            let (mut now_ns, mut before) = (0, 0);
            for (gap_ns, delivered, was_full) in calls {
                now_ns += gap_ns;
                if urgency.is_due(now_ns, was_full) {
                    let level = urgency.look(now_ns, delivered, needed);
                    prop_assert!(level == 0 || level.abs_diff(before) <= 1);
                    prop_assert!(level <= Urgency::LEVEL_MAX);
                    before = level;
                }
                prop_assert_eq!(urgency.level(), before);
            }
        }
    }

    #[test]
    fn window_packets__doubles_and_ends() {
        let of = |packets| (0..=4).map(|level| window_packets(level, packets)).collect::<Vec<_>>();
        assert_eq!(of(3), [3, 6, 12, 24, 0]);
        assert_eq!(of(u32::MAX), [u32::MAX, u32::MAX, u32::MAX, u32::MAX, 0]);
    }
}
