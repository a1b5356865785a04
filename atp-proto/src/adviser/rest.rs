//! The bytes that arrive on a line beside its lanes.

use atp_common::maps::ArrivedLane;

/// Bytes on the wire that arrived on a line, or of a lane. Both counts wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireBytes {
    /// All of them.
    pub all: u64,
    /// Bytes with the DSCP of an approximate queue.
    pub approximate: u64,
}

impl WireBytes {
    /// The bytes since `before`.
    pub const fn since(self, before: Self) -> Self {
        Self {
            all: self.all.wrapping_sub(before.all),
            approximate: self.approximate.wrapping_sub(before.approximate),
        }
    }
}

impl From<ArrivedLane> for WireBytes {
    fn from(lane: ArrivedLane) -> Self {
        Self { all: lane.bytes, approximate: lane.approximate_bytes }
    }
}

/// The rest of a line from tick to tick. Lanes are read before their line, so that a line's count
/// holds packets that the lanes' counts have only at the next tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rest {
    all: Kind,
    approximate: Kind,
}

impl Rest {
    /// The bytes of this tick on the line that are of no lane.
    pub fn of(&mut self, line: WireBytes, lanes: WireBytes) -> WireBytes {
        let all = self.all.rest(line.all, lanes.all);
        let approximate = self.approximate.rest(line.approximate, lanes.approximate);
        WireBytes { all, approximate: approximate.min(all) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// The line's bytes at the last tick that had a rest.
    at_rest: u64,
    /// The part of that rest that was of lanes.
    of_lanes: u64,
}

impl Kind {
    fn rest(&mut self, line: u64, lanes: u64) -> u64 {
        let lanes = lanes + self.of_lanes;
        if line > lanes {
            (self.at_rest, self.of_lanes) = (line, 0);
            return line - lanes;
        }
        // A lane's count of a GRO buffer with a short last packet is too high. That doesn't add up:
        // no more can have been of lanes than all bytes of the tick that had a rest.
        self.of_lanes = (lanes - line).min(self.at_rest);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(all: u64, approximate: u64) -> WireBytes {
        WireBytes { all, approximate }
    }

    proptest! {
        // Of each tick's packets, the lanes' counts have a part only at the next tick.
        #[test]
        fn of__adds_up_although_lanes_are_read_earlier(
            ticks in proptest::collection::vec((0u64..1_000, 0u64..1_000, 0.0f64..1.0), 1..100),
        ) {
            let (mut rest, mut late, mut found, mut expected) = (Rest::default(), 0, 0, 0);
            for (lanes, others, late_share) in ticks {
                let now_late = (lanes as f64 * late_share) as u64;
                let of_lanes = bytes(lanes - now_late + late, lanes - now_late + late);
                late = now_late;
                let of = rest.of(bytes(lanes + others, lanes), of_lanes);
                prop_assert!(of.approximate <= of.all);
                (found, expected) = (found + of.all, expected + others);
                // Late packets were found as a rest, and are subtracted from the next one.
                prop_assert_eq!(found, expected + late + rest.all.of_lanes);
                prop_assert!(rest.all.of_lanes < 1_000);
            }
        }
    }

    #[test]
    fn of__a_line_with_a_lane_and_two_kinds_of_others() {
        let mut rest = Rest::default();
        assert_eq!(rest.of(bytes(1_000, 700), bytes(400, 400)), bytes(600, 300));
        // An exact lane with advice hides nothing.
        assert_eq!(rest.of(bytes(1_000, 300), bytes(700, 0)), bytes(300, 300));
        assert_eq!(rest.of(bytes(100, 0), bytes(150, 0)), bytes(0, 0));
        assert_eq!(rest.of(bytes(100, 0), bytes(0, 0)), bytes(50, 0));
        // Counts that are always too high hide no more than a tick.
        (0..9).for_each(|_| assert_eq!(rest.of(bytes(100, 0), bytes(130, 0)), bytes(0, 0)));
        assert_eq!(rest.of(bytes(150, 0), bytes(0, 0)), bytes(50, 0));
    }
}
