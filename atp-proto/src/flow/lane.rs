//! One lane: computes its target loss rate and runs its law, on the counts and measurements that
//! the sending host keeps.

use super::{lane_memory::LaneMemory, thread_memory::ThreadMemory};
use crate::Pace;
use atp_common::{
    laws::{
        lane::{Lane, View},
        rtt::Rtt,
        yielding::{self, Window},
    },
    maps::GroupProgress,
    units::Share,
    wire::{Advice, Flags, Header},
};

/// The time of a round.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Monotonic.
    pub now_ns: u64,
    /// CLOCK_REALTIME or a like clock: lanes of different hosts drain at the same moments by it.
    pub shared_ns: u64,
}

/// A lane of a flow.
#[derive(Debug)]
pub struct PacedLane<M> {
    law: Lane,
    window: Window,
    tlr: Share,
    memory: M,
}

/// The news for a lane at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneNews {
    /// The newest advice, and when it came; `None` leaves the lane's as it is.
    pub advice: Option<(Advice, u64)>,
    /// The input of the law; `None` if the law isn't due.
    pub law: Option<LawInput>,
}

/// The input of a law that the lane doesn't measure itself.
#[derive(Clone, Copy, Debug)]
pub struct LawInput {
    /// The progress of the group, the sum over all flows of the job.
    pub progress: GroupProgress,
    /// The share of ACKs that the network loses.
    pub acks_lost: Share,
}

impl<M: LaneMemory> PacedLane<M> {
    /// A lane that has sent nothing since `memory` was made. `tlr`: the first target loss rate;
    /// `packet_bytes`: of a full packet on the wire.
    pub const fn new(law: Lane, memory: M, tlr: Share, packet_bytes: u32) -> Self {
        Self { law, window: Window::new(packet_bytes), tlr, memory }
    }

    /// Runs the laws on the news of this moment.
    pub fn tick(&mut self, clock: Clock, news: LaneNews) {
        let before = self.law.rate();
        if self.law.has_window() {
            let idle_ns = self.memory.path().idle_ns();
            self.law.set_draining(yielding::drains(clock.shared_ns, idle_ns));
        }
        if let Some((advice, received_ns)) = news.advice {
            self.law.advise(advice, received_ns);
        }
        if let Some(input) = news.law {
            self.run_law(clock.now_ns, &input);
        }
        self.memory.hasten(clock.now_ns, before, self.law.rate());
    }

    fn run_law(&mut self, now_ns: u64, LawInput { progress, acks_lost }: &LawInput) {
        self.tlr = progress.target_loss_rate(self.law.rules());
        self.law.set_acks_lost(*acks_lost);
        let rtt = self.memory.rtt();
        let variation_ns = M::ACK_WAIT_VARIATIONS * rtt.variation_ns;
        let view = View {
            now_ns,
            last_departure_ns: self.memory.last_departure_ns(),
            rtt: Rtt { variation_ns, ..rtt },
            tlr: self.tlr,
        };
        self.law.tick(&view, &mut self.memory);
    }

    /// The lane's part in the sender's decisions. `backlog_ns`: how long a packet that leaves now
    /// waits in this host; `read_late_ns`: the mean time from the arrival of an ACK to its reading.
    pub fn pace(&self, backlog_ns: u64, read_late_ns: u64) -> Pace {
        let rtt = self.memory.rtt();
        let window_packets = self.window_packets(read_late_ns);
        let overdue_ns = yielding::overdue_ns(rtt, read_late_ns);
        Pace { rtt, backlog_ns, window_packets, overdue_ns }
    }

    /// The most packets in flight; 0: no limit.
    fn window_packets(&self, read_late_ns: u64) -> u32 {
        if !self.law.has_window() {
            return 0;
        }
        let path = self.memory.path();
        let path_ns = match M::TIMES_READING {
            // The path's delays contain that of the reading.
            true => path.covered_ns().saturating_sub(read_late_ns).max(path.idle_ns()),
            false => path.covered_ns(),
        };
        self.window.packets(self.law.rate(), path_ns, read_late_ns)
    }

