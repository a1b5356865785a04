//! The life of a lane: epochs are opened, counted, evaluated, and turned into a rate and a queue.
//!
//! The datapath counts packets under the epoch that stands in their header; this controller opens a
//! new epoch every `max(RTT, minimum)`, reads a closed one no sooner than one smoothed RTT after
//! its last packet left, and applies the laws.

use super::{
    queue,
    queue::Starvation,
    rate,
    rate_law::{EpochSample, Memory},
    rtt::Rtt,
    rules::{Rule, Rules},
};
use crate::units::{PodBool, Rate, Share};
use bytemuck::{Pod, Zeroable};

/// How many epochs may be open or unevaluated at once; also the length of the ring of counters.
pub const EPOCHS: usize = 16;

/// Steps are this far apart at least, so that a lane whose next one waits for something else doesn't
/// try it with every packet.
const STEP_INTERVAL_NS_MIN: u64 = 2_000;
/// No lane's least rate is more than a packet in this time, however short its epochs: 12 Mbit/s. With a
/// tenth of it ten exact lanes would overload a port of 1 Gbit/s for ever.
const FLOOR_NS_MIN: u64 = 1_000_000;

/// What the datapath counted in one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCount {
    /// Packets that left under this epoch's number.
    pub sent_packets: u64,
    /// Their bytes, as paced.
    pub sent_bytes: u64,
    /// ACKs that came back with it.
    pub acked_packets: u64,
    /// Of these, ACKs of packets that came with the ECN mark.
    pub marked_packets: u64,
}

impl EpochCount {
    /// NetApprox §4.2, footnote 3: `1 - acked / sent`.
    pub const fn loss(self) -> Share {
        Share::of(self.acked_packets, self.sent_packets).complement()
    }

    /// RFC 8257 §3.3: the share of what arrived that a switch had marked.
    pub const fn marked(self) -> Share {
        Share::of(self.marked_packets, self.acked_packets)
    }
}

/// What a lane is told about its surroundings, fixed for the lane's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Settings {
    /// Rmax: the rate of the port.
    pub rate_max: Rate,
    /// m of Eq. 2.
    pub step: Share,
    /// Bytes of a full packet, for the rate's floor.
    pub packet_bytes: u32,
    /// An epoch is one RTT, but never shorter than this, nanoseconds.
    pub epoch_ns_min: u64,
    /// The rate law, and the rules that are on.
    pub rules: Rules,
    /// Everything must arrive: queue 0, and only there, and DCTCP's law.
    pub exact: PodBool,
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
    /// Whether all that can be known of `epoch`, whose last ACK would be here by `now_ns`, is: packets
    /// without an ACK of their own are known of only when somebody has asked.
    fn is_settled(&self, _epoch: u16, _now_ns: u64) -> bool {
        true
    }
    /// Zeroes the cell that `epoch` will use. Called before any packet carries that number.
    fn open(&mut self, epoch: u16);
}

/// What an epoch's evaluation was, for reports and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Which epoch.
    pub epoch: u16,
    /// What it counted.
    pub count: EpochCount,
    /// Its loss.
    pub loss: Share,
}

/// The controller of one lane: plain data, that lives in a daemon, in a library, or in a map where the
/// programs of the datapath run it themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Lane {
    settings: Settings,
    rate: Rate,
    memory: Memory,
    /// By ring position: when the epoch's last packet left, how long it was open, and its rate.
    closed: [Closed; EPOCHS],
    /// When the open epoch was opened, and the lane's rate at that time.
    opened_ns: u64,
    opened_rate: Rate,
    starvation: Starvation,
    epochs_evaluated: u32,
    /// Of the epoch that was evaluated last.
    loss: Share,
    /// The open epoch.
    epoch: u16,
    /// The oldest closed epoch that isn't evaluated; equal to `epoch` if there is none.
    unevaluated: u16,
    queue: u8,
    /// The queue that the lane began in.
    first_queue: u8,
    reserved: [u8; 6],
}

const _: () = assert!(size_of::<Lane>() == 576);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Closed {
    last_departure_ns: u64,
    duration_ns: u64,
    rate: Rate,
}

impl Lane {
    /// A lane that starts at its law's first rate, in the queue of `tlr`, with epoch 0 open.
    pub fn new(settings: Settings, tlr: Share, now_ns: u64) -> Self {
        let queue = match settings.exact.is_yes() {
            true => queue::EXACT,
            false => queue::of_target_loss_rate(tlr),
        };
        let (memory, rate) = Memory::new(&settings);
        Self {
            settings,
            rate,
            memory,
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
            reserved: [0; 6],
        }
    }

    /// The same lane, going on at a rate that it had elsewhere.
    pub fn at_rate(mut self, rate: Rate) -> Self {
        self.rate = rate.min(self.settings.rate_max);
        self.opened_rate = self.rate;
        self.memory.skip_start();
        self
    }

