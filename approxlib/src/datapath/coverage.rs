//! Decides whether the daemon's programs see the packets of a flow, and how soon a flow that they
//! didn't see may return to them. Time and counts are arguments.
//!
//! The egress program counts each packet in memory that the library reads, while the system call
//! that sends the packet still runs. A packet is uncounted later only if it waits below the socket,
//! for example for its neighbor's address, or passed no program. It waits as long as the socket's
//! queue isn't empty.

/// How long a flow waits for the count after its packets have left the socket. Errors of this host,
/// which explain why packets were dropped uncounted, arrive earlier.
const GRACE_NS: u64 = 20_000_000;
/// A flow that sends again this soon after an error of this host has not paused: retransmission
/// timeouts are a second at most.
const PAUSE_NS_MIN: u64 = 2_000_000_000;
/// The pause before the first attempt to return.
const RETURN_NS: u64 = 250_000_000;
/// A loss of coverage this soon after the attempt to return follows the earlier one in a row.
const IN_A_ROW_NS: u64 = 10_000_000_000;
/// The pause after two losses in a row. It doubles with each further one.
const LONG_PAUSE_NS: u64 = 4_000_000_000;
const DOUBLINGS_MAX: u32 = 6;
/// Stray ACKs that prove that the programs see none: so many, for so long, with no longer gap.
const STRAY_ACKS_MIN: u64 = 32;
/// See [`STRAY_ACKS_MIN`].
const STRAY_TIME_NS: u64 = 50_000_000;
/// See [`STRAY_ACKS_MIN`].
const STRAY_GAP_NS: u64 = 200_000_000;

/// The packets that a flow sent since the programs' count last changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    seen: u64,
    uncounted: u64,
    /// When the first of them was sent.
    since_ns: u64,
    /// When the queue was first found empty since the last of them.
    empty_since_ns: Option<u64>,
    /// Since when this host has let no packet of the flow out, those that it dropped included.
    withheld_since_ns: Option<u64>,
    /// When this host last reported that it had dropped packets.
    excused_ns: u64,
}

/// Packets that left the host without passing the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub packets: u64,
    /// From the first of them until now, nanoseconds.
    pub after_ns: u64,
}

impl Coverage {
    /// Notes `packets` that were sent at `now_ns`. `seen`: the programs' count after the system
    /// call.
    pub fn sent(&mut self, now_ns: u64, packets: u64, seen: u64) {
        if self.take_in(seen) || packets == 0 {
            return;
        }
        if self.uncounted == 0 {
            self.since_ns = now_ns;
            let has_paused = now_ns.saturating_sub(self.excused_ns) >= PAUSE_NS_MIN;
            self.withheld_since_ns =
                self.withheld_since_ns.filter(|_| !has_paused).or(Some(now_ns));
        }
        self.uncounted += packets;
        self.empty_since_ns = None;
    }

    /// Whether packets wait for their count. Until then the flow should send no more: if the
    /// programs don't see them, nothing paces them.
    pub fn is_waiting(&self) -> bool {
        self.uncounted > 0
    }

    /// Since when this host has let no packet of the flow out, for example because it can't find
    /// the next hop's link address; `None` if the last packets left.
    pub fn withheld_since_ns(&self) -> Option<u64> {
        self.withheld_since_ns
    }

    /// Evaluates the current count. `queue_is_empty` tells whether no packet waits in the socket or
    /// below it; it is asked only if the answer matters. The queue must stay empty from one check
    /// to another, so a thread that runs late finds the host's errors before it decides.
    pub fn check(
        &mut self,
        now_ns: u64,
        seen: u64,
        queue_is_empty: impl FnOnce() -> bool,
    ) -> Option<Lost> {
        if self.take_in(seen) || self.uncounted == 0 {
            return None;
        }
        if !queue_is_empty() {
            self.empty_since_ns = None;
            return None;
        }
        let empty_since_ns = *self.empty_since_ns.get_or_insert(now_ns);
        let lost = now_ns.saturating_sub(empty_since_ns) >= GRACE_NS;
        let after_ns = now_ns.saturating_sub(self.since_ns);
        lost.then_some(Lost { packets: self.uncounted, after_ns })
    }

    /// Forgets the packets that wait for their count: this host reported why they didn't leave.
    pub fn excuse(&mut self, now_ns: u64) {
        if self.uncounted > 0 {
            self.excused_ns = now_ns;
        }
        (self.uncounted, self.empty_since_ns) = (0, None);
    }

