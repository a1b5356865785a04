//! The receiving host's adviser: counts what arrives, and divides the line among lanes.
//!
//! The host counts every packet once. The adviser computes new advice when it is asked: at a fixed
//! interval, and after a lane began or ended. Its laws are `atp_common::laws::advice`.

mod rest;

pub use rest::{Rest, WireBytes};

use atp_common::{
    laws::advice::{Arrivals, LaneArrivals, Span, available, fill, left_beside},
    wire::Advice,
};
use std::{collections::HashMap, hash::Hash};

/// The settings of an [`Adviser`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdviserConfig {
    /// The line's rate, bytes per second on the wire.
    pub line_bytes_per_s: u64,
    /// The least time between two computations.
    pub interval_ns: u64,
    /// The window of arrivals.
    pub window_ns: u64,
    /// The packets that an approximate queue holds at the line's other end; 0 for one
    /// queue, which exact traffic shares.
    pub depth_packets: u32,
}

/// The adviser of one line. `L` identifies a lane.
#[derive(Debug)]
pub struct Adviser<L> {
    config: AdviserConfig,
    /// Everything but the lanes and unadvised traffic.
    others: Arrivals,
    /// Packets in approximate queues at the line's other end that get no advice.
    unadvised: Arrivals,
    lanes: Vec<LaneArrivals>,
    /// By position in `lanes`.
    ids: Vec<L>,
    positions: HashMap<L, usize>,
    /// Lanes of which nothing came lately. They take no share, and are no new lanes if they return:
    /// a lane with a packet now and then would else count as one that wants the whole line.
    silent: HashMap<L, LaneArrivals>,
    /// When the next computation is due.
    due_ns: u64,
}

impl<L: Copy + Eq + Hash> Adviser<L> {
    /// An adviser of a line without traffic. Interval and window are raised to a nanosecond.
    pub fn new(config: AdviserConfig) -> Self {
        let (interval_ns, window_ns) = (config.interval_ns.max(1), config.window_ns.max(1));
        Self {
            config: AdviserConfig { interval_ns, window_ns, ..config },
            others: Arrivals::default(),
            unadvised: Arrivals::default(),
            lanes: Vec::new(),
            ids: Vec::new(),
            positions: HashMap::new(),
            silent: HashMap::new(),
            due_ns: 0,
        }
    }

    /// Counts `wire_bytes` of a lane's DATA that arrived in `span`. `backlogged`: the flag of the
    /// last packet.
    pub fn on_data(&mut self, span: Span, lane: L, wire_bytes: u64, backlogged: bool) {
        let window_ns = self.config.window_ns;
        let position = *self.positions.entry(lane).or_insert_with(|| {
            self.ids.push(lane);
            let known = self.silent.remove(&lane);
            self.lanes.push(known.unwrap_or_else(|| LaneArrivals::new(span.until_ns)));
            self.due_ns = 0;
            self.lanes.len() - 1
        });
        self.lanes[position].arrive(span, window_ns, wire_bytes, backlogged);
    }

    /// Counts `wire_bytes` of approximate traffic that gets no advice.
    pub fn on_unadvised(&mut self, span: Span, wire_bytes: u64) {
        self.unadvised.add(span, self.config.window_ns, wire_bytes);
    }

    /// Counts `wire_bytes` of anything else.
    pub fn on_other(&mut self, span: Span, wire_bytes: u64) {
        self.others.add(span, self.config.window_ns, wire_bytes);
    }

    /// Forgets a lane, which has ended.
    pub fn remove(&mut self, lane: L) {
        self.silent.remove(&lane);
        self.remove_active(lane);
    }

    fn remove_active(&mut self, lane: L) {
        if let Some(position) = self.positions.remove(&lane) {
            self.due_ns = 0;
            self.ids.swap_remove(position);
            self.lanes.swap_remove(position);
            if let Some(moved) = self.ids.get(position) {
                self.positions.insert(*moved, position);
            }
        }
    }

    /// The advice to a lane, from a computation with the current lanes that is not older than the
    /// interval. None for an unknown lane. That of a silent lane stays what it was: its sender may
    /// have been held up, and would return at its own rate, which may be the line's. It doesn't
    /// follow the line either, as receipts tell of every change.
    pub fn advice(&mut self, now_ns: u64, lane: L) -> Advice {
        if now_ns >= self.due_ns {
            self.compute(now_ns);
            self.due_ns = now_ns + self.config.interval_ns;
        }
        let active = self.positions.get(&lane).map(|position| &self.lanes[*position]);
        active.or(self.silent.get(&lane)).map_or(Advice::NONE, LaneArrivals::advice)
    }

