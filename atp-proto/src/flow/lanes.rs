//! The lanes of a flow, as a host without a daemon keeps them: it stamps, paces, marks and counts
//! packets, and runs the laws.

use super::{
    by_group::ByGroup,
    epochs::SharedRing,
    lane::{Clock, LaneNews, LawInput, PacedLane},
    lane_memory::LaneMemory,
    read_lag::ReadLag,
    thread_memory::ThreadMemory,
};
use crate::{GroupConfig, Sender};
use atp_common::{
    dscp,
    laws::{
        RateLaw, Rules,
        lane::{Counters, EPOCHS, Lane, Settings},
        queue,
        rtt::Rtt,
    },
    maps::{GroupProgress, LaneStatus},
    units::{PodBool, Rate},
    wire::Header,
};

/// Bytes of an Ethernet header, which count as sent bytes.
const LINK_HEADER_BYTES: u32 = 14;

/// The shortest epoch. An epoch is one RTT, but a thread can't be woken much more often than this.
const EPOCH_NS_MIN: u64 = 1_000_000;

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
    /// The rules of the lanes. Rules that the application chose hold. Otherwise lanes that continue
    /// a daemon's keep its law, which fits the network that the daemon was told of, and new ones
    /// have `yield`.
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
    /// The daemon's last rate of the lane.
    pub rate: Rate,
    /// The lane's RTT.
    pub rtt: Rtt,
    /// The last epoch that packets carried.
    pub epoch: u16,
    /// The rate law; `None` if the daemon has not told it.
    pub law: Option<RateLaw>,
}

/// The state of a daemon's datapath, for the lanes that continue it.
pub struct Handover {
    /// By group.
    pub lanes: ByGroup<LaneHandover>,
    /// Delivery bits, which programs that the daemon left behind may still write.
    pub ring: SharedRing,
}

/// The lanes of one flow.
///
/// In each round, the host calls [`Self::tick`], adapts its socket to the rate that it returns, and
/// then calls [`Self::set_paces`].
pub struct Lanes {
    settings: LaneSettings,
    lanes: ByGroup<PacedLane<ThreadMemory>>,
    ring: Option<SharedRing>,
    read_lag: ReadLag,
    /// Whether an ACK was read since the last tick.
    any_acked: bool,
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
            (group.group, new_lane(&settings, rules, group, previous, ring.clone(), now_ns))
        };
        let lanes = ByGroup::new(groups.iter().map(lane));
        Self { settings, lanes, ring, read_lag: ReadLag::default(), any_acked: false }
    }

    /// Runs the laws. `total` turns this flow's progress of a group into that of all flows of the
    /// job. Returns the sum of the lanes' rates.
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
        let acks_lost = sender.acks_lost();
        for (group, lane) in self.lanes.iter_mut() {
            let own = sender.progress(*group).unwrap_or_default();
            let law = LawInput { progress: total(*group, own), acks_lost };
            lane.tick(clock, LaneNews { advice: sender.advice(*group), law: Some(law) });
            total_bytes_per_s += lane.law().rate().bytes_per_s();
        }
        Rate::from_bytes_per_s(total_bytes_per_s)
    }

    /// Gives the sender each lane's RTT, backlog and limit of packets in flight. `backlog_ns`: how
    /// long a packet that leaves now waits in this host.
    pub fn set_paces(&self, sender: &mut Sender, backlog_ns: u64) {
        for (group, lane) in self.lanes.iter() {
            sender.set_pace(*group, lane.pace(backlog_ns, self.read_lag.mean_ns()));
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
        self.lanes.get(group)?.memory().pacer.hold_until(now_ns)
    }

    /// The earliest time at which a held group may send; `None` if no group is held.
    pub fn next_release(&self, now_ns: u64) -> Option<u64> {
        self.lanes.iter().filter_map(|(_, lane)| lane.memory().pacer.hold_until(now_ns)).min()
    }

    /// Accounts for a packet of `payload_bytes` (header included) that leaves now, and completes
    /// its header.
    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        let bytes = self.settings.wire_bytes(payload_bytes);
        if let Some(lane) = self.lanes.get_mut(header.group()) {
            lane.depart(now_ns, header, bytes);
        }
    }

    /// Takes back a packet that `depart` counted but that did not leave. Call in reverse order.
    pub fn take_back(&mut self, header: &Header, payload_bytes: u32) {
        let bytes = self.settings.wire_bytes(payload_bytes);
        if let Some(lane) = self.lanes.get_mut(header.group()) {
            lane.take_back(header, bytes);
        }
    }

    /// Counts an ACK and takes an RTT sample. `arrived`: when its packet arrived, as it says.
    pub fn on_ack(&mut self, now_ns: u64, header: &Header, arrived: Option<u32>) {
        self.any_acked = true;
        if let Some(lane) = self.lanes.get_mut(header.group()) {
            lane.on_ack(now_ns, header, arrived);
        }
    }

    /// The traffic class that selects the lane's queue in the switches. Queue 0 keeps the socket's
    /// own DSCP, and its packets are ECN-capable.
    pub fn traffic_class(&self, group: u8) -> u8 {
        match self.lanes.get(group).map_or(queue::EXACT, |lane| lane.law().queue()) {
            queue::EXACT => dscp::ecn_capable(0),
            queue => dscp::replace(0, dscp::default_of_queue(queue)),
        }
    }

    /// The status of a group's lane.
    pub fn status(&self, group: u8) -> LaneStatus {
        self.lanes.get(group).map(status).unwrap_or_default()
    }

    /// Whether a daemon's programs may still write acknowledgments.
    pub fn reads_ring(&self) -> bool {
        self.ring.is_some()
    }
}