    fn take_in(&mut self, seen: u64) -> bool {
        let is_new = seen != self.seen;
        if is_new {
            self.seen = seen;
            (self.uncounted, self.empty_since_ns, self.withheld_since_ns) = (0, None, None);
        }
        is_new
    }
}

/// Counts ACKs that reach the socket of a flow in the kernel datapath. The programs consume those
/// that they see, so these came over another interface. The daemon would take their packets for
/// lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrayAcks {
    acks: u64,
    since_ns: u64,
    last_ns: u64,
}

impl StrayAcks {
    /// Notes one. A few are no proof: they waited in the socket when the flow registered, or came
    /// while the programs were being attached again.
    pub fn came(&mut self, now_ns: u64) -> Option<Lost> {
        if self.acks == 0 || now_ns.saturating_sub(self.last_ns) > STRAY_GAP_NS {
            (self.acks, self.since_ns) = (0, now_ns);
        }
        self.last_ns = now_ns;
        self.acks += 1;
        let after_ns = now_ns.saturating_sub(self.since_ns);
        let is_proof = self.acks >= STRAY_ACKS_MIN && after_ns >= STRAY_TIME_NS;
        is_proof.then_some(Lost { packets: self.acks, after_ns })
    }
}

/// Keeps a flow from moving between two datapaths in quick succession.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReturnPause {
    /// Losses of coverage in a row.
    losses: u32,
    /// When the last pause ended.
    returned_ns: u64,
}

