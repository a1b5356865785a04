//! Controls a lane: opens epochs, evaluates them, and sets the lane's rate and queue.
//!
//! The datapath counts packets under the epoch in their header. The controller opens a new epoch
//! every `max(RTT, minimum)`. It reads a closed epoch no earlier than one smoothed RTT after the
//! epoch's last packet left, and applies the laws.

use super::{
    advice::{AdviceLimit, Floor},
    backlog::HostWait,
    queue,
    queue::Starvation,
    rate::{self, LawSettings, LawState, RateLaw},
    rtt::{Rtt, RttMeter},
    rules::{Rule, Rules},
    sample::EpochSample,
    yielding,
};
use crate::units::{PodBool, Rate, Share};
use bytemuck::{Pod, Zeroable};

pub use super::sample::{EPOCHS, EpochCount};

/// The least time between two steps. Without it, a lane whose step has to wait would retry at every
/// packet.
const STEP_INTERVAL_NS_MIN: u64 = 2_000;
/// An exact lane's least rate is at most one packet in this time (12 Mbit/s), even if epochs are
/// shorter. With a tenth of this time, ten exact lanes would overload a port of 1 Gbit/s
/// permanently.
const FLOOR_NS_MIN: u64 = 1_000_000;
/// An approximate lane's least rate is one packet in the time of this many at Rmax, if that time is
/// shorter. A starved lane learns from its next packet that the line is free again. A thousand
/// lanes fill a port at their least rates.
const FLOOR_PACKETS: u32 = 1_000;
/// That time is never shorter: the narrowest link of a path may be slower than the host's line.
const FLOOR_NS_LEAST: u64 = 300_000;

/// The largest share of lost ACKs that a lane corrects its loss for.
const ACKS_LOST_MAX: Share = Share::from_q16(1 << 15);

/// The epochs without a mark after which advice holds an exact lane up: the length of DCTCP's
/// average.
const UNMARKED_EPOCHS: u8 = 16;

/// The settings of a lane, fixed for its life, except for Rmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Settings {
    /// Rmax: the rate of the port, or less ([`Lane::set_rate_max`]).
    pub rate_max: Rate,
    /// Bytes of a full packet, for the rate's floor.
    pub packet_bytes: u32,
    /// The rate law, its m, and the rules that are on.
    pub rules: Rules,
    /// An epoch is one RTT, but never shorter than this, nanoseconds.
    pub epoch_ns_min: u64,
    /// Every message must arrive: the lane stays in queue 0, and its law is DCTCP's.
    pub exact: PodBool,
    /// The approximate queues towards hosts are deep
    /// ([`queues_are_deep`](super::advice::queues_are_deep)).
    pub deep_queues: PodBool,
}

impl Settings {
    const fn of_law(&self) -> LawSettings {
        LawSettings {
            law: self.rules.law(),
            exact: self.exact.is_true(),
            rate_max: self.rate_max,
            step: self.rules.step(),
            packet_bytes: self.packet_bytes,
            raise_at_target: self.rules.has(Rule::RaiseAtTarget),
        }
    }
}

/// The controller's inputs at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Now, nanoseconds.
    pub now_ns: u64,
    /// When the last packet handed over so far leaves; 0 if unknown. With pacing by departure time
    /// it lies in the future.
    pub last_departure_ns: u64,
    /// The lane's RTT.
    pub rtt: Rtt,
    /// The target of its (job, group), from Eq. 1.
    pub tlr: Share,
}

/// The epoch counters of a lane, in any kind of memory.
pub trait Counters {
    /// The counts of `epoch`.
    fn read(&self, epoch: u16) -> EpochCount;
    /// Whether the counts of `epoch` are final at `now_ns`, when its last ACK is due. Packets
    /// without an ACK of their own are counted only once a PROBE was answered.
    fn is_settled(&self, _epoch: u16, _now_ns: u64) -> bool {
        true
    }
    /// Zeroes the cell that `epoch` will use. Called before any packet carries that number.
    fn open(&mut self, epoch: u16);
}