/// A new lane, or one that continues `previous`.
fn new_lane(
    settings: &LaneSettings,
    rules: Rules,
    group: &GroupConfig,
    previous: Option<LaneHandover>,
    ring: Option<SharedRing>,
    now_ns: u64,
) -> PacedLane<ThreadMemory> {
    let tlr = group.msr.slack_share();
    let of_law = Settings {
        rate_max: settings.rate_max,
        epoch_ns_min: EPOCH_NS_MIN,
        packet_bytes: settings.packet_bytes(),
        exact: group.msr.is_exact().into(),
        rules,
        // The library writes the DSCPs of the default profile, so it assumes its queues.
        deep_queues: PodBool::TRUE,
    };
    let law = Lane::new(of_law, tlr, now_ns);
    let rtt = previous.map(|lane| lane.rtt).unwrap_or_default();
    let mut memory = ThreadMemory::new(now_ns, law.rtt_meter(), rtt, ring);
    let law = match previous {
        None if settings.first_window => law.with_first_window(),
        None => law,
        Some(LaneHandover { rate, epoch, .. }) => {
            // Late acknowledgments of the lane's last packets must not count here.
            let epoch = epoch.wrapping_add(EPOCHS as u16);
            memory.open(epoch);
            let law = law.at_epoch(epoch);
            // Without a rate, the daemon stopped before it had written the lane's status.
            if rate.bytes_per_s() == 0 { law } else { law.at_rate(rate) }
        }
    };
    PacedLane::new(law, memory, tlr, settings.packet_bytes())
}

fn status(lane: &PacedLane<ThreadMemory>) -> LaneStatus {
    let (law, rtt) = (lane.law(), lane.memory().rtt());
    LaneStatus {
        rate_bytes_per_s: law.rate().bytes_per_s(),
        rtt_smoothed_ns: rtt.smoothed_ns,
        rtt_variation_ns: rtt.variation_ns,
        rtt_min_ns: rtt.min_ns,
        tlr_q16: lane.tlr().q16(),
        loss_q16: law.loss().q16(),
        queue: u32::from(law.queue()),
        epochs_evaluated: law.epochs_evaluated(),
        epoch: law.epoch(),
        law_word: LaneStatus::word_of(law.rules().law()),
        burst_packets: 1,
        ..LaneStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