    /// The number of lanes that arrive.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn compute(&mut self, now_ns: u64) {
        let AdviserConfig { line_bytes_per_s, window_ns, depth_packets, .. } = self.config;
        for position in (0..self.lanes.len()).rev() {
            if !self.lanes[position].is_active(now_ns, window_ns) {
                let (id, lane) = (self.ids[position], self.lanes[position]);
                self.remove_active(id);
                self.silent.insert(id, lane);
            }
        }
        let others_bytes_per_s = self.others.bytes_per_s(now_ns, window_ns);
        let available = available(line_bytes_per_s, others_bytes_per_s, depth_packets);
        let unadvised = self.unadvised.bytes_per_s(now_ns, window_ns);
        let lanes = self.lanes.len() as u64;
        let left = left_beside(unadvised, available, lanes, depth_packets);
        fill(&mut self.lanes, left, now_ns, window_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: AdviserConfig = AdviserConfig {
        line_bytes_per_s: 1_000_000_000,
        interval_ns: 2_000,
        window_ns: 30_000,
        depth_packets: 7,
    };

    #[test]
    fn advice__divides_what_others_leave_until_lanes_end() {
        let mut adviser = Adviser::new(CONFIG);
        assert_eq!(adviser.advice(0, 7), Advice::NONE);
        for now_ns in (0..300_000).step_by(1_000) {
            [7, 8].into_iter().for_each(|lane| adviser.on_data(Span::at(now_ns), lane, 400, true));
            adviser.on_other(Span::at(now_ns), 200);
        }
        let now_ns = 300_000;
        let found = adviser.advice(now_ns, 7).bytes_per_s();
        assert!((445_000_000..455_000_000).contains(&found), "{found}");
        assert_eq!(adviser.advice(now_ns, 9), Advice::NONE);
        // The next computation is not due, until a lane ends.
        adviser.on_other(Span::at(now_ns), 30_000);
        assert_eq!(adviser.advice(now_ns + 1_999, 7).bytes_per_s(), found);
        let less = adviser.advice(now_ns + 2_000, 7).bytes_per_s();
        assert!(less < found / 2, "{less}");
        adviser.remove(8);
        let alone = adviser.advice(now_ns + 2_001, 7).bytes_per_s();
        assert!(alone > less, "{alone}");
        assert_eq!((adviser.lanes(), adviser.advice(now_ns, 8)), (1, Advice::NONE));
        // A silent lane has no share, and keeps its advice until it ends.
        assert_eq!(adviser.advice(now_ns + 400_000, 7).bytes_per_s(), alone);
        assert_eq!(adviser.lanes(), 0);
        adviser.remove(7);
        assert_eq!(adviser.advice(now_ns + 40_000, 7), Advice::NONE);
    }

    // The sender of a silent lane may be held up, and return at any time.
    #[test]
    fn advice__of_a_silent_lane_stays() {
        let (mut adviser, mut of_silent) = (Adviser::new(CONFIG), Vec::new());
        for now_ns in (0..300_000).step_by(1_000) {
            [7, 8].into_iter().for_each(|lane| adviser.on_data(Span::at(now_ns), lane, 500, true));
            if now_ns < 100_000 {
                adviser.on_data(Span::at(now_ns), 9, 500, true);
            }
            adviser.on_other(Span::at(now_ns), if now_ns < 200_000 { 0 } else { 400 });
            let advice = adviser.advice(now_ns, 9);
            if adviser.lanes() == 2 && now_ns > 100_000 {
                of_silent.push(advice);
            }
        }
        assert!(of_silent.len() > 150 && of_silent.iter().all(|advice| *advice == of_silent[0]));
        let (third, half) = (1_000_000_000 / 3, 500_000_000);
        assert!((third - third / 50..=half).contains(&of_silent[0].bytes_per_s()), "{of_silent:?}");
        assert_ne!(adviser.advice(300_000, 7), of_silent[0]);
        assert_eq!(adviser.advice(300_000, 1), Advice::NONE);
    }

    // Two lanes that send as advised, and unadvised traffic at the line's rate.
    #[test]
    fn advice__leaves_unadvised_traffic_one_share() {
        let mut adviser = Adviser::new(CONFIG);
        let mut advice = Advice::NONE;
        for now_ns in (0..300_000).step_by(1_000) {
            let bytes = advice.bytes_per_s().min(1_000_000_000) / 1_000_000;
            [7, 8]
                .into_iter()
                .for_each(|lane| adviser.on_data(Span::at(now_ns), lane, bytes, true));
            adviser.on_unadvised(Span::at(now_ns), 1_000);
            advice = adviser.advice(now_ns, 7);
        }
        let found = advice.bytes_per_s();
        assert!((330_000_000..336_000_000).contains(&found), "{found}");
    }

    #[test]
    fn remove__keeps_the_other_lanes() {
        let mut adviser = Adviser::new(CONFIG);
        (0..10).for_each(|lane| adviser.on_data(Span::at(1), lane, 100, true));
        [0, 9, 4, 4].into_iter().for_each(|lane| adviser.remove(lane));
        let known: Vec<_> = (0..10).filter(|l| adviser.advice(2, *l) != Advice::NONE).collect();
        assert_eq!(known, [1, 2, 3, 5, 6, 7, 8]);
    }

    #[test]
    fn advice__lanes_with_a_packet_now_and_then_take_no_share() {
        let mut adviser = Adviser::new(CONFIG);
        let mut advice = Advice::NONE;
        // Lane 0 sends as it is advised. Each of the others returns after one and a half windows.
        for step in 0..4_000u64 {
            let now_ns = step * 1_000;
            let rate = advice.bytes_per_s().clamp(1_000_000, 1_000_000_000);
            adviser.on_data(Span::at(now_ns), 0, rate / 1_000_000, true);
            for lane in 1..=45 {
                if (step + lane) % 45 == 0 {
                    adviser.on_data(Span::at(now_ns), lane, 84, true);
                }
            }
            advice = adviser.advice(now_ns, 0);
        }
        assert!(advice.bytes_per_s() > 500_000_000, "{advice:?}");
    }
}
