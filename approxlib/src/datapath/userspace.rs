//! The datapath without a daemon: this process stamps, paces, marks, counts, and runs the laws.

use super::{backlog::Backlog, epochs::EpochRing, kernel::Remains, pacer::Pacer};
use crate::udp::UdpSocket;
use atp_common::{
    dscp,
    laws::{
        Rules,
        lane::{Lane, Settings, View},
        queue, rate,
        rtt::Rtt,
    },
    maps::LaneStatus,
    units::{Msr, Rate, Share},
    wire::{Flags, Header},
};
use atp_proto::{Pace, Sender};

/// Bytes of an Ethernet header, which count as sent.
const LINK_HEADER_BYTES: u32 = 14;

/// An epoch is one RTT, but never shorter than this: a thread can't be woken much more often.
const EPOCH_NS_MIN: u64 = 1_000_000;

/// An epoch is judged this many mean deviations after its acknowledgements are due (RFC 6298's K).
/// Threads make and read them here, and on a busy host threads are late: judged as early as the
/// kernel's acknowledgements can be, a lane takes lateness for loss.
const ACK_PATIENCE: u64 = 4;

/// No path that ATP is made for takes longer; an echo that says so would only slow every time-out.
const RTT_NS_MAX: u64 = 2_000_000_000;

/// What a userspace lane needs to know.
#[derive(Clone, Copy, Debug)]
pub struct UserspaceSettings {
    /// Rmax of Eq. 2.
    pub rate_max: Rate,
    /// The rate law and its rules.
    pub rules: Rules,
    /// MSR of the group.
    pub msr: Msr,
    /// The group.
    pub group: u8,
    /// ATP payload of a full packet, header included.
    pub payload_bytes: u32,
    /// IP and UDP headers.
    pub overhead_bytes: u32,
}

impl UserspaceSettings {
    /// Bytes on the wire of a full packet.
    pub const fn packet_bytes(&self) -> u32 {
        self.wire_bytes(self.payload_bytes)
    }

    /// Bytes on the wire of a packet with `payload_bytes` of UDP payload.
    const fn wire_bytes(&self, payload_bytes: u32) -> u32 {
        payload_bytes + self.overhead_bytes + LINK_HEADER_BYTES
    }
}

/// One lane, in userspace.
pub struct Userspace {
    settings: UserspaceSettings,
    lane: Lane,
    epochs: EpochRing,
    rtt: Rtt,
    pacer: Pacer,
    backlog: Backlog,
    /// The queue that the socket marks its packets for.
    marked_queue: u8,
    tlr: Share,
    loss: Share,
}

impl Userspace {
    /// A lane from nothing, or from what a daemon left behind.
    pub fn new(settings: UserspaceSettings, remains: Option<Remains>, now_ns: u64) -> Self {
        let packet_bytes = settings.packet_bytes();
        let tlr = settings.msr.slack_share();
        let law = Settings {
            rate_max: settings.rate_max,
            step: rate::DEFAULT_STEP,
            epoch_ns_min: EPOCH_NS_MIN,
            packet_bytes,
            exact: settings.msr.is_exact(),
            rules: settings.rules,
        };
        let lane = Lane::new(law, tlr, now_ns);
        let (lane, rtt, ring) = match remains {
            // None yet: the daemon went before it had said anything of the lane.
            Some(Remains { rate, rtt, ring }) if rate.bytes_per_s() == 0 => (lane, rtt, Some(ring)),
            Some(Remains { rate, rtt, ring }) => (lane.at_rate(rate), rtt, Some(ring)),
            None => (lane, Rtt::default(), None),
        };
        Self {
            settings,
            lane,
            epochs: EpochRing::new(ring),
            rtt,
            pacer: Pacer::new(now_ns),
            backlog: Backlog::new(packet_bytes),
            marked_queue: queue::EXACT,
            tlr,
            loss: Share::ZERO,
        }
    }

    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        if let Some(ring) = self.epochs.ring() {
            sender.scan_acks(now_ns, ring);
        }
        if let Some(progress) = sender.progress(self.settings.group) {
            self.tlr = progress.target_loss_rate(self.settings.rules);
        }
        let rtt = Rtt { variation_ns: ACK_PATIENCE * self.rtt.variation_ns, ..self.rtt };
        let view = View { now_ns, last_departure_ns: 0, rtt, tlr: self.tlr };
        if let Some(judgement) = self.lane.tick(&view, &mut self.epochs) {
            self.loss = judgement.loss;
        }
        self.mark(socket);
        self.backlog.follow(socket, self.lane.rate());
        let backlog_ns = self.backlog.wait_ns(socket, self.lane.rate());
        sender.set_pace(Pace { rtt: self.rtt, backlog_ns });
    }

    pub fn hold_until(&self, now_ns: u64) -> Option<u64> {
        self.pacer.hold_until(now_ns)
    }

    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        let bytes = self.settings.wire_bytes(payload_bytes);
        self.pacer.depart(now_ns, bytes, self.lane.rate());
        header.stamp(self.lane.epoch(), now_ns);
        self.epochs.sent(self.lane.epoch(), header.slot(), bytes);
    }

    pub fn unsent(&mut self, header: &Header, payload_bytes: u32) {
        let bytes = self.settings.wire_bytes(payload_bytes);
        self.pacer.unsent(bytes, self.lane.rate());
        self.epochs.unsent(header.epoch(), header.slot(), bytes);
    }

    /// Every transmission is stamped anew, so an ACK of a repeated packet tells a true RTT too.
    pub fn on_ack(&mut self, now_ns: u64, header: &Header) {
        self.epochs.acked(header.epoch(), header.flags().contains(Flags::CONGESTION));
        if let Some(age_ns) = header.age_ns(now_ns).filter(|age_ns| *age_ns <= RTT_NS_MAX) {
            self.rtt = self.rtt.observe(age_ns);
        }
    }

    pub fn status(&self) -> LaneStatus {
        LaneStatus {
            rate_bytes_per_s: self.lane.rate().bytes_per_s(),
            rtt_smoothed_ns: self.rtt.smoothed_ns,
            rtt_variation_ns: self.rtt.variation_ns,
            rtt_min_ns: self.rtt.min_ns,
            tlr_q16: self.tlr.q16(),
            loss_q16: self.loss.q16(),
            queue: u32::from(self.lane.queue()),
            epochs_judged: self.lane.epochs_judged(),
        }
    }

    pub fn reads_ring(&self) -> bool {
        self.epochs.ring().is_some()
    }

    /// Asks the switches for the lane's queue. Queue 0 keeps the socket's own mark.
    fn mark(&mut self, socket: &UdpSocket) {
        let queue = self.lane.queue();
        if queue == self.marked_queue {
            return;
        }
        // A host that forbids it sends in the default class: the promise holds, the priority not.
        if let Err(error) = socket.set_dscp(dscp::default_of_queue(queue)) {
            tracing::debug!(queue, %error, "the DSCP can't be set");
        }
        self.marked_queue = queue;
    }
}