    /// The rules that it goes by.
    pub const fn rules(&self) -> Rules {
        self.settings.rules
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

    /// The loss of the last of them that told something.
    pub const fn loss(&self) -> Share {
        self.loss
    }

    /// How many epochs told something so far.
    pub const fn epochs_evaluated(&self) -> u32 {
        self.epochs_evaluated
    }

    /// Does what is due at `view.now_ns`: evaluates the epochs whose ACKs had time to come back, then
    /// opens the next if the present one is over. Returns the last evaluation, if one was made.
    pub fn tick(&mut self, view: &View, counters: &mut impl Counters) -> Option<Evaluation> {
        let mut last = None;
        self.begin(view, counters);
        // All of them: one a call would never make up for a lag.
        for _ in 0..EPOCHS {
            let Some(evaluated) = self.evaluate_next(view, counters) else { break };
            last = evaluated.or(last);
        }
        self.open_next(view, counters);
        self.queue = self.queue_at(view.tlr);
        last
    }

    /// One thing of what [`Self::tick`] does: evaluates an epoch, or if none is ripe opens the next. For a
    /// caller that comes again with the next packet, and whose verifier looks at each turn of a loop.
    pub fn step(&mut self, view: &View, counters: &mut impl Counters) {
        self.begin(view, counters);
        if self.evaluate_next(view, counters).is_none() {
            self.open_next(view, counters);
        }
        self.queue = self.queue_at(view.tlr);
    }

    /// When to look again whether there is something to do, as far as is known now. An RTT that isn't
    /// known yet may be known with the next ACK: no longer than an epoch then.
    pub fn due_ns(&self, now_ns: u64, rtt: Rtt) -> u64 {
        let due_ns = match rtt.smoothed_ns {
            0 => self.idle_until_ns(rtt).min(now_ns + self.settings.epoch_ns_min),
            _ => self.idle_until_ns(rtt),
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

    /// What doesn't wait for a evaluation.
    fn begin(&mut self, view: &View, counters: &impl Counters) {
        if self.epochs_evaluated == 0 && !self.memory.has_window() {
            self.rate = self.memory.first_rtt(&self.settings, self.rate, view.rtt.min_ns);
        }
        if self.settings.exact.is_yes() {
            self.begin_exact(view, counters);
        }
    }

    /// Exact lanes keep a window where an RTT tells of the network's queues. Without known departures it
    /// tells of the host's own too, which a lower rate makes longer; and where an epoch is many RTTs,
    /// what an RTT says is old before it is heeded: there their rate is all they have.
    fn begin_exact(&mut self, view: &View, counters: &impl Counters) {
        if view.last_departure_ns > 0 && view.rtt.smoothed_ns > 0 {
            let (rtt_ns, floor) = (self.epoch_ns(view.rtt), self.floor(view.rtt));
            self.rate = self.memory.same_window(&self.settings, self.rate, rtt_ns, floor);
        }
        if self.memory.is_starting() && self.is_marked(counters) {
            self.rate = self.memory.end_start(self.rate, self.epoch);
        }
    }

    /// Whether a mark came back with the open epoch or the two before it, those of the last round trips.
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

    /// What came of the oldest epoch that isn't evaluated, if its time has come.
    fn evaluate_next(
        &mut self,
        view: &View,
        counters: &mut impl Counters,
    ) -> Option<Option<Evaluation>> {
        let epoch = self.unevaluated;
        let ripe = epoch != self.epoch && view.now_ns >= self.ripe_ns(epoch, view.rtt);
        if !ripe || !counters.is_settled(epoch, view.now_ns) {
            return None;
        }
        self.unevaluated = epoch.wrapping_add(1);
        Some(self.evaluate(epoch, view, counters))
    }

    fn queue_at(&self, tlr: Share) -> u8 {
        let Settings { exact, rules, .. } = self.settings;
        let queue = match rules.has(Rule::DynamicQueue) && !exact.is_yes() {
            true => queue::of_target_loss_rate(tlr),
            false => self.first_queue,
        };
        if rules.has(Rule::StarvationRecovery) { self.starvation.recovered(queue) } else { queue }
    }

    /// When an ACK of a closed epoch is late.
    fn ripe_ns(&self, epoch: u16, rtt: Rtt) -> u64 {
        match self.settings.rules.has(Rule::EvaluateLate) {
            true => {
                // Queue 0 is long enough that its own growth delays an ACK by more than the usual: what
                // was only late would halve an exact lane's rate.
                let late_ns =
                    if self.settings.exact.is_yes() { rtt.late_ns() } else { rtt.usual_ns() };
                self.closed[usize::from(epoch) % EPOCHS].last_departure_ns + late_ns
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
        if count.sent_packets == 0 {
            return None; // No packets, no news.
        }
        self.epochs_evaluated = self.epochs_evaluated.wrapping_add(1);
        let seen = EpochSample {
            epoch,
            open_epoch: self.epoch,
            count,
            // An exact lane may lose nothing, whatever its sender says.
            tlr: if self.settings.exact.is_yes() { Share::ZERO } else { view.tlr },
            duration_ns: closed.duration_ns,
            // Without an ACK so far: all that is known of it is that it is longer.
            rtt_ns: if view.rtt.smoothed_ns == 0 {
                closed.duration_ns
            } else {
                view.rtt.smoothed_ns
            },
            idle: self.settings.rules.has(Rule::HoldWhenIdle) && self.was_idle(closed, count),
        };
        let rate = self.memory.next(&self.settings, self.rate, &seen);
        self.rate = rate.max(self.floor(view.rtt));
        let loss = count.loss();
        self.loss = loss;
        self.starvation.observe(loss, seen.tlr);
        Some(Evaluation { epoch, count, loss })
    }

    /// The least RTT, not the smoothed one: where the host's own queue is part of it (HTB), a low
    /// rate lengthens it, and a floor that followed would sink without end.
    fn floor(&self, rtt: Rtt) -> Rate {
        let Settings { rate_max, packet_bytes, epoch_ns_min, rules, .. } = self.settings;
        let per_epoch = rules.has(Rule::FloorPerEpoch);
        let epoch_ns = if per_epoch { epoch_ns_min.max(FLOOR_NS_MIN) } else { 0 };
        let floor = rate::floor(packet_bytes, rtt.min_ns, epoch_ns).min(rate_max);
        // Before an RTT is known, all that was lost is no reason to send more.
        if rtt.min_ns == 0 { floor.min(self.rate) } else { floor }
    }

    /// Whether the lane had too little to send to learn anything about a higher rate: less than
    /// half of what its rate allowed, give or take two packets.
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

#[cfg(test)]
mod tests;
