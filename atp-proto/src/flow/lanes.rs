//! The lanes of a flow, as a host without a daemon keeps them: it stamps, paces, marks and counts
//! packets, and runs the laws.

use super::{
    by_group::ByGroup,
    epochs::{EpochRing, SharedRing},
    pacer::{EARLY_NS, Pacer},
    read_lag::ReadLag,
};
use crate::{GroupConfig, Pace, Sender};
use atp_common::{
    dscp,
    laws::{
        RateLaw, Rules,
        lane::{Counters, EPOCHS, Lane, Settings, View},
        path_delay::PathDelay,
        queue,
        rtt::{Rtt, RttMeter},
        yielding::{self, Window},
    },
    maps::{GroupProgress, LaneStatus},
    units::{PodBool, Rate, Share},
    wire::{Advice, Flags, Header},
};

/// Bytes of an Ethernet header, which count as sent bytes.
const LINK_HEADER_BYTES: u32 = 14;

/// The shortest epoch. An epoch is one RTT, but a thread can't be woken much more often than this.
const EPOCH_NS_MIN: u64 = 1_000_000;

/// An epoch is evaluated this many mean deviations after its acknowledgments are due (RFC 6298's
/// K). Here threads make and read acknowledgments, and on a busy host threads are late. An
/// evaluation as early as in the kernel datapath would count late acknowledgments as losses.
const ACK_WAIT_VARIATIONS: u64 = 4;

/// The longest plausible RTT. A longer sample is wrong, and would only slow every timeout.
const RTT_NS_MAX: u64 = 2_000_000_000;

/// Settings of a flow's lanes.
#[derive(Clone, Copy, Debug)]
pub struct LaneSettings {
    /// Rmax of Eq. 2.
    pub rate_max: Rate,
    /// The rate law and its rules, if the application has chosen them.
    pub rules: Option<Rules>,
    /// UDP payload of a full packet, ATP header included.
    pub payload_bytes: u32,
    /// Bytes of the IP and UDP headers.
    pub overhead_bytes: u32,
    /// Whether the packets in flight are limited until the first answer of the peer.
    pub first_window: bool,
}

impl LaneSettings {
    /// The rules of lanes, new ones or those of a daemon that is gone. A daemon's lanes have one law
    /// and keep it: it fits the network that the daemon was told of.
    fn rules_after(&self, previous: Option<&ByGroup<LaneHandover>>) -> Rules {
        let mut lanes = previous.into_iter().flat_map(ByGroup::iter);
        let law = lanes.find_map(|(_, lane)| lane.law);
        self.rules.unwrap_or(Rules::new(law.unwrap_or(RateLaw::UNKNOWN_NETWORK)))
    }

    /// Bytes on the wire of a full packet.
    pub const fn packet_bytes(&self) -> u32 {
        self.wire_bytes(self.payload_bytes)
    }

    /// Bytes on the wire of a packet with `payload_bytes` of UDP payload.
    const fn wire_bytes(&self, payload_bytes: u32) -> u32 {
        payload_bytes + self.overhead_bytes + LINK_HEADER_BYTES
    }
}

/// The state with which a lane continues that of a daemon.
#[derive(Clone, Copy, Debug)]
pub struct LaneHandover {
    /// Its last rate.
    pub rate: Rate,
    /// Its RTT.
    pub rtt: Rtt,
    /// The last epoch that packets carried.
    pub epoch: u16,
    /// Its rate law; `None` if the daemon has not told it.
    pub law: Option<RateLaw>,
}

/// The state of a daemon's datapath, for the lanes that continue it.
pub struct Handover {
    /// By group.
    pub lanes: ByGroup<LaneHandover>,
    /// Delivery bits, which programs that the daemon left behind may still write.
    pub ring: SharedRing,
}

/// The time of a round.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Monotonic.
    pub now_ns: u64,
    /// That of a clock which the hosts of a network share well enough: drains depend on it.
    pub shared_ns: u64,
}

/// The lanes of one flow.
///
/// In each round, the host calls [`Self::tick`], adapts its socket to the rate that it returns, and
/// then calls [`Self::set_paces`].
pub struct Lanes {
    settings: LaneSettings,
    lanes: ByGroup<PacedLane>,
    ring: Option<SharedRing>,
    read_lag: ReadLag,
    /// Whether an ACK was read since the last tick.
    any_acked: bool,
}