    /// Accounts for a packet of `bytes` on the wire that leaves now, and completes its header.
    pub fn depart(&mut self, now_ns: u64, header: &mut Header, bytes: u32) {
        let epoch = self.law.epoch();
        let paced_bytes = self.law.paced_bytes(bytes, header.pacing_number());
        self.memory.depart(now_ns, paced_bytes, self.law.rate());
        self.window.on_sent(bytes);
        header.stamp(epoch, now_ns);
        self.memory.count_sent(epoch, header.slot(), bytes);
    }

    /// Counts an ACK and takes an RTT sample. Retransmissions have stamps of their own, so their
    /// ACKs give true samples too.
    pub fn on_ack(&mut self, now_ns: u64, header: &Header, arrived: Option<u32>) {
        self.memory.count_ack(header.epoch(), header.flags().contains(Flags::CONGESTION));
        if let Some(age_ns) = header.age_ns(now_ns) {
            self.memory.measure(now_ns, age_ns, header.forward_delay(arrived));
        }
    }

    /// The law.
    pub const fn law(&self) -> &Lane {
        &self.law
    }

    /// The counts and measurements.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// The target loss rate.
    pub const fn tlr(&self) -> Share {
        self.tlr
    }
}

impl PacedLane<ThreadMemory> {
    /// Takes back a packet of `bytes` that `depart` counted but that did not leave. Call in reverse
    /// order.
    pub fn take_back(&mut self, header: &Header, bytes: u32) {
        let paced_bytes = self.law.paced_bytes(bytes, header.pacing_number());
        let (epoch, slot, rate) = (header.epoch(), header.slot(), self.law.rate());
        self.memory.take_back(epoch, slot, bytes, paced_bytes, rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::{
        laws::{Rules, lane::Settings},
        units::{PodBool, Rate},
        wire::{Fields, Kind},
    };

    const MS: u64 = 1_000_000;

    /// The lane's clock after each of 50 packets. Every packet is also taken back and sent again.
    fn clocks_ns(advice: Option<(Advice, u64)>) -> Vec<u64> {
        let settings = Settings {
            rate_max: Rate::from_bytes_per_s(125_000_000),
            epoch_ns_min: MS,
            packet_bytes: 1_474,
            exact: PodBool::FALSE,
            rules: Rules::default(),
            deep_queues: PodBool::TRUE,
        };
        let tlr = Share::from_q16(13_107);
        let law = Lane::new(settings, tlr, 0).at_rate(Rate::from_bytes_per_s(1_000_000));
        let memory = ThreadMemory::new(0, law.rtt_meter(), Rtt::default(), None);
        let mut lane = PacedLane::new(law, memory, tlr, 1_474);
        let input = LawInput { progress: GroupProgress::default(), acks_lost: Share::ZERO };
        let clock = Clock { now_ns: MS, shared_ns: MS };
        lane.tick(clock, LaneNews { advice, law: Some(input) });
        let step = |slot| {
            let mut header = Header::new(&Fields {
                job: 1,
                cookie: 2,
                message: slot,
                count: 1,
                slot,
                ..Fields::of(Kind::Data)
            });
            let before_ns = lane.memory.pacer.ahead_ns(0);
            lane.depart(MS, &mut header, 1_442);
            lane.take_back(&header, 1_442);
            assert_eq!(lane.memory.pacer.ahead_ns(0), before_ns.max(MS));
            lane.depart(MS, &mut header, 1_442);
            lane.memory.pacer.ahead_ns(0)
        };
        (0..50).map(step).collect()
    }

    #[test]
    fn depart__has_uneven_gaps_but_for_a_lane_advised_much_of_the_line() {
        let is_even = |clocks_ns: Vec<u64>| {
            let gaps = clocks_ns.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
            gaps.iter().all(|gap_ns| *gap_ns == gaps[0])
        };
        let advised = |bytes_per_s| clocks_ns(Some((Advice::of(bytes_per_s), MS)));
        assert!(!is_even(clocks_ns(None)));
        assert!(!is_even(advised(1_000_000)));
        // It sends an eighth of its advice at least.
        assert!(is_even(advised(1_000_000_000)));
    }
}
