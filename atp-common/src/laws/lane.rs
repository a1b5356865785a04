//! The life of a lane: epochs are opened, counted, judged, and turned into a rate and a queue.
//!
//! The datapath counts packets under the epoch that stands in their header; this controller opens a
//! new epoch every `max(RTT, minimum)`, reads a closed one no sooner than one smoothed RTT after
//! its last packet left, and applies the laws.

use super::{queue, queue::Starvation, rate, rtt::Rtt};
use crate::units::{Rate, Share};

/// How many epochs may be open or unjudged at once; also the length of the ring of counters.
pub const EPOCHS: usize = 16;

/// What the datapath counted in one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCount {
    /// Packets that left under this epoch's number.
    pub sent_packets: u64,
    /// Their bytes, as paced.
    pub sent_bytes: u64,
    /// ACKs that came back with it.
    pub acked_packets: u64,
}

impl EpochCount {
    /// NetApprox §4.2, footnote 3: `1 - acked / sent`.
    pub const fn loss(self) -> Share {
        Share::of(self.acked_packets, self.sent_packets).complement()
    }
}

/// What a lane is told about its surroundings, fixed for the lane's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Rmax: the rate of the port.
    pub rate_max: Rate,
    /// m of Eq. 2.
    pub step: Share,
    /// An epoch is one RTT, but never shorter than this, nanoseconds.
    pub epoch_ns_min: u64,
    /// Bytes of a full packet, for the rate's floor.
    pub packet_bytes: u32,
    /// Everything must arrive: queue 0, and only there.
    pub exact: bool,
}

/// What the controller sees at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Now, nanoseconds.
    pub now_ns: u64,
    /// When the last packet handed over so far leaves (with pacing by departure time that is in
    /// the future); 0 if unknown.
    pub last_departure_ns: u64,
    /// The lane's RTT.
    pub rtt: Rtt,
    /// The target of its (job, group), from Eq. 1.
    pub tlr: Share,
}

/// The counters, wherever they live.
pub trait Counters {
    /// What was counted under `epoch`.
    fn read(&self, epoch: u16) -> EpochCount;
    /// Zeroes the cell that `epoch` will use. Called before any packet carries that number.
    fn open(&mut self, epoch: u16);
}

/// What an epoch's judgement was, for reports and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Which epoch.
    pub epoch: u16,
    /// What it counted.
    pub count: EpochCount,
    /// Its loss.
    pub loss: Share,
}