/// The evaluation of an epoch, for reports and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Which epoch.
    pub epoch: u16,
    /// The epoch's counts.
    pub count: EpochCount,
    /// The epoch's loss rate.
    pub loss: Share,
}

/// The controller of one lane. It is plain data, in a daemon, in a library, or in a map where the
/// eBPF programs run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Lane {
    settings: Settings,
    /// The law's rate.
    rate: Rate,
    law: LawState,
    advice: AdviceLimit,
    /// The lane sends its first window at Rmax, and no RTT is known yet.
    first_window: PodBool,
    /// Closed epochs, by position in the ring.
    closed: [Closed; EPOCHS],
    /// When the open epoch was opened.
    opened_ns: u64,
    /// The lane's rate at that time.
    opened_rate: Rate,
    starvation: Starvation,
    epochs_evaluated: u32,
    /// The loss of the epoch that was evaluated last.
    loss: Share,
    /// The open epoch.
    epoch: u16,
    /// The oldest closed epoch that isn't evaluated; equal to `epoch` if there is none.
    unevaluated: u16,
    queue: u8,
    /// The queue that the lane began in.
    first_queue: u8,
    /// How many epochs in a row had no mark, [`UNMARKED_EPOCHS`] at most.
    unmarked_epochs: u8,
    /// Whether advice was received: one of the constants of `advice`.
    received_advice: u8,
    /// The share of ACKs that the network loses.
    acks_lost: Share,
    /// The first epoch whose packets all left under advice.
    advised_from: u16,
    /// Not 0: the lane drains the queue that it shares (law `yield`).
    draining: u8,
    reserved: [u8; 5],
    /// The least part of the advice.
    advice_floor: Floor,
    host_wait: HostWait,
}

const _: () = assert!(size_of::<Lane>() == 720);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Closed {
    /// When the epoch's last packet left.
    last_departure_ns: u64,
    /// How long the epoch was open.
    duration_ns: u64,
    /// The lane's rate when it was opened.
    rate: Rate,
}

impl Lane {
    /// A lane that starts at its law's first rate, in the queue of `tlr`, with epoch 0 open.
    pub fn new(settings: Settings, tlr: Share, now_ns: u64) -> Self {
        let queue = match settings.exact.is_true() {
            true => queue::EXACT,
            false => queue::of_target_loss_rate(tlr),
        };
        let rate = LawState::first_rate(&settings.of_law());
        Self {
            settings,
            rate,
            law: LawState::default(),
            advice: AdviceLimit::new(settings.packet_bytes),
            first_window: PodBool::FALSE,
            closed: [Closed::default(); EPOCHS],
            opened_ns: now_ns,
            opened_rate: rate,
            starvation: Starvation::default(),
            epochs_evaluated: 0,
            loss: Share::ZERO,
            epoch: 0,
            unevaluated: 0,
            queue,
            first_queue: queue,
            unmarked_epochs: 0,
            received_advice: advice::NEVER,
            acks_lost: Share::ZERO,
            advised_from: 0,
            draining: 0,
            reserved: [0; 5],
            advice_floor: Floor::USUAL,
            host_wait: HostWait::NONE,
        }
    }

    /// Continues at a rate from elsewhere, without slow start.
    pub fn at_rate(mut self, rate: Rate) -> Self {
        self.rate = rate.min(self.settings.rate_max);
        self.opened_rate = self.rate;
        self.law.skip_start(&self.settings.of_law());
        self
    }

    /// Opens `epoch` instead of epoch 0, for a flow whose packets have carried earlier epochs. The
    /// caller opens its counter.
    pub const fn at_epoch(mut self, epoch: u16) -> Self {
        (self.epoch, self.unevaluated) = (epoch, epoch);
        self
    }

    /// Makes a lane for a sender that limits its first window. An exact lane sends at Rmax until
    /// its RTT is known, or an epoch is evaluated. Other lanes begin at Rmax anyway.
    pub const fn with_first_window(mut self) -> Self {
        self.first_window = self.settings.exact;
        self
    }

