//! Background traffic: packets at a constant rate, in queues that change with time
//! (NetApprox §7.1.2's "synthetic, controlled background traffic").

use crate::net::HostId;
use std::str::FromStr;

/// The UDP payload of a full Ethernet packet, bytes.
pub const PAYLOAD_BYTES_MAX: u32 = 1_472;

/// Background flows of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// The hosts of the flows.
    pub between: Between,
    /// The share of its sender's line that each flow uses, headers included: above 0, up to 1.
    pub share: f64,
    /// The payload of each packet, bytes: 1 to [`PAYLOAD_BYTES_MAX`].
    pub payload_bytes: u32,
    /// The times and queues, in the order of time, without overlap.
    pub intervals: Vec<Interval>,
}

/// The senders and receivers of background traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Between {
    /// The first host of each pair sends to the second.
    Pairs(Vec<(HostId, HostId)>),
    /// The given number of random pairs of different hosts.
    Drawn(u32),
}

/// A period in which background traffic uses one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The start, picoseconds.
    pub from_ps: u64,
    /// The end, picoseconds.
    pub until_ps: u64,
    /// The queue at switches, 0 to 7.
    pub queue: u8,
}

impl Background {
    /// The times and sizes of a flow's packets. A packet leaves every `gap_ps`, the first of each
    /// interval `phase_ps` after its start.
    ///
    /// # Panics
    /// If `gap_ps` is 0.
    pub fn packets(
        &self,
        gap_ps: u64,
        phase_ps: u64,
    ) -> impl Iterator<Item = (u64, u32)> + Clone + 'static {
        assert!(gap_ps > 0, "the gap between packets must be above 0");
        let bytes = self.payload_bytes;
        self.intervals.clone().into_iter().flat_map(
            move |Interval { from_ps, until_ps, .. }| {
                let first_ps = from_ps + phase_ps;
                let number = until_ps.saturating_sub(first_ps).div_ceil(gap_ps);
                (0..number).map(move |at| (first_ps + at * gap_ps, bytes))
            },
        )
    }

    /// The queue at a time; `None` if no interval includes it.
    pub fn queue(&self, at_ps: u64) -> Option<u8> {
        let is_now = |interval: &&Interval| (interval.from_ps..interval.until_ps).contains(&at_ps);
        self.intervals.iter().find(is_now).map(|interval| interval.queue)
    }

    /// Cuts all intervals off at `end_ps`.
    pub fn until(mut self, end_ps: u64) -> Self {
        for interval in &mut self.intervals {
            interval.until_ps = interval.until_ps.min(end_ps);
        }
        self.intervals.retain(|interval| interval.from_ps < interval.until_ps);
        self
    }
}

impl Background {
    /// Whether the flows never send.
    pub fn is_silent(&self) -> bool {
        self.intervals.is_empty()
    }
}

impl FromStr for Background {
    type Err = String;

