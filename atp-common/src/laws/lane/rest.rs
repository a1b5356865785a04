//! Lanes at rest, whose law need not run: nothing was sent, and nothing waits for an evaluation.

use super::{Counters, Lane};

impl Lane {
    /// Whether nothing waits for a tick until the next packet leaves: no packet is in the open
    /// epoch or in one to evaluate, and no advice can expire.
    pub fn is_at_rest(&self, counters: &impl Counters) -> bool {
        let unevaluated = self.epoch.wrapping_sub(self.unevaluated);
        let is_empty = |back| counters.read(self.epoch.wrapping_sub(back)).sent_packets == 0;
        !self.is_advised() && (0..=unevaluated).all(is_empty)
    }

    /// Whether `epoch`, one of the last 32,768, is evaluated.
    pub const fn has_evaluated(&self, epoch: u16) -> bool {
        (epoch.wrapping_sub(self.unevaluated) as i16) < 0
    }

    /// Ends a rest of the lane. Until `rested_ns` no packet left, so the open epoch begins there.
    /// Otherwise the silence before it would count as time in which the lane could have sent.
    pub fn end_rest(&mut self, rested_ns: u64) {
        self.opened_ns = self.opened_ns.max(rested_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        EPOCHS, EpochCount, View,
        tests::{MS, Ring, rtt, settings},
    };
    use super::*;
    use crate::{units::Share, wire::Advice};

    /// Whether ticks of a lane at rest may be left out: with all of them, and with none until the
    /// next packet, the lane's rate and queue are the same, and so is what it makes of that
    /// packet's epoch.
    #[test]
    fn is_at_rest__until_a_packet_leaves_ticks_change_nothing() {
        let target = Share::from_q16(13_107);
        let view =
            |ms: u64| View { now_ns: ms * MS, last_departure_ns: 0, rtt: rtt(MS / 5), tlr: target };
        let (mut lane, mut ring) = (Lane::new(settings(), target, 0), Ring::default());
        assert!(lane.is_at_rest(&ring));
        let count =
            EpochCount { sent_packets: 9, sent_bytes: 13_500, acked_packets: 6, marked_packets: 0 };
        ring.0[0] = count;
        assert!(!lane.is_at_rest(&ring), "a packet is in the open epoch");
        lane.tick(&view(1), &mut ring);
        assert_eq!(lane.epoch(), 1);
        assert!(!lane.is_at_rest(&ring), "epoch 0 isn't evaluated");
        lane.tick(&view(2), &mut ring);
        assert!(lane.is_at_rest(&ring));
        lane.advise(Advice::of(1_000_000), 2 * MS);
        assert!(!lane.is_at_rest(&ring), "the advice can expire");
        lane.tick(&view(20), &mut ring);
        assert!(lane.is_at_rest(&ring));

        let after_packets = |mut lane: Lane, mut ring: Ring| {
            ring.0[usize::from(lane.epoch()) % EPOCHS] = count;
            lane.tick(&view(101), &mut ring);
            lane.tick(&view(102), &mut ring);
            (lane.rate(), lane.queue(), lane.loss(), lane.epochs_evaluated())
        };
        let (mut ticked, mut ticked_ring) = (lane, Ring(ring.0));
        for ms in 21..=100 {
            ticked.tick(&view(ms), &mut ticked_ring);
            assert!(ticked.is_at_rest(&ticked_ring));
        }
        assert_eq!((ticked.rate(), ticked.queue()), (lane.rate(), lane.queue()));
        let mut rested = lane;
        rested.end_rest(100 * MS);
        assert_eq!(after_packets(rested, ring), after_packets(ticked, ticked_ring));
    }
}