    /// Makes a lane for a host whose queue holds up to `least_packets` of its packets or more, at
    /// unknown departures. Laws but TFRC's don't look at the RTT, and a lane with a window has no
    /// backlog.
    pub const fn with_backlog(mut self, least_packets: u64) -> Self {
        if matches!(self.settings.rules.law(), RateLaw::Tfrc) && !self.settings.exact.is_true() {
            self.host_wait = HostWait::of_backlog(least_packets);
        }
        self
    }

    /// The meter for the lane's ACKs, without samples.
    pub const fn rtt_meter(&self) -> RttMeter {
        RttMeter::new(self.settings.deep_queues)
    }

    /// Sets the share of ACKs that the network loses, as far as the sender knows. A lost ACK is no
    /// lost packet. The sender may be hostile: it can hide half of its losses at most. An exact
    /// lane hides none, because it shares queue 0 with all exact traffic.
    pub const fn set_acks_lost(&mut self, acks_lost: Share) {
        if !self.settings.exact.is_true() {
            let most_q16 = ACKS_LOST_MAX.q16();
            let q16 = acks_lost.q16();
            self.acks_lost = Share::from_q16(if q16 < most_q16 { q16 } else { most_q16 });
        }
    }

    /// Sets whether lanes drain the queue that they share at this moment, which
    /// [`yielding::drains`] says. Changes only lanes with a window.
    pub const fn set_draining(&mut self, draining: bool) {
        self.draining = (draining && self.has_window()) as u8;
    }

    /// Whether the lane drains the queue.
    pub const fn is_draining(&self) -> bool {
        self.draining != 0
    }

    /// Whether the packets in flight are limited ([`yielding::Window`]).
    pub const fn has_window(&self) -> bool {
        matches!(self.settings.rules.law(), RateLaw::Yield) && !self.settings.exact.is_true()
    }

    /// The lane's rules.
    pub const fn rules(&self) -> Rules {
        self.settings.rules
    }

    /// The rate to send at: the law's, limited by advice.
    pub const fn rate(&self) -> Rate {
        let rate_max = self.settings.rate_max;
        if self.first_window.is_true() {
            return rate_max;
        }
        let rate = self.undrained_rate();
        if self.draining != 0 { yielding::drained(rate) } else { rate }
    }

    const fn undrained_rate(&self) -> Rate {
        let rate_max = self.settings.rate_max;
        match self.settings.exact.is_true() {
            false if self.is_polite() => self.advice.capped(self.rate, rate_max),
            false => self.advice.limited(self.rate, rate_max, self.advice_floor),
            true if self.loses_at_random() => self.advice.held_up(self.rate, rate_max),
            true => self.rate,
        }
    }

    /// Whether the lane's law shares queues with TCP. Advice then raises no rate.
    const fn is_polite(&self) -> bool {
        matches!(self.settings.rules.law(), RateLaw::Tfrc | RateLaw::Yield)
    }

    /// Whether an exact lane's losses don't look like congestion: no switch has marked a packet
    /// lately, and at least half of the packets arrive.
    const fn loses_at_random(&self) -> bool {
        self.unmarked_epochs >= UNMARKED_EPOCHS
            && self.law.dctcp.congestion().q16() <= Share::ONE.q16() / 2
    }

    /// The lane's queue at the switches.
    pub const fn queue(&self) -> u8 {
        self.queue
    }

    /// The open epoch, whose number packets leaving now carry.
    pub const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The loss of the epoch that was evaluated last.
    pub const fn loss(&self) -> Share {
        self.loss
    }

    /// How many epochs were evaluated so far.
    pub const fn epochs_evaluated(&self) -> u32 {
        self.epochs_evaluated
    }