    /// Parses `[FLOWSx]SHARE@QUEUE[:FROM-UNTIL][,QUEUE:FROM-UNTIL...]`, with times in microseconds.
    /// `0.5@4` is one flow that always uses half of its line in queue 4. `3x0.8@4:0-600,3:600-900`
    /// are three flows that move from queue 4 to queue 3. The hosts are random.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "[FLOWSx]SHARE@QUEUE[:FROM-UNTIL][,QUEUE:FROM-UNTIL...]";
        let (what, queues) =
            text.split_once('@').ok_or_else(|| format!("{text:?} is not of the form {FORM}"))?;
        let (flows, share) = what.split_once('x').unwrap_or(("1", what));
        let flows = match flows.parse() {
            Ok(flows @ 1..=10_000) => flows,
            _ => return Err(format!("{flows:?} is not a number of flows from 1 to 10,000")),
        };
        let share = match share.parse() {
            Ok(share) if (0.001..=1.0).contains(&share) => share,
            _ => return Err(format!("{share:?} is not a share of a line from 0.001 to 1")),
        };
        let intervals =
            queues.split(',').map(str::parse).collect::<Result<Vec<Interval>, String>>()?;
        let is_later = |pair: &[Interval]| pair[0].until_ps <= pair[1].from_ps;
        if !intervals.windows(2).all(is_later) {
            return Err(format!("{text:?}: an interval begins before the previous one ends"));
        }
        let between = Between::Drawn(flows);
        Ok(Self { between, share, payload_bytes: PAYLOAD_BYTES_MAX, intervals })
    }
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (queue, times) =
            text.split_once(':').map_or((text, None), |(queue, times)| (queue, Some(times)));
        let queue = match queue.parse() {
            Ok(queue @ 0..=7) => queue,
            _ => return Err(format!("{queue:?} is not a queue from 0 to 7")),
        };
        let Some(times) = times else {
            return Ok(Self { from_ps: 0, until_ps: u64::MAX, queue });
        };
        let us = |text: &str| match text.parse::<u64>() {
            Ok(us @ 0..=10_000_000) => Some(us * crate::engine::US),
            _ => None,
        };
        let (from, until) = times.split_once('-').unwrap_or((times, ""));
        match us(from).zip(us(until)) {
            Some((from_ps, until_ps)) if from_ps < until_ps => {
                Ok(Self { from_ps, until_ps, queue })
            }
            _ => Err(format!("{times:?} is not an interval FROM-UNTIL within 0 to 10,000,000 us")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::US;
    use proptest::prelude::*;

    #[test]
    fn background__parses_flows_share_queues_and_times() {
        let background: Background = "3x0.8@4:0-600,3:600-900".parse().unwrap();
        let interval =
            |from, until, queue| Interval { from_ps: from * US, until_ps: until * US, queue };
        let intervals = vec![interval(0, 600, 4), interval(600, 900, 3)];
        let between = Between::Drawn(3);
        let expected =
            Background { between, share: 0.8, payload_bytes: PAYLOAD_BYTES_MAX, intervals };
        assert_eq!(background, expected);
        let shorter = background.until(600 * US);
        assert_eq!(shorter.intervals, [interval(0, 600, 4)]);
        let always: Background = "0.5@7".parse().unwrap();
        assert_eq!(always.until(US).intervals, [Interval { from_ps: 0, until_ps: US, queue: 7 }]);
    }

    #[test]
    fn background__errors_name_the_wrong_part() {
        for (wrong, about) in [
            ("", "is not of the form"),
            ("0.5", "is not of the form"),
            ("0x0.5@4", "flows"),
            ("1.5@4", "share"),
            ("nan@4", "share"),
            ("0.5@8", "queue"),
            ("0.5@-1", "queue"),
            ("0.5@4:5", "interval"),
            ("0.5@4:5-5", "interval"),
            ("0.5@4:0-99999999999999999999", "interval"),
            ("0.5@4:0-9,3:8-12", "begins before"),
            ("0.5@4,3", "begins before"),
            ("0.5@4,", "queue"),
        ] {
            let error = wrong.parse::<Background>().unwrap_err();
            assert!(error.contains(about), "{wrong}: {error}");
        }
    }

    proptest! {
        /// Packets are inside their intervals, one gap apart, and each interval is full.
        #[test]
        fn packets__fill_their_intervals(
            lengths in proptest::collection::vec((0u64..5_000, 1u64..5_000), 1..5),
            gap_ps in 1u64..3_000,
            phase in 0.0f64..1.0,
        ) {
            let phase_ps = (phase * gap_ps as f64) as u64;
            let mut at_ps = 0;
            let intervals: Vec<Interval> = lengths.iter().map(|&(pause_ps, length_ps)| {
                let from_ps = at_ps + pause_ps;
                at_ps = from_ps + length_ps;
                Interval { from_ps, until_ps: at_ps, queue: 4 }
            }).collect();
            let between = Between::Drawn(1);
            let background =
                Background { between, share: 0.5, payload_bytes: 9, intervals: intervals.clone() };
            let times: Vec<u64> = background.packets(gap_ps, phase_ps).map(|packet| packet.0).collect();
            for Interval { from_ps, until_ps, .. } in intervals {
                let inside: Vec<u64> =
                    times.iter().copied().filter(|at| (from_ps..until_ps).contains(at)).collect();
                prop_assert!(inside.windows(2).all(|pair| pair[1] - pair[0] == gap_ps));
                let length_ps = (until_ps - from_ps) as f64;
                prop_assert!((inside.len() as f64 - length_ps / gap_ps as f64).abs() <= 1.0);
            }
            prop_assert!(times.is_sorted());
        }
    }
}
