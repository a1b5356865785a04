//! One message in transmission: its window, its timer, and the state of its parts (§4.2).

use super::{PFabricSettings, SEGMENT_BYTES_MAX};
use std::collections::BTreeSet;

/// The next packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A part of the message.
    Segment(u32),
    /// A probe.
    Probe,
}

/// A message that isn't acknowledged in full.
#[derive(Debug)]
pub(super) struct Message {
    settings: PFabricSettings,
    bytes: u32,
    count: u32,
    /// Number of bytes that aren't acknowledged.
    remaining_bytes: u32,
    /// The first part that was never sent.
    next: u32,
    in_flight: BTreeSet<u32>,
    /// Parts to retransmit.
    lost: BTreeSet<u32>,
    /// The window in packets. It grows by one packet per acknowledgment below the threshold, and by
    /// one packet per window beyond it.
    window: f64,
    threshold: f64,
    /// Number of timeouts since the last acknowledgment.
    timeouts: u32,
    probe_is_due: bool,
    deadline_ps: Option<u64>,
}

impl Message {
    pub fn new(bytes: u32, settings: PFabricSettings) -> Self {
        // Start at line rate, then additive increase.
        let window = f64::from(settings.window_packets);
        Self {
            settings,
            bytes,
            count: bytes.div_ceil(SEGMENT_BYTES_MAX).max(1),
            remaining_bytes: bytes,
            next: 0,
            in_flight: BTreeSet::new(),
            lost: BTreeSet::new(),
            window,
            threshold: window,
            timeouts: 0,
            probe_is_due: false,
            deadline_ps: None,
        }
    }

    /// Number of parts.
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn remaining_bytes(&self) -> u32 {
        self.remaining_bytes
    }

    /// Whether every part is acknowledged.
    pub fn is_done(&self) -> bool {
        self.next == self.count && self.in_flight.is_empty() && self.lost.is_empty()
    }

    /// Whether the message has a packet to send when the line is free.
    pub fn is_ready(&self) -> bool {
        if self.is_probing() {
            return self.probe_is_due;
        }
        let has_any = !self.lost.is_empty() || self.next < self.count;
        has_any && (self.in_flight.len() as f64) < self.window
    }

    /// Time of the message's timeout.
    pub fn deadline_ps(&self) -> Option<u64> {
        self.deadline_ps
    }

    /// Length of a part, bytes.
    pub fn segment_bytes(&self, number: u32) -> u32 {
        (self.bytes - number * SEGMENT_BYTES_MAX).min(SEGMENT_BYTES_MAX)
    }

    /// The next packet; `None` if the message isn't ready.
    pub fn send(&mut self, now_ps: u64) -> Option<Item> {
        if !self.is_ready() {
            return None;
        }
        self.deadline_ps.get_or_insert(now_ps + self.settings.timeout_ps());
        if self.is_probing() {
            self.probe_is_due = false;
            return Some(Item::Probe);
        }
        let number = self.lost.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.in_flight.insert(number);
        Some(Item::Segment(number))
    }

    /// Takes the acknowledgment of a part, or of a probe.
    pub fn acknowledge(&mut self, now_ps: u64, number: Option<u32>) {
        let was_probing = self.is_probing();
        (self.timeouts, self.probe_is_due) = (0, false);
        let oldest = self.oldest();
        if let Some(number) = number {
            // Only a full window grows.
            let was_full = (self.in_flight.len() + 1) as f64 >= self.window;
            if self.in_flight.remove(&number) || self.lost.remove(&number) {
                self.remaining_bytes -= self.segment_bytes(number);
                if was_full {
                    self.grow();
                }
            }
        }
        // As in TCP, the timer restarts when the oldest unacknowledged part advances.
        if was_probing || self.in_flight.is_empty() {
            self.deadline_ps = None;
        }
        if !self.in_flight.is_empty() && (was_probing || self.oldest() > oldest) {
            self.deadline_ps = Some(now_ps + self.settings.timeout_ps());
        }
    }

    /// Declares all parts in flight lost. Slow start follows, up to half of the window. After
    /// several consecutive timeouts the message sends probes.
    pub fn on_timeout(&mut self) {
        self.deadline_ps = None;
        self.lost.append(&mut self.in_flight);
        self.timeouts += 1;
        self.probe_is_due = self.is_probing();
        self.threshold = (self.window / 2.0).max(1.0);
        self.window = 1.0;
    }

    fn is_probing(&self) -> bool {
        self.timeouts >= self.settings.timeouts_max
    }

    /// The first part that isn't acknowledged.
    fn oldest(&self) -> u32 {
        let first = |parts: &BTreeSet<u32>| parts.first().copied().unwrap_or(self.next);
        first(&self.in_flight).min(first(&self.lost))
    }