    /// Does the work that is due at `view.now_ns`: evaluates the epochs whose ACKs are due, then
    /// opens the next epoch if the current one is over. Returns the last evaluation, if any.
    pub fn tick(&mut self, view: &View, counters: &mut impl Counters) -> Option<Evaluation> {
        let mut last = None;
        self.rate = self.limited(self.rate);
        self.begin(view, counters);
        // Evaluates all of them. With one per call, the lane would never catch up after a delay.
        for _ in 0..EPOCHS {
            self.observe_host_wait(view, counters);
            let Some(evaluated) = self.evaluate_next(view, counters) else { break };
            if let Some(Evaluation { count, .. }) = evaluated {
                self.observe_floor(&count);
            }
            last = evaluated.or(last);
        }
        self.open_next(view, counters);
        self.queue = self.queue_at(view.tlr);
        last
    }

    /// One part of [`Self::tick`]: evaluates an epoch or, if none is ripe, opens the next. The eBPF
    /// programs use it, because the verifier follows each pass of a loop. They call again at the
    /// next packet. The least part of the advice stays an eighth: the verifier would take four
    /// times as long, a minute on a slow machine.
    pub fn step(&mut self, view: &View, counters: &mut impl Counters) {
        self.begin(view, counters);
        if self.evaluate_next(view, counters).is_none() {
            self.open_next(view, counters);
        }
        // At the beginning it triples the verifier's work.
        self.rate = self.limited(self.rate);
        self.queue = self.queue_at(view.tlr);
    }

    /// When the next step is due, as far as is known now. While the RTT is unknown, the wait is at
    /// most one epoch, because the next ACK may show the RTT.
    pub fn due_ns(&self, now_ns: u64, rtt: Rtt) -> u64 {
        let due_ns = match rtt.smoothed_ns {
            0 => self.idle_until_ns(rtt).min(now_ns + self.settings.epoch_ns_min),
            _ => self.idle_until_ns(rtt),
        };
        // Drains are short.
        let due_ns = match self.has_window() {
            true => due_ns.min(now_ns + yielding::TICK_NS_MAX),
            false => due_ns,
        };
        due_ns.max(now_ns + STEP_INTERVAL_NS_MIN)
    }

    fn idle_until_ns(&self, rtt: Rtt) -> u64 {
        let ripe_ns = match self.unevaluated == self.epoch {
            true => u64::MAX,
            false => self.ripe_ns(self.unevaluated, rtt),
        };
        match self.is_full() {
            true => ripe_ns,
            false => ripe_ns.min(self.opened_ns + self.epoch_ns(rtt)),
        }
    }

    /// Makes the changes of the rate that don't wait for an evaluation.
    fn begin(&mut self, view: &View, counters: &impl Counters) {
        self.advice.expire(view.now_ns, view.rtt);
        if view.rtt.min_ns > 0 || self.epochs_evaluated > 0 {
            self.first_window = PodBool::FALSE;
        }
        if self.epochs_evaluated == 0 {
            let settings = self.settings.of_law();
            self.rate = self.law.on_first_rtt(&settings, self.rate, view.rtt.min_ns);
        }
        if self.settings.exact.is_true() {
            self.begin_exact(view, counters);
        }
    }

    /// Exact lanes keep a window while their RTT measures the network's queues. Without known
    /// departures it also measures the host's own queue, which a lower rate makes longer. Where an
    /// epoch is many RTTs, an RTT is out of date before it is used. In both cases the rate has no
    /// window.
    fn begin_exact(&mut self, view: &View, counters: &impl Counters) {
        if view.last_departure_ns > 0 && view.rtt.smoothed_ns > 0 {
            let (rtt_ns, floor) = (self.epoch_ns(view.rtt), self.floor(view.rtt));
            let rate_max = self.settings.rate_max;
            self.rate = self.law.dctcp.same_window(self.rate, rtt_ns, floor, rate_max);
        }
        if self.law.dctcp.is_starting() && self.is_marked(counters) {
            self.rate = self.law.dctcp.end_start(self.rate, self.epoch);
        }
    }