struct PacedLane {
    law: Lane,
    epochs: EpochRing,
    rtt_meter: RttMeter,
    path: PathDelay,
    window: Window,
    pacer: Pacer,
    rules: Rules,
    tlr: Share,
}

impl Lanes {
    /// Creates new lanes, or continues those of a daemon.
    pub fn new(
        settings: LaneSettings,
        groups: &[GroupConfig],
        handover: Option<Handover>,
        now_ns: u64,
    ) -> Self {
        let (ring, previous) = match handover {
            Some(Handover { lanes, ring }) => (Some(ring), Some(lanes)),
            None => (None, None),
        };
        let rules = settings.rules_after(previous.as_ref());
        let lane = |group: &GroupConfig| {
            let previous = previous.as_ref().and_then(|lanes| lanes.get(group.group)).copied();
            (group.group, PacedLane::new(&settings, rules, group, previous, ring.clone(), now_ns))
        };
        let lanes = ByGroup::new(groups.iter().map(lane));
        Self { settings, lanes, ring, read_lag: ReadLag::default(), any_acked: false }
    }

    /// Runs the laws. `total`: the progress of a group over all flows of the job, from that of this
    /// flow. Returns the sum of the lanes' rates.
    pub fn tick(
        &mut self,
        clock: Clock,
        sender: &mut Sender,
        mut total: impl FnMut(u8, GroupProgress) -> GroupProgress,
    ) -> Rate {
        if let Some(ring) = &self.ring {
            sender.scan_acks(clock.now_ns, ring);
        }
        self.read_lag.read(clock.now_ns, std::mem::take(&mut self.any_acked));
        let mut total_bytes_per_s = 0;
        for (group, lane) in self.lanes.iter_mut() {
            let own = sender.progress(*group).unwrap_or_default();
            let total = total(*group, own);
            lane.law.set_acks_lost(sender.acks_lost());
            lane.tick(clock, &total, sender.advice(*group));
            total_bytes_per_s += lane.law.rate().bytes_per_s();
        }
        Rate::from_bytes_per_s(total_bytes_per_s)
    }

    /// Tells the sender the lanes' windows and times. `backlog_ns`: how long a packet that leaves
    /// now waits in this host.
    pub fn set_paces(&self, sender: &mut Sender, backlog_ns: u64) {
        for (group, lane) in self.lanes.iter() {
            let (rtt, read_late_ns) = (lane.rtt_meter.rtt, self.read_lag.mean_ns());
            let window_packets = lane.window_packets(read_late_ns);
            let overdue_ns = yielding::overdue_ns(rtt, read_late_ns);
            sender.set_pace(*group, Pace { rtt, backlog_ns, window_packets, overdue_ns });
        }
    }

    /// Notes that a packet ended the host's sleep.
    pub fn woken_by_packet(&mut self) {
        self.read_lag.woken();
    }

    /// Notes that a timer ended the host's sleep, `late_ns` after its time.
    pub fn timer_was_late(&mut self, late_ns: u64) {
        self.read_lag.timer_was_late(late_ns);
    }

    /// The time before which no packet of a group may leave; `None` if one may leave now.
    pub fn hold_until(&self, group: u8, now_ns: u64) -> Option<u64> {
        self.lanes.get(group)?.pacer.hold_until(now_ns)
    }

    /// The earliest time at which a held group may send; `None` if no group is held.
    pub fn next_release(&self, now_ns: u64) -> Option<u64> {
        self.lanes.iter().filter_map(|(_, lane)| lane.pacer.hold_until(now_ns)).min()
    }

