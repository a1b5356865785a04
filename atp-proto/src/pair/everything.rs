//! Scenarios in which several things go wrong in one run.

use super::{Acks, ClockStep, MsrChange, Scenario};
use crate::SendError;
use atp_common::{
    laws::{RateLaw, rtt::Rtt},
    units::Msr,
    wire::ResetReason,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

impl Scenario {
    /// A bad network, and everything else drawn: laws of lanes, probes, windows that overlap,
    /// deadlines, requests, changes of the sampling rate, a queue, marks, packets that are cut, and
    /// one fault of a host.
    pub fn everything(seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0xe7e2_7417);
        let mut scenario = Self::random(seed);
        if rng.random_bool(0.2) {
            scenario = scenario.with_short_messages();
        }
        if rng.random_bool(0.4) {
            scenario = scenario.in_windows();
            scenario.sender.overlap = rng.random_bool(0.5);
            if seed.is_multiple_of(3) {
                scenario = scenario.with_confirmations();
            }
        } else if rng.random_bool(0.2) {
            scenario.window_deadline_ns = Some(10u64.pow(rng.random_range(5..9)));
        }
        if rng.random_bool(0.25) {
            scenario = scenario.with_requests();
        }
        if rng.random_bool(0.25) {
            scenario = scenario.with_msr_changes(rng);
        }
        if scenario.acks == Acks::Library {
            let laws = RateLaw::ALL;
            let (law, _) = laws[rng.random_range(0..laws.len())];
            scenario.law = rng.random_bool(0.7).then_some(law);
        }
        if rng.random_bool(0.3) {
            scenario.forward.truncate = 0.03;
            scenario.back.truncate = 0.03;
        }
        scenario.with_cancel().with_fault(rng).with_network()
    }

    /// Whether this fault of a host may end the job with this error.
    pub fn explains(&self, error: &SendError) -> bool {
        match error {
            SendError::PeerSilent { .. } | SendError::NotReading { .. } => {
                self.vanish_ns.is_some() || self.leave_ns.is_some()
            }
            SendError::Reset { reason: Some(ResetReason::Gone), .. } => self.leave_ns.is_some(),
            SendError::Reset { reason: Some(ResetReason::Forgotten), .. } => {
                self.silence_ns.is_some()
            }
            SendError::ReceiverLostState { .. } => self.restart_ns.is_some(),
            SendError::Reset { .. } | SendError::NoRoom { .. } => false,
        }
    }

    /// Draws probes, marks and a queue. It has random numbers of its own, so that the rest of a
    /// seed's scenario stays the same.
    fn with_network(mut self) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x9_0be5);
        // Only fast lanes use probes.
        self.probes = self.law.is_none() && self.wire_ns <= 10_000;
        self.forward.mark = [0.0, 0.0, 0.1, 1.0][rng.random_range(0..4)];
        let packet_ns = self.wire_ns * rng.random_range(1..4);
        self.forward.queue =
            rng.random_bool(0.3).then(|| (packet_ns, 1 << rng.random_range(2..10)));
        self
    }

    /// Draws one change of each approximate group's rate.
    pub fn with_msr_changes(mut self, rng: &mut ChaCha8Rng) -> Self {
        let groups = self.sender.groups.iter().filter(|group| !group.msr.is_exact());
        self.msr_changes = groups
            .map(|group| MsrChange {
                at_ns: 10u64.pow(rng.random_range(4..8)),
                group: group.group,
                msr: Msr::from_parts_per_billion(rng.random_range(0..=1_000_000_000))
                    .expect("at most 1"),
            })
            .collect();
        self.msr_changes.sort_by_key(|change| change.at_ns);
        self
    }

    /// Draws whether and when the application cancels the job. It has random numbers of its own, so
    /// that the rest of a seed's scenario stays the same.
    fn with_cancel(mut self) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0xca_9ce1);
        let drawn_ns = 10u64.pow(rng.random_range(5..9)) * rng.random_range(1..10);
        self.cancel_ns = rng.random_bool(0.1).then_some(drawn_ns);
        self
    }

    /// Draws a fault of a host: in half of the runs there is none.
    fn with_fault(mut self, rng: &mut ChaCha8Rng) -> Self {
        match rng.random_range(0..14) {
            0 | 1 => {
                // Most come when packets have arrived.
                let scale_ns = self.forward.delay_ns + self.wire_ns;
                self.restart_ns = Some(scale_ns * rng.random_range(1..60));
                // A sender that retransmits too early has copies on the way when the process
                // changes. They are delivered twice.
                self.sender.timer_granularity_ns = Rtt::TIMER_GRANULARITY_NS;
            }
            2 => self.leave_ns = Some(10u64.pow(rng.random_range(4..9))),
            3 => self.vanish_ns = Some(rng.random_range(0..200_000_000)),
            4 => {
                self.forward.blackout_ns = 5_000_000..3_000_000_000;
                self.back.blackout_ns = 8_000_000..3_500_000_000;
            }
            5 => {
                let step_ns = 10u64.pow(rng.random_range(6..12));
                let step = ClockStep { at_ns: rng.random_range(0..50_000_000), step_ns };
                match rng.random_bool(0.5) {
                    true => self.sender_clock = Some(step),
                    false => self.receiver_clock = Some(step),
                }
            }
            6 => {
                self.full_ns = Some(10u64.pow(rng.random_range(5..10)) * 2);
                self.refuses_places = rng.random_bool(0.5);
            }
            7 => {
                // The sender is cut off and forgotten. It comes back before its tombstone is gone.
                self.silence_ns = Some(5_000_000_000);
                let from_ns = 10 * (self.forward.delay_ns + self.wire_ns);
                self.forward.blackout_ns = from_ns..from_ns + 7_500_000_000;
            }
            _ => {}
        }
        self
    }
}