    /// Whether a mark came back for the open epoch or the two before it, those of the last RTTs.
    fn is_marked(&self, counters: &impl Counters) -> bool {
        let unevaluated = self.epoch.wrapping_sub(self.unevaluated);
        for back in 0..3 {
            let count = counters.read(self.epoch.wrapping_sub(back));
            if back <= unevaluated && count.marked_packets > 0 {
                return true;
            }
        }
        false
    }

    /// Evaluates the oldest unevaluated epoch if it is ripe and settled. The inner `None` means
    /// that no packet was sent in the epoch.
    fn evaluate_next(
        &mut self,
        view: &View,
        counters: &mut impl Counters,
    ) -> Option<Option<Evaluation>> {
        let epoch = self.unevaluated;
        if !self.is_ripe(view, counters) {
            return None;
        }
        self.unevaluated = epoch.wrapping_add(1);
        Some(self.evaluate(epoch, view, counters))
    }

    /// Whether the oldest closed epoch can be evaluated.
    fn is_ripe(&self, view: &View, counters: &impl Counters) -> bool {
        let epoch = self.unevaluated;
        epoch != self.epoch
            && view.now_ns >= self.ripe_ns(epoch, view.rtt)
            && counters.is_settled(epoch, view.now_ns)
    }

    /// Follows the smoothed RTT, which has taken in the ACKs of the next epoch to evaluate.
    fn observe_host_wait(&mut self, view: &View, counters: &impl Counters) {
        if self.host_wait.is_unseen() && self.is_ripe(view, counters) {
            let Settings { rate_max, packet_bytes, .. } = self.settings;
            let EpochCount { sent_packets, sent_bytes, acked_packets, .. } =
                counters.read(self.unevaluated);
            let mean_bytes = (sent_bytes / sent_packets.max(1)).min(u64::from(packet_bytes)) as u32;
            let rate = self.closed[usize::from(self.unevaluated) % EPOCHS].rate;
            let rate = self.advice.capped(rate, rate_max);
            self.host_wait.observe(acked_packets, rate, packet_bytes, mean_bytes);
        }
    }

    fn observe_floor(&mut self, count: &EpochCount) {
        if self.advice.is_advised() {
            let rate_max = self.settings.rate_max;
            let allowed = self.advice.limited(self.rate, rate_max, Floor::USUAL);
            let decides = allowed.bytes_per_s() > self.rate.bytes_per_s();
            self.advice_floor.observe(decides, count.sent_packets, count.acked_packets);
        }
    }

    fn queue_at(&self, tlr: Share) -> u8 {
        let Settings { exact, rules, .. } = self.settings;
        let follows_target = rules.has(Rule::DynamicQueue) && !self.lacks_advice();
        let queue = match follows_target && !exact.is_true() {
            true => queue::of_target_loss_rate(tlr),
            false => self.first_queue,
        };
        if rules.has(Rule::StarvationRecovery) { self.starvation.recovered(queue) } else { queue }
    }

    /// When the ACKs of a closed epoch are due.
    fn ripe_ns(&self, epoch: u16, rtt: Rtt) -> u64 {
        match self.settings.rules.has(Rule::EvaluateLate) {
            true => {
                // Queue 0 is long, so its growth alone can delay an ACK beyond the usual time. An
                // ACK that is only late must not halve an exact lane's rate.
                let late_ns =
                    if self.settings.exact.is_true() { rtt.late_ns() } else { rtt.usual_ns() };
                let missing_ns = self.host_wait.missing_ns(self.rate(), self.settings.packet_bytes);
                self.closed[usize::from(epoch) % EPOCHS].last_departure_ns + late_ns + missing_ns
            }
            false => 0,
        }
    }