    /// Accounts for a packet of `payload_bytes` (header included) that leaves now, and completes
    /// its header.
    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        let bytes = self.settings.wire_bytes(payload_bytes);
        let Some(lane) = self.lanes.get_mut(header.group()) else { return };
        let paced_bytes = lane.law.paced_bytes(bytes, header.pacing_number());
        lane.pacer.depart(now_ns, paced_bytes, lane.law.rate());
        lane.window.on_sent(bytes);
        header.stamp(lane.law.epoch(), now_ns);
        lane.epochs.sent(lane.law.epoch(), header.slot(), bytes);
    }

    /// Takes back a packet that `depart` counted but that did not leave. Call in reverse order.
    pub fn take_back(&mut self, header: &Header, payload_bytes: u32) {
        let bytes = self.settings.wire_bytes(payload_bytes);
        let Some(lane) = self.lanes.get_mut(header.group()) else { return };
        let paced_bytes = lane.law.paced_bytes(bytes, header.pacing_number());
        lane.pacer.take_back(paced_bytes, lane.law.rate());
        lane.epochs.take_back(header.epoch(), header.slot(), bytes);
    }

    /// Counts an ACK and takes an RTT sample. Retransmissions have stamps of their own, so their
    /// ACKs give true samples too.
    pub fn on_ack(&mut self, now_ns: u64, header: &Header, arrived: Option<u32>) {
        self.any_acked = true;
        let Some(lane) = self.lanes.get_mut(header.group()) else { return };
        lane.epochs.acked(header.epoch(), header.flags().contains(Flags::CONGESTION));
        if let Some(age_ns) = header.age_ns(now_ns).filter(|age_ns| *age_ns <= RTT_NS_MAX) {
            lane.rtt_meter = lane.rtt_meter.on_ack(now_ns, age_ns);
            lane.path = lane.path.observe(now_ns, age_ns, header.forward_delay(arrived));
        }
    }

    /// The traffic class that selects the lane's queue in the switches. Queue 0 keeps the socket's
    /// own DSCP, and its packets are ECN-capable.
    pub fn traffic_class(&self, group: u8) -> u8 {
        match self.lanes.get(group).map_or(queue::EXACT, |lane| lane.law.queue()) {
            queue::EXACT => dscp::ecn_capable(0),
            queue => dscp::replace(0, dscp::default_of_queue(queue)),
        }
    }

    /// The status of a group's lane.
    pub fn status(&self, group: u8) -> LaneStatus {
        self.lanes.get(group).map(PacedLane::status).unwrap_or_default()
    }

    /// Whether a daemon's programs may still write acknowledgments.
    pub fn reads_ring(&self) -> bool {
        self.ring.is_some()
    }
}

impl PacedLane {
    fn new(
        settings: &LaneSettings,
        rules: Rules,
        group: &GroupConfig,
        previous: Option<LaneHandover>,
        ring: Option<SharedRing>,
        now_ns: u64,
    ) -> Self {
        let tlr = group.msr.slack_share();
        let law = Settings {
            rate_max: settings.rate_max,
            epoch_ns_min: EPOCH_NS_MIN,
            packet_bytes: settings.packet_bytes(),
            exact: group.msr.is_exact().into(),
            rules,
            // The library writes the DSCPs of the default profile, so it assumes its queues.
            deep_queues: PodBool::TRUE,
        };
        let lane = Lane::new(law, tlr, now_ns);
        let mut epochs = EpochRing::new(ring);
        let (law, rtt) = match previous {
            None if settings.first_window => (lane.with_first_window(), Rtt::default()),
            None => (lane, Rtt::default()),
            Some(LaneHandover { rate, rtt, epoch, .. }) => {
                // Late acknowledgments of the lane's last packets must not count here.
                let epoch = epoch.wrapping_add(EPOCHS as u16);
                epochs.open(epoch);
                let lane = lane.at_epoch(epoch);
                // Without a rate, the daemon stopped before it had written the lane's status.
                (if rate.bytes_per_s() == 0 { lane } else { lane.at_rate(rate) }, rtt)
            }
        };
        let pacer = Pacer::new(now_ns, EARLY_NS);
        let rtt_meter = law.rtt_meter().at_estimate(rtt);
        // Programs that were left behind may write ACKs to the ring, and nobody measures.
        let path = match rtt.min_ns {
            0 => PathDelay::UNKNOWN,
            least_ns => PathDelay::UNKNOWN.observe(now_ns, least_ns, None),
        };
        let window = Window::new(settings.packet_bytes());
        Self { law, epochs, rtt_meter, path, window, pacer, rules, tlr }
    }

    /// `progress`: the sums over all flows of the job. `advice`: the newest, and when it came.
    fn tick(&mut self, clock: Clock, progress: &GroupProgress, advice: Option<(Advice, u64)>) {
        let now_ns = clock.now_ns;
        self.tlr = progress.target_loss_rate(self.rules);
        let rtt = self.rtt_meter.rtt;
        let rtt = Rtt { variation_ns: ACK_WAIT_VARIATIONS * rtt.variation_ns, ..rtt };
        let view = View { now_ns, last_departure_ns: 0, rtt, tlr: self.tlr };
        let before = self.law.rate();
        if self.law.has_window() {
            self.law.set_draining(yielding::drains(clock.shared_ns, self.path.idle_ns()));
        }
        if let Some((advice, heard_ns)) = advice {
            self.law.advise(advice, heard_ns);
        }
        self.law.tick(&view, &mut self.epochs);
        self.pacer.hasten(now_ns, before, self.law.rate());
    }