/// The controller of one lane.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    settings: Settings,
    rate: Rate,
    queue: u8,
    starvation: Starvation,
    /// The open epoch and when it was opened.
    epoch: u16,
    opened_ns: u64,
    /// The oldest closed epoch that isn't judged; equal to `epoch` if there is none.
    unjudged: u16,
    /// By ring position: when the epoch's last packet left, and how long it was open.
    closed: [Closed; EPOCHS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Closed {
    last_departure_ns: u64,
    duration_ns: u64,
    rate: Rate,
}

impl Lane {
    /// A lane that starts at `rate_max` (the first RTT is not wasted), in the queue of `tlr`, with
    /// epoch 0 open.
    pub fn new(settings: Settings, tlr: Share, now_ns: u64) -> Self {
        let queue = if settings.exact { queue::EXACT } else { queue::of_target_loss_rate(tlr) };
        Self {
            settings,
            rate: settings.rate_max,
            queue,
            starvation: Starvation::default(),
            epoch: 0,
            opened_ns: now_ns,
            unjudged: 0,
            closed: [Closed::default(); EPOCHS],
        }
    }

    /// The rate to send at.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The queue to ask the switches for.
    pub const fn queue(&self) -> u8 {
        self.queue
    }

    /// The number that packets leaving now carry.
    pub const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Does what is due at `view.now_ns`: judges at most one epoch, then opens the next if the
    /// present one is over. Returns the judgement, if one was made.
    ///
    /// One judgement a call bounds the work; called once an epoch it keeps up.
    pub fn tick(&mut self, view: &View, counters: &mut impl Counters) -> Option<Judgement> {
        let judgement = self.judge(view, counters);
        self.open_next(view, counters);
        if !self.settings.exact {
            self.queue = self.starvation.rescued(queue::of_target_loss_rate(view.tlr));
        }
        judgement
    }

    fn judge(&mut self, view: &View, counters: &impl Counters) -> Option<Judgement> {
        if self.unjudged == self.epoch {
            return None;
        }
        let epoch = self.unjudged;
        let closed = self.closed[usize::from(epoch) % EPOCHS];
        // One smoothed RTT after the last packet left, plus its mean deviation: an ACK that comes
        // later than that would be counted as a loss.
        let ripe_ns = closed.last_departure_ns + view.rtt.smoothed_ns + view.rtt.variation_ns;
        if view.now_ns < ripe_ns {
            return None;
        }
        self.unjudged = epoch.wrapping_add(1);
        let count = counters.read(epoch);
        if count.sent_packets == 0 {
            return None; // No packets, no news.
        }
        let loss = count.loss();
        self.apply(view, closed, count, loss);
        Some(Judgement { epoch, count, loss })
    }

    fn apply(&mut self, view: &View, closed: Closed, count: EpochCount, loss: Share) {
        let Settings { rate_max, step, packet_bytes, .. } = self.settings;
        // `<=`: with `<` a rate at TLR 0 never rises again.
        if loss > view.tlr {
            self.rate = rate::decreased(self.rate, loss);
        } else if !self.was_idle(closed, count) {
            self.rate = rate::increased(self.rate, step, rate_max);
        }
        // The least RTT, not the smoothed one: where the host's own queue is part of it (HTB), a low
        // rate lengthens it, and a floor that followed would sink without end.
        let floor = rate::floor(packet_bytes, view.rtt.min_ns, self.settings.epoch_ns_min);
        self.rate = self.rate.max(floor.min(rate_max));
        self.starvation.observe(loss, view.tlr);
    }

    /// Whether the lane had too little to send to learn anything about a higher rate: less than
    /// half of what its rate allowed, give or take two packets.
    fn was_idle(&self, closed: Closed, count: EpochCount) -> bool {
        let allowed_bytes = closed.rate.bytes_in(closed.duration_ns);
        count.sent_bytes + 2 * u64::from(self.settings.packet_bytes) < allowed_bytes / 2
    }

    fn open_next(&mut self, view: &View, counters: &mut impl Counters) {
        let duration_ns = view.now_ns.saturating_sub(self.opened_ns);
        let full = usize::from(self.epoch.wrapping_sub(self.unjudged)) >= EPOCHS - 1;
        // A full ring holds the epoch open until the oldest one is judged.
        if full || duration_ns < self.settings.epoch_ns_min.max(view.rtt.smoothed_ns) {
            return;
        }
        self.closed[usize::from(self.epoch) % EPOCHS] = Closed {
            last_departure_ns: view.now_ns.max(view.last_departure_ns),
            duration_ns,
            rate: self.rate,
        };
        self.epoch = self.epoch.wrapping_add(1);
        self.opened_ns = view.now_ns;
        counters.open(self.epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Ring([EpochCount; EPOCHS]);

    impl Counters for Ring {
        fn read(&self, epoch: u16) -> EpochCount {
            self.0[usize::from(epoch) % EPOCHS]
        }
        fn open(&mut self, epoch: u16) {
            self.0[usize::from(epoch) % EPOCHS] = EpochCount::default();
        }
    }

    const MS: u64 = 1_000_000;

    fn settings() -> Settings {
        Settings {
            rate_max: Rate::from_bytes_per_s(25_000_000),
            step: rate::DEFAULT_STEP,
            epoch_ns_min: MS,
            packet_bytes: 1500,
            exact: false,
        }
    }

    fn rtt(ns: u64) -> Rtt {
        Rtt::default().observe(ns)
    }

    /// Runs a lane whose every epoch sends what its rate allows through a port that carries
    /// `capacity`, and returns its mean rate over the second half.
    fn settle(capacity_bytes_per_s: u64, tlr: Share, epochs: u32) -> f64 {
        let mut lane = Lane::new(settings(), tlr, 0);
        let mut ring = Ring::default();
        let mut sum = 0.0;
        for i in 1..=epochs {
            let now_ns = u64::from(i) * MS;
            let offered = lane.rate().bytes_in(MS);
            let carried = offered.min(capacity_bytes_per_s / 1000);
            let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
            cell.sent_bytes += offered;
            cell.sent_packets += offered;
            cell.acked_packets += carried;
            lane.tick(&View { now_ns, last_departure_ns: 0, rtt: rtt(MS / 5), tlr }, &mut ring);
            if i > epochs / 2 {
                sum += lane.rate().bytes_per_s() as f64;
            }
        }
        sum / f64::from(epochs / 2)
    }

    #[test]
    fn tick__fills_a_port_and_overdrives_it_by_the_slack() {
        // Loss at or below TLR raises the rate, so it must hover about capacity / (1 - TLR).
        for (tlr, capacity) in [(0.2, 5e6), (0.5, 5e6), (0.0, 5e6)] {
            let rate = settle(capacity as u64, Share::from_q16((tlr * 65536.0) as u32), 2000);
            let ideal = capacity / (1.0 - tlr);
            assert!(rate > 0.75 * ideal && rate < 1.6 * ideal, "TLR {tlr}: {rate} against {ideal}");
        }
    }

    #[test]
    fn tick__reads_no_epoch_before_its_acks_can_be_back() {
        let mut lane = Lane::new(settings(), Share::ZERO, 0);
        let mut ring = Ring::default();
        ring.0[0] = EpochCount { sent_packets: 10, sent_bytes: 15_000, acked_packets: 10 };
        let mut view = View {
            now_ns: 10 * MS,
            last_departure_ns: 14 * MS,
            rtt: rtt(10 * MS),
            tlr: Share::ZERO,
        };
        assert_eq!(lane.tick(&view, &mut ring), None);
        assert_eq!(lane.epoch(), 1);
        // 14 ms + 10 ms smoothed + 5 ms deviation.
        view.now_ns = 28 * MS;
        assert_eq!(lane.tick(&view, &mut ring), None);
        view.now_ns = 29 * MS;
        assert_eq!(lane.tick(&view, &mut ring).map(|j| j.epoch), Some(0));
    }

    #[test]
    fn tick__an_idle_lane_does_not_grow() {
        let mut lane = Lane::new(settings(), Share::ZERO, 0);
        lane.rate = Rate::from_bytes_per_s(10_000_000);
        let mut ring = Ring::default();
        for i in 1..100u64 {
            let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
            *cell = EpochCount { sent_packets: 1, sent_bytes: 1500, acked_packets: 1 };
            let view =
                View { now_ns: i * MS, last_departure_ns: 0, rtt: rtt(1000), tlr: Share::ZERO };
            lane.tick(&view, &mut ring);
        }
        assert_eq!(lane.rate().bytes_per_s(), 10_000_000);
    }

    #[test]
    fn tick__the_floor_does_not_sink_with_a_wait_in_the_host() {
        // Every packet is lost, and the RTT is what six packets wait at the lane's own rate.
        let mut lane = Lane::new(settings(), Share::ZERO, 0);
        let mut ring = Ring::default();
        let (mut now_ns, mut rtt) = (0, rtt(MS / 5));
        for _ in 0..2000 {
            now_ns += MS;
            let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
            cell.sent_packets += 1;
            rtt = rtt.observe(lane.rate().duration_ns(6 * 1500));
            lane.tick(&View { now_ns, last_departure_ns: 0, rtt, tlr: Share::ZERO }, &mut ring);
        }
        assert_eq!(lane.rate(), rate::floor(1500, MS / 5, MS));
    }

    #[test]
    fn tick__exact_lanes_stay_in_queue_zero() {
        let mut lane = Lane::new(Settings { exact: true, ..settings() }, Share::ZERO, 0);
        let mut ring = Ring::default();
        for i in 1..100u64 {
            let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
            *cell = EpochCount { sent_packets: 10, sent_bytes: 15_000, acked_packets: 0 };
            let view =
                View { now_ns: i * MS, last_departure_ns: 0, rtt: rtt(1000), tlr: Share::ZERO };
            lane.tick(&view, &mut ring);
            assert_eq!(lane.queue(), queue::EXACT);
        }
    }

    proptest! {
        #[test]
        fn tick__rate_stays_between_floor_and_maximum(
            steps in proptest::collection::vec((1u64..20 * MS, 0u64..100, 0u64..100, 0u64..5 * MS, 0..=65536u32), 1..400)
        ) {
            let mut lane = Lane::new(settings(), Share::ZERO, 0);
            let mut ring = Ring::default();
            let mut now_ns = 0;
            for (gap, sent, acked, sample, tlr) in steps {
                now_ns += gap;
                let cell = &mut ring.0[usize::from(lane.epoch()) % EPOCHS];
                cell.sent_packets += sent;
                cell.acked_packets += acked;
                let tlr = Share::from_q16(tlr);
                let view = View { now_ns, last_departure_ns: 0, rtt: rtt(sample), tlr };
                lane.tick(&view, &mut ring);
                prop_assert!(lane.rate() <= settings().rate_max);
                prop_assert!(lane.rate() >= rate::floor(1500, 5 * MS, MS));
                prop_assert!((1..=7).contains(&lane.queue()));
            }
        }
    }
}