    fn evaluate(
        &mut self,
        epoch: u16,
        view: &View,
        counters: &impl Counters,
    ) -> Option<Evaluation> {
        let closed = self.closed[usize::from(epoch) % EPOCHS];
        let count = counters.read(epoch);
        let is_before_advice = self.is_before_advice(epoch);
        if count.sent_packets == 0 {
            return None;
        }
        self.epochs_evaluated = self.epochs_evaluated.wrapping_add(1);
        self.advice.note_sent(count.sent_packets, count.sent_bytes);
        let count = count.with_acks_lost(self.acks_lost);
        let sample = EpochSample {
            epoch,
            open_epoch: self.epoch,
            count,
            // The target comes from the sender, but an exact lane's target is always zero.
            tlr: if self.settings.exact.is_true() { Share::ZERO } else { view.tlr },
            duration_ns: closed.duration_ns,
            // Before the first ACK, the RTT is only known to be longer than the epoch.
            rtt_ns: if view.rtt.smoothed_ns == 0 {
                closed.duration_ns
            } else {
                self.host_wait.without(view.rtt.smoothed_ns)
            },
            idle: self.settings.rules.has(Rule::HoldWhenIdle) && self.was_idle(closed, count),
        };
        if !is_before_advice {
            let rate = self.law.on_epoch(&self.settings.of_law(), self.rate, &sample);
            self.rate = rate.max(self.floor(view.rtt));
        }
        self.unmarked_epochs = match count.marked_packets {
            0 => (self.unmarked_epochs + 1).min(UNMARKED_EPOCHS),
            _ => 0,
        };
        let loss = count.loss();
        self.loss = loss;
        self.starvation.observe(loss, sample.tlr);
        Some(Evaluation { epoch, count, loss })
    }

    /// The least rate, from the minimum RTT. The smoothed RTT includes the host's own queue under
    /// HTB. A low rate lengthens that queue, so a floor from the smoothed RTT would sink without
    /// end.
    fn floor(&self, rtt: Rtt) -> Rate {
        let Settings { rate_max, packet_bytes, epoch_ns_min, rules, exact, .. } = self.settings;
        let wait_ns = match exact.is_true() {
            true => FLOOR_NS_MIN,
            false => {
                let bytes = packet_bytes.saturating_mul(FLOOR_PACKETS);
                rate_max.duration_ns(bytes).clamp(FLOOR_NS_LEAST, FLOOR_NS_MIN)
            }
        };
        let per_epoch = rules.has(Rule::FloorPerEpoch);
        let epoch_ns = if per_epoch { epoch_ns_min.max(wait_ns) } else { 0 };
        let floor = rate::floor(packet_bytes, rtt.min_ns, epoch_ns).min(rate_max);
        // Before an RTT is known, the floor must not raise a rate after total loss.
        if rtt.min_ns == 0 { floor.min(self.rate) } else { floor }
    }

    /// Whether the lane had too little to send to learn anything about a higher rate: less than
    /// half of the bytes that its rate allowed, give or take two packets.
    fn was_idle(&self, closed: Closed, count: EpochCount) -> bool {
        let allowed_bytes = closed.rate.bytes_in(closed.duration_ns);
        count.sent_bytes + 2 * u64::from(self.settings.packet_bytes) < allowed_bytes / 2
    }

    fn open_next(&mut self, view: &View, counters: &mut impl Counters) {
        let duration_ns = view.now_ns.saturating_sub(self.opened_ns);
        if self.is_full() || duration_ns < self.epoch_ns(view.rtt) {
            return;
        }
        self.closed[usize::from(self.epoch) % EPOCHS] = Closed {
            last_departure_ns: view.now_ns.max(view.last_departure_ns),
            duration_ns,
            rate: self.opened_rate,
        };
        self.epoch = self.epoch.wrapping_add(1);
        self.opened_ns = view.now_ns;
        self.opened_rate = self.rate;
        counters.open(self.epoch);
    }

    fn epoch_ns(&self, rtt: Rtt) -> u64 {
        self.settings.epoch_ns_min.max(rtt.smoothed_ns)
    }

    /// A full ring holds the epoch open until the oldest one is evaluated.
    fn is_full(&self) -> bool {
        usize::from(self.epoch.wrapping_sub(self.unevaluated)) >= EPOCHS - 1
    }
}

mod advice;
mod rate_max;
mod rest;
#[cfg(test)]
mod tests;