    /// The most packets in flight; 0: no limit.
    fn window_packets(&self, read_late_ns: u64) -> u32 {
        match self.law.has_window() {
            true => {
                // Times of ACKs are those of their reading, so the path's contain its delay.
                let path_ns = self.path.covered_ns().saturating_sub(read_late_ns);
                let path_ns = path_ns.max(self.path.idle_ns());
                self.window.packets(self.law.rate(), path_ns, read_late_ns)
            }
            false => 0,
        }
    }

    fn status(&self) -> LaneStatus {
        let rtt = self.rtt_meter.rtt;
        LaneStatus {
            rate_bytes_per_s: self.law.rate().bytes_per_s(),
            rtt_smoothed_ns: rtt.smoothed_ns,
            rtt_variation_ns: rtt.variation_ns,
            rtt_min_ns: rtt.min_ns,
            tlr_q16: self.tlr.q16(),
            loss_q16: self.law.loss().q16(),
            queue: u32::from(self.law.queue()),
            epochs_evaluated: self.law.epochs_evaluated(),
            epoch: self.law.epoch(),
            law_word: LaneStatus::word_of(self.rules.law()),
            burst_packets: 1,
            ..LaneStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::{
        units::Msr,
        wire::{Fields, Kind},
    };

    const MS: u64 = 1_000_000;

    /// The lane's clock after each of 50 packets. Every packet is also taken back and sent again.
    fn clocks_ns(advice: Option<(Advice, u64)>) -> Vec<u64> {
        let settings = LaneSettings {
            rate_max: Rate::from_bytes_per_s(125_000_000),
            rules: Some(Rules::default()),
            payload_bytes: 1_432,
            overhead_bytes: 28,
            first_window: false,
        };
        let groups = [GroupConfig::new(0, Msr::from_parts_per_billion(800_000_000).unwrap())];
        let mut flow = Lanes::new(settings, &groups, None, 0);
        let lane = flow.lanes.get_mut(0).unwrap();
        lane.law = lane.law.at_rate(Rate::from_bytes_per_s(1_000_000));
        lane.tick(Clock { now_ns: MS, shared_ns: MS }, &GroupProgress::default(), advice);
        let step = |slot| {
            let mut header = Header::new(&Fields {
                kind: Kind::Data,
                flags: Flags::NONE,
                group: 0,
                job: 1,
                cookie: 2,
                message: slot,
                index: 0,
                count: 1,
                epoch: 0,
                slot,
                time: 0,
            });
            let before_ns = flow.lanes.get(0).unwrap().pacer.ahead_ns(0);
            flow.depart(MS, &mut header, 1_400);
            flow.take_back(&header, 1_400);
            assert_eq!(flow.lanes.get(0).unwrap().pacer.ahead_ns(0), before_ns.max(MS));
            flow.depart(MS, &mut header, 1_400);
            flow.lanes.get(0).unwrap().pacer.ahead_ns(0)
        };
        (0..50).map(step).collect()
    }

    #[test]
    fn rules_after__a_daemon_that_is_gone() {
        let settings = |rules| LaneSettings {
            rate_max: Rate::from_bytes_per_s(125_000_000),
            rules,
            payload_bytes: 1_432,
            overhead_bytes: 28,
            first_window: false,
        };
        let lane = |law| LaneHandover { rate: Rate::default(), rtt: Rtt::default(), epoch: 0, law };
        let mut cases = vec![(vec![], RateLaw::UNKNOWN_NETWORK), (vec![None], RateLaw::Yield)];
        for (law, _) in RateLaw::ALL {
            cases.extend([(vec![Some(law)], law), (vec![None, Some(law)], law)]);
        }
        let named = Rules::new(RateLaw::Pi);
        for (laws, law) in cases {
            let lanes = ByGroup::new((0..).zip(laws.into_iter().map(lane)));
            assert_eq!(settings(None).rules_after(Some(&lanes)), Rules::new(law));
            assert_eq!(settings(Some(named)).rules_after(Some(&lanes)), named);
        }
        assert_eq!(settings(None).rules_after(None), Rules::new(RateLaw::UNKNOWN_NETWORK));
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