    fn grow(&mut self) {
        self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETTINGS: PFabricSettings = PFabricSettings {
        round_trip_ps: 10,
        window_packets: 12,
        timeout_round_trips: 3,
        timeouts_max: 5,
    };

    fn sent(message: &mut Message, now_ps: u64) -> Vec<Item> {
        std::iter::from_fn(|| message.send(now_ps)).collect()
    }

    /// pFabric §4.2: a window of one bandwidth-delay product at once. After a timeout, one packet,
    /// then slow start to half of the window.
    #[test]
    fn message__begins_at_line_rate_and_slow_starts_after_a_timeout() {
        let mut message = Message::new(1_000_000, SETTINGS);
        assert_eq!(sent(&mut message, 0).len(), 12);
        assert_eq!(message.deadline_ps(), Some(30));
        message.on_timeout();
        assert_eq!(sent(&mut message, 30), [Item::Segment(0)]);
        message.acknowledge(40, Some(0));
        assert_eq!(sent(&mut message, 40), [Item::Segment(1), Item::Segment(2)]);
        assert_eq!((message.window, message.threshold), (2.0, 6.0));
    }

    /// pFabric §4.2: after five consecutive timeouts only probes, one per timeout, until an
    /// acknowledgment.
    #[test]
    fn message__probes_after_five_timeouts_in_a_row() {
        let mut message = Message::new(1_000_000, SETTINGS);
        for _ in 0..4 {
            assert!(matches!(message.send(0), Some(Item::Segment(0))));
            message.on_timeout();
        }
        // An acknowledgment resets the count.
        message.send(0);
        message.acknowledge(0, Some(0));
        for _ in 0..5 {
            assert!(matches!(message.send(0), Some(Item::Segment(1))));
            message.on_timeout();
        }
        for _ in 0..7 {
            assert_eq!(sent(&mut message, 100), [Item::Probe]);
            assert_eq!(message.deadline_ps(), Some(130));
            message.on_timeout();
        }
        assert_eq!(sent(&mut message, 130), [Item::Probe]);
        message.acknowledge(140, None);
        assert_eq!(message.deadline_ps(), None);
        assert_eq!(sent(&mut message, 140), [Item::Segment(1)]);
    }

    /// Acknowledgments of later parts don't postpone the timeout of an earlier one.
    #[test]
    fn message__times_out_for_its_oldest_part() {
        let mut message = Message::new(10_000_000, SETTINGS);
        sent(&mut message, 0);
        for number in 1..12 {
            message.acknowledge(10 + u64::from(number), Some(number));
            sent(&mut message, 20);
        }
        assert_eq!(message.deadline_ps(), Some(30));
        message.acknowledge(25, Some(0));
        assert_eq!(message.deadline_ps(), Some(55));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Send,
        Acknowledge(usize),
        Duplicate(usize),
        Timeout,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Send),
            3 => (0usize..100).prop_map(Step::Acknowledge),
            1 => (0usize..100).prop_map(Step::Duplicate),
            1 => Just(Step::Timeout),
        ]
    }

    proptest! {
        /// For any losses and duplicates, the remaining bytes are the unacknowledged ones, the
        /// window is never exceeded, and the timer runs while a part is in flight.
        #[test]
        fn message__accounts_for_its_parts(
            bytes in 1u32..60_000,
            steps in proptest::collection::vec(step(), 0..300),
        ) {
            let mut message = Message::new(bytes, SETTINGS);
            let (mut sent, mut acked) = (Vec::new(), BTreeSet::new());
            for (now_ps, step) in (0..).zip(steps) {
                match step {
                    Step::Send => match message.send(now_ps) {
                        Some(Item::Segment(number)) => {
                            prop_assert!(!acked.contains(&number));
                            prop_assert!(message.in_flight.len() as f64 <= message.window.ceil());
                            sent.push(number);
                        }
                        Some(Item::Probe) => prop_assert!(message.is_probing()),
                        None => {}
                    },
                    Step::Acknowledge(index) if !sent.is_empty() => {
                        let number = sent.swap_remove(index % sent.len());
                        message.acknowledge(now_ps, Some(number));
                        acked.insert(number);
                    }
                    Step::Duplicate(index) if !acked.is_empty() => {
                        let number = acked.iter().copied().nth(index % acked.len());
                        message.acknowledge(now_ps, number);
                    }
                    Step::Timeout if message.deadline_ps().is_some() => message.on_timeout(),
                    _ => {}
                }
                let here: u32 = acked.iter().map(|number| message.segment_bytes(*number)).sum();
                prop_assert_eq!(message.remaining_bytes(), bytes - here);
                prop_assert_eq!(message.is_done(), acked.len() as u32 == message.count());
                prop_assert!(message.in_flight.is_empty() || message.deadline_ps().is_some());
                // The message never stalls: it may send, or it has a timeout.
                prop_assert!(
                    message.is_done() || message.is_ready() || message.deadline_ps().is_some()
                );
            }
        }
    }
}