impl ReturnPause {
    /// The pause before the first attempt to return after a loss of coverage, nanoseconds.
    pub fn after_loss(&mut self, now_ns: u64) -> u64 {
        let in_a_row = self.losses > 0 && now_ns <= self.returned_ns.saturating_add(IN_A_ROW_NS);
        self.losses = if in_a_row { self.losses.saturating_add(1) } else { 1 };
        let pause_ns = match self.losses {
            1 => RETURN_NS,
            losses => LONG_PAUSE_NS << (losses - 2).min(DOUBLINGS_MAX),
        };
        self.returned_ns = now_ns.saturating_add(pause_ns);
        pause_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    #[test]
    fn came__a_burst_or_a_few_acks_are_no_proof() {
        let mut strays = StrayAcks::default();
        assert!((0..1_000).all(|ack| strays.came(S + ack * 1_000).is_none()));
        assert!((0..100).all(|ack| strays.came(2 * S + ack * 300 * MS).is_none()));
        let mut lost = (0..).filter_map(|ack| strays.came(60 * S + ack * MS));
        assert_eq!(lost.next(), Some(Lost { packets: 51, after_ns: 50 * MS }));
    }

    #[test]
    fn check__reports_packets_that_left_uncounted() {
        let mut coverage = Coverage::default();
        coverage.sent(0, 10, 7);
        assert!(!coverage.is_waiting());
        coverage.sent(5 * MS, 3, 7);
        coverage.sent(6 * MS, 2, 7);
        assert_eq!(coverage.check(7 * MS, 7, || true), None);
        assert_eq!(coverage.check(26 * MS, 7, || true), None);
        assert!(coverage.is_waiting());
        let lost = Lost { packets: 5, after_ns: 22 * MS };
        assert_eq!(coverage.check(27 * MS, 7, || true), Some(lost));
    }

    /// Packets wait for their neighbor's address, and this host drops them in the end. Its error
    /// comes a little later.
    #[test]
    fn check__waits_for_the_error_of_dropped_packets() {
        let mut coverage = Coverage::default();
        coverage.sent(0, 5, 0);
        assert_eq!(coverage.check(1_000 * MS, 0, || false), None);
        assert_eq!(coverage.check(3_000 * MS, 0, || true), None);
        assert_eq!(coverage.check(3_019 * MS, 0, || true), None);
        coverage.excuse(3_020 * MS);
        assert_eq!(coverage.check(3_040 * MS, 0, || true), None);
    }

    #[test]
    fn check__a_late_count_ends_the_wait() {
        let mut coverage = Coverage::default();
        coverage.sent(0, 5, 0);
        assert_eq!(coverage.check(S, 1, || true), None);
        assert!(!coverage.is_waiting());
        // The count wraps around as any other.
        coverage.sent(S, 5, u64::MAX);
        coverage.sent(S, 5, 0);
        assert_eq!(coverage.check(2 * S, 0, || true), None);
    }

    /// A neighbor that doesn't answer: the host drops the packets after three seconds each time.
    #[test]
    fn withheld_since__goes_on_while_the_host_drops_every_packet() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.withheld_since_ns(), None);
        for (sent_ns, dropped_ns) in [(S, 4 * S), (4 * S, 7 * S), (8 * S, 11 * S)] {
            coverage.sent(sent_ns, 5, 0);
            assert_eq!(coverage.withheld_since_ns(), Some(S));
            coverage.excuse(dropped_ns);
            assert_eq!(coverage.withheld_since_ns(), Some(S));
        }
        coverage.sent(11 * S, 5, 0);
        coverage.check(12 * S, 5, || true);
        assert_eq!(coverage.withheld_since_ns(), None, "packets left");
    }

    /// The peer of an idle flow wasn't asked.
    #[test]
    fn withheld_since__begins_anew_after_a_pause() {
        let mut coverage = Coverage::default();
        coverage.sent(S, 5, 0);
        coverage.excuse(4 * S);
        coverage.sent(60 * S, 5, 0);
        assert_eq!(coverage.withheld_since_ns(), Some(60 * S));
        // An error of packets that were counted is none of this flow's.
        coverage.check(61 * S, 5, || true);
        coverage.excuse(62 * S);
        coverage.sent(90 * S, 5, 5);
        assert_eq!(coverage.withheld_since_ns(), Some(90 * S));
    }

    #[test]
    fn excuse__forgets_packets_that_did_not_leave() {
        let mut coverage = Coverage::default();
        coverage.sent(0, 5, 0);
        coverage.excuse(0);
        assert_eq!(coverage.check(S, 0, || true), None);
        coverage.sent(S, 1, 0);
        assert_eq!(coverage.check(S, 0, || true), None);
        let lost = Lost { packets: 1, after_ns: S };
        assert_eq!(coverage.check(2 * S, 0, || true), Some(lost));
    }

    proptest! {
        /// Packets that are counted when they leave the socket, at once or later, are never
        /// reported, however late the thread runs.
        #[test]
        fn check__never_reports_counted_packets(
            steps in prop::collection::vec((0u64..50, 0u64..50, 0u64..2_000), 1..100),
        ) {
            let mut coverage = Coverage::default();
            let (mut now_ns, mut seen, mut waiting) = (S, 0, 0);
            for (packets, leave, wait_ms) in steps {
                waiting += packets;
                let leave = leave.min(waiting);
                (seen, waiting) = (seen + leave, waiting - leave);
                coverage.sent(now_ns, packets, seen);
                now_ns += wait_ms * MS;
                prop_assert_eq!(coverage.check(now_ns, seen, || waiting == 0), None);
            }
        }

        /// Packets that no program sees are reported once the queue has been empty for the grace
        /// period, and not before.
        #[test]
        fn check__reports_uncounted_packets_in_time(
            seen: u64,
            steps in prop::collection::vec((0u64..3, prop::bool::weighted(0.9), 0u64..15), 1..100),
        ) {
            let mut coverage = Coverage::default();
            coverage.sent(0, 1, seen);
            coverage.excuse(0);
            let (mut now_ns, mut sent, mut first_ns, mut empty_ns) = (S, 0, None, None);
            for (packets, is_empty, wait_ms) in steps {
                coverage.sent(now_ns, packets, seen);
                if packets > 0 {
                    first_ns.get_or_insert(now_ns);
                    empty_ns = None;
                }
                sent += packets;
                now_ns += wait_ms * MS;
                empty_ns = match sent > 0 && is_empty {
                    true => Some(empty_ns.unwrap_or(now_ns)),
                    false => None,
                };
                let after_ns = first_ns.map_or(0, |first_ns| now_ns - first_ns);
                let due = empty_ns.is_some_and(|empty_ns| now_ns - empty_ns >= GRACE_NS);
                let expected = due.then_some(Lost { packets: sent, after_ns });
                prop_assert_eq!(coverage.check(now_ns, seen, || is_empty), expected);
                if due {
                    return Ok(());
                }
            }
        }
    }

    #[test]
    fn after_loss__grows_only_in_a_row() {
        let mut pause = ReturnPause::default();
        assert_eq!(pause.after_loss(100 * S), RETURN_NS);
        assert_eq!(pause.after_loss(105 * S), 4 * S);
        assert_eq!(pause.after_loss(110 * S), 8 * S);
        assert_eq!(pause.after_loss(129 * S), RETURN_NS);
        for _ in 0..100 {
            pause.after_loss(129 * S);
        }
        assert_eq!(pause.after_loss(129 * S), 256 * S);
    }
}
