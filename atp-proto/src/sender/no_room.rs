//! Pauses a sender whose receiver has no room.
//!
//! "No room" is no failure of the job and no sign of congestion: DCCP tells drops in the end host
//! from drops in the network for the same reason (RFC 4340 §11.7). It lasts until other senders
//! have ended, so the sender keeps its state and tries again after growing pauses. The packets that
//! were refused had reached the peer's host, so they don't count as lost for the rate law. They
//! wait for a receipt, as any other packet that the peer's host acknowledged, and receipts show
//! that they are missing.

/// The first pause is this many round trips: others need about as long to make room.
const PAUSE_RTTS: u64 = 4;
/// The first pause, at least.
const PAUSE_NS_MIN: u64 = 50_000_000;
/// The longest pause, without its random part.
const PAUSE_NS_MAX: u64 = 800_000_000;

/// The refusals since the receiver last accepted something.
#[derive(Debug, Default)]
pub(crate) struct NoRoom {
    /// When the first and the last refusal came; `None` after an acceptance.
    refused_ns: Option<(u64, u64)>,
    /// The length of the last pause.
    pause_ns: u64,
    /// The end of the current pause.
    paused_until_ns: Option<u64>,
    /// Packets before this slot were sent before the last pause.
    resumed_slot: Option<u32>,
}

/// A refusal, and the sender's current state.
pub(crate) struct Refusal {
    pub(super) now_ns: u64,
    /// The slot of the refused packet.
    pub(super) slot: u32,
    pub(super) next_slot: u32,
    pub(super) rtt_ns: u64,
    /// How long the peer may be silent.
    pub(super) peer_timeout_ns: u64,
    /// Spreads the pauses of many senders.
    pub(super) seed: u32,
}

impl NoRoom {
    /// Takes in a refusal. Returns for how long the receiver has accepted nothing.
    pub(crate) fn on_refusal(&mut self, refusal: &Refusal) -> u64 {
        let &Refusal { now_ns, slot, next_slot, rtt_ns, peer_timeout_ns, seed } = refusal;
        // After this long without a refusal, the receiver had room.
        let quiet_ns = (peer_timeout_ns / 2).max(2 * PAUSE_NS_MAX);
        let earlier = self.refused_ns.filter(|(_, last_ns)| {
            // Time without a refusal is no time of refusal: the receiver may have had room, or this
            // process was stopped.
            now_ns.saturating_sub(*last_ns) < quiet_ns
        });
        if earlier.is_none() {
            self.pause_ns = 0;
        }
        let (since_ns, _) = *self.refused_ns.insert((earlier.map_or(now_ns, |e| e.0), now_ns));
        let was_known =
            self.resumed_slot.is_some_and(|resumed| (slot.wrapping_sub(resumed) as i32) < 0);
        // A burst of refused packets is one refusal.
        if !was_known || earlier.is_none() {
            self.pause_ns = match self.pause_ns {
                0 => (PAUSE_RTTS * rtt_ns).clamp(PAUSE_NS_MIN, PAUSE_NS_MAX),
                before => (2 * before).min(PAUSE_NS_MAX),
            };
            let random = u64::from(seed.wrapping_add(slot).wrapping_mul(2_654_435_761) >> 24);
            let pause_ns = self.pause_ns + self.pause_ns / 4 * random / 256;
            self.paused_until_ns = Some(now_ns + pause_ns);
            self.resumed_slot = Some(next_slot);
        }
        now_ns.saturating_sub(since_ns)
    }

    /// Notes that the receiver has accepted something. A pause goes on: other packets were refused.
    pub(crate) fn on_acceptance(&mut self) {
        self.refused_ns = None;
    }

    /// The end of the current pause, if there is one.
    pub(crate) fn paused_until_ns(&self) -> Option<u64> {
        self.paused_until_ns
    }

    /// Whether the sender waits until the receiver may have room.
    pub(crate) fn is_paused(&self, now_ns: u64) -> bool {
        self.paused_until_ns.is_some_and(|until_ns| until_ns > now_ns)
    }

    /// Ends a pause that is over.
    pub(crate) fn resume(&mut self, now_ns: u64) {
        self.paused_until_ns = self.paused_until_ns.filter(|until_ns| *until_ns > now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn refusal(now_ms: u64, slot: u32, next_slot: u32) -> Refusal {
        let peer_timeout_ns = 10_000 * MS;
        Refusal { now_ns: now_ms * MS, slot, next_slot, rtt_ns: MS, peer_timeout_ns, seed: 7 }
    }

    fn pause_ms(no_room: &NoRoom, now_ms: u64) -> u64 {
        (no_room.paused_until_ns().unwrap() - now_ms * MS) / MS
    }

    #[test]
    fn on_refusal__a_burst_is_one_and_pauses_grow_to_a_limit() {
        let mut no_room = NoRoom::default();
        assert_eq!(no_room.on_refusal(&refusal(0, 0, 10)), 0);
        let first_ms = pause_ms(&no_room, 0);
        assert!((50..63).contains(&first_ms), "{first_ms}");
        for slot in 1..10 {
            assert_eq!(no_room.on_refusal(&refusal(20, slot, 10)), 20 * MS);
            assert_eq!(pause_ms(&no_room, 0), first_ms);
        }
        let (mut now_ms, mut next_slot) = (100, 10);
        for least_ms in [100, 200, 400, 800, 800, 800] {
            no_room.resume(now_ms * MS);
            assert_eq!(no_room.paused_until_ns(), None);
            assert_eq!(no_room.on_refusal(&refusal(now_ms, next_slot, next_slot + 1)), now_ms * MS);
            let pause_ms = pause_ms(&no_room, now_ms);
            assert!((least_ms..least_ms * 5 / 4).contains(&pause_ms), "{pause_ms}");
            (now_ms, next_slot) = (now_ms + pause_ms + 1, next_slot + 1);
        }
    }

    #[test]
    fn on_refusal__begins_anew_after_an_acceptance_or_a_quiet_time() {
        let mut no_room = NoRoom::default();
        no_room.on_refusal(&refusal(0, 0, 1));
        assert_eq!(no_room.on_refusal(&refusal(4_000, 1, 2)), 4_000 * MS);
        no_room.on_acceptance();
        assert_eq!(no_room.on_refusal(&refusal(4_100, 2, 3)), 0);
        assert!(pause_ms(&no_room, 4_100) < 63);
        assert_eq!(no_room.on_refusal(&refusal(9_100, 3, 4)), 0);
        assert!(pause_ms(&no_room, 9_100) < 63);
    }
}
