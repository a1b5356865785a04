//! Which law sets a lane's rate, and what it sees and remembers.

use super::{
    dctcp::{self, Alpha},
    frugal,
    lane::{EPOCHS, EpochCount, Settings},
    pi::{self, Gathered},
    polite::{self, LossHistory},
    rate,
    rules::Rule,
};
use crate::units::{PodBool, Rate, Share};
use bytemuck::{Pod, Zeroable};
use core::cmp::Ordering;

/// A law that sets the rate of approximate lanes. Exact lanes have DCTCP's, whatever is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum RateLaw {
    /// NetApprox §4.2, Eq. 2 and 3.
    #[default]
    Paper = 0,
    /// The paper's, whose growth is bounded by what is delivered.
    Frugal = 1,
    /// Proportional steps around a loss that tiny queues have anyway; experimental.
    Pi = 2,
    /// A TCP flow's share, for networks without priority queues.
    Polite = 3,
    /// None: Rmax, as in ATP Base.
    None = 4,
}

impl RateLaw {
    /// Every law with its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Paper, "paper"),
        (Self::Frugal, "frugal"),
        (Self::Pi, "pi"),
        (Self::Polite, "polite"),
        (Self::None, "none"),
    ];

    /// Whether the programs can run it (`--epochs kernel`). The ways through the equation of a polite lane
    /// are more than their verifier goes; its round trips, of wide-area paths, don't need it.
    pub const fn runs_in_programs(self) -> bool {
        !matches!(self, Self::Polite)
    }

    /// The law of a number; that of any other number is the default.
    pub(super) const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Frugal,
            2 => Self::Pi,
            3 => Self::Polite,
            4 => Self::None,
            _ => Self::Paper,
        }
    }
}

/// What a law is told of an epoch in which something was sent.
#[derive(Clone, Copy, Debug)]
pub struct EpochSample {
    /// Which epoch.
    pub epoch: u16,
    /// The epoch that is open now, the last one with packets at the present rate or an older one.
    pub open_epoch: u16,
    /// What it counted.
    pub count: EpochCount,
    /// The target, at the time of judging.
    pub tlr: Share,
    /// How long it was open, nanoseconds.
    pub duration_ns: u64,
    /// The lane's smoothed RTT, nanoseconds; the epoch's length if there was no ACK so far.
    pub rtt_ns: u64,
    /// The lane had too little to send to learn anything about a higher rate.
    pub idle: bool,
}

impl EpochSample {
    /// What arrived of the epoch's bytes, over its length.
    ///
    /// Overflow: 2^44 bytes, which 400 Gbit/s carry in six minutes, times 2^16.
    fn delivered(&self) -> Rate {
        let arrived_q16 = u64::from(self.count.loss().complement().q16());
        Rate::of((self.count.sent_bytes.min(1 << 44) * arrived_q16) >> 16, self.duration_ns)
    }
}

/// Packets that a lane may send at once before it knows anything (RFC 6928).
const INITIAL_WINDOW: u32 = 10;
/// The round trip that is assumed until one is known: for exact lanes that of a busy data centre,
/// for polite ones that of a wide-area path.
const RTT_GUESS_EXACT_NS: u64 = 10_000_000;
const RTT_GUESS_POLITE_NS: u64 = 100_000_000;

/// What the laws remember of a lane. Only what the lane's own law uses ever changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Memory {
    gathered: Gathered,
    history: LossHistory,
    /// Slow start: nothing has told of congestion yet.
    starting: PodBool,
    /// The epoch that was open at the last cut, while packets from before it may still be evaluated; else
    /// [`NO_CUT`].
    cut: u32,
    alpha: Alpha,
    /// The present rate times this is the window; 0 if there is none yet.
    window_ns: u64,
    /// The RTT that was heeded last.
    rtt_ns: u64,
}

const _: () = assert!(size_of::<Memory>() == 104);

/// No epoch has this number.
const NO_CUT: u32 = u32::MAX;

impl Memory {
    /// Of a lane that begins, and the rate that it begins with: Rmax, since the first RTT is not to be
    /// wasted, but an initial window per RTT where others' traffic shares the queue.
    pub fn new(settings: &Settings) -> (Self, Rate) {
        let guess_ns = match (settings.exact.is_yes(), settings.rules.law()) {
            (true, _) => Some(RTT_GUESS_EXACT_NS),
            (false, RateLaw::Polite) => Some(RTT_GUESS_POLITE_NS),
            _ => None,
        };
        let memory = Self {
            gathered: Gathered::default(),
            history: LossHistory::default(),
            starting: guess_ns.is_some().into(),
            cut: NO_CUT,
            alpha: Alpha::default(),
            window_ns: 0,
            rtt_ns: 0,
        };
        let rate = guess_ns.map_or(settings.rate_max, |ns| initial_rate(settings, ns));
        (memory, rate)
    }

    /// The lane goes on at a rate from elsewhere: no slow start.
    pub fn skip_start(&mut self) {
        self.starting = PodBool::NO;
    }

    /// The initial window over the first RTT that is known, before any epoch was evaluated.
    pub fn first_rtt(&self, settings: &Settings, rate: Rate, rtt_ns: u64) -> Rate {
        match self.starting.is_yes() && rtt_ns > 0 {
            true => rate.max(initial_rate(settings, rtt_ns)),
            false => rate,
        }
    }

    /// Whether the rate is a window over an RTT.
    pub const fn has_window(&self) -> bool {
        self.window_ns != 0
    }

    /// Whether an exact lane is in slow start: nothing told of congestion yet.
    pub const fn is_starting(&self) -> bool {
        self.starting.is_yes()
    }

    /// A mark ends slow start at once, with the cut that its epoch's evaluation would bring: until then a
    /// rate that doubles would fill any buffer.
    pub fn end_start(&mut self, rate: Rate, open_epoch: u16) -> Rate {
        self.starting = PodBool::NO;
        self.cut = u32::from(open_epoch);
        self.alpha.decreased(rate, false)
    }

    /// The rate that has in flight over `rtt_ns` what `rate` had over the RTT of the last call, from
    /// `rate_min` to Rmax: a window. As a queue grows, and the RTT with it, whoever waits in it slows
    /// down without being told. What a bound takes or adds doesn't change the window.
    ///
    /// Overflow: see [`scaled`].
    pub fn same_window(
        &mut self,
        settings: &Settings,
        rate: Rate,
        rtt_ns: u64,
        rate_min: Rate,
    ) -> Rate {
        if self.rtt_ns == rtt_ns || rtt_ns == 0 {
            return rate;
        }
        let is_new = core::mem::replace(&mut self.rtt_ns, rtt_ns) == 0;
        let before_ns = core::mem::replace(&mut self.window_ns, rtt_ns);
        if is_new {
            return rate;
        }
        let wanted = scaled(rate.bytes_per_s(), before_ns, rtt_ns);
        let bounded = wanted.min(settings.rate_max.bytes_per_s()).max(rate_min.bytes_per_s());
        if bounded != wanted {
            self.window_ns = scaled(before_ns, rate.bytes_per_s(), bounded).max(1);
        }
        Rate::from_bytes_per_s(bounded)
    }

    /// The rate after an epoch, at most Rmax. The floor is the lane's.
    pub fn next(&mut self, settings: &Settings, rate: Rate, seen: &EpochSample) -> Rate {
        let &Settings { rate_max, step, .. } = settings;
        if settings.exact.is_yes() {
            return self.dctcp(settings, rate, seen);
        }
        match settings.rules.law() {
            RateLaw::Paper => {
                by_target(settings, rate, seen, || rate::increased(rate, step, rate_max))
            }
            RateLaw::Frugal => by_target(settings, rate, seen, || {
                let packet = rate::floor(settings.packet_bytes, 0, seen.duration_ns);
                frugal::increased(rate, step, rate_max, seen.delivered(), seen.tlr, packet)
            }),
            RateLaw::Pi => match self.gathered.add(seen.count, seen.idle) {
                Some((loss, idle)) => {
                    let next = pi::next(rate, rate_max, loss, seen.tlr);
                    if idle { next.min(rate) } else { next }
                }
                None => rate,
            },
            // No daemon gives such a lane to a program.
            RateLaw::Polite if cfg!(target_arch = "bpf") => rate,
            RateLaw::Polite => self.polite(settings, rate, seen),
            RateLaw::None => rate_max,
        }
    }

    fn dctcp(&mut self, settings: &Settings, rate: Rate, seen: &EpochSample) -> Rate {
        let &Settings { rate_max, step, packet_bytes, .. } = settings;
        let loss = seen.count.loss();
        let congestion = loss.max(seen.count.marked());
        self.alpha.observe(congestion);
        if congestion > Share::ZERO {
            self.starting = PodBool::NO;
            if self.was_cut_since(seen) {
                return rate;
            }
            self.cut = u32::from(seen.open_epoch);
            return self.alpha.decreased(rate, loss > Share::ZERO);
        }
        if seen.idle {
            return rate;
        }
        if self.starting.is_yes() {
            return rate::doubled(rate, seen.delivered(), rate_max);
        }
        dctcp::increased(rate, step, rate_max, packet_bytes, seen.rtt_ns, seen.duration_ns)
    }

    /// Whether the rate was cut since packets of this epoch left: one cut per congestion event
    /// (RFC 8257 §3.3: once per window).
    fn was_cut_since(&mut self, seen: &EpochSample) -> bool {
        if self.cut == NO_CUT {
            return false;
        }
        // Epochs are evaluated in order, and no more than a ring of them is unevaluated.
        let before = usize::from((self.cut as u16).wrapping_sub(seen.epoch)) < EPOCHS;
        if !before {
            self.cut = NO_CUT;
        }
        before
    }

    fn polite(&mut self, settings: &Settings, rate: Rate, seen: &EpochSample) -> Rate {
        let &Settings { rate_max, packet_bytes, .. } = settings;
        let EpochCount { sent_packets, acked_packets, marked_packets, .. } = seen.count;
        // A mark stands for a loss (RFC 3168 §5).
        let lost = sent_packets.saturating_sub(acked_packets).saturating_add(marked_packets);
        let delivered = seen.delivered();
        if self.history.is_clean() && lost > 0 {
            self.starting = PodBool::NO;
            self.history.begin(polite::interval_at(delivered, packet_bytes, seen.rtt_ns));
        } else {
            let rtts = (seen.duration_ns / seen.rtt_ns.max(1)).max(1);
            self.history.record(sent_packets.min(u64::from(u32::MAX)) as u32, lost, rtts);
        }
        if self.starting.is_yes() {
            return if seen.idle { rate } else { rate::doubled(rate, delivered, rate_max) };
        }
        let fair = polite::rate_at(packet_bytes, seen.rtt_ns, self.history.mean_interval_q8());
        let next = match fair > rate {
            // RFC 5348 §4.3: at most twice what arrives.
            true if !seen.idle => fair.min(rate::doubled(rate, delivered, rate_max)),
            true => rate,
            false => fair,
        };
        next.min(rate_max)
    }
}

/// `value * up / down`, rounded down.
///
/// Overflow: all are cut off at 2^36, more than 400 Gbit/s and a minute; the ratio in Q16 at 2^26.
fn scaled(value: u64, up: u64, down: u64) -> u64 {
    let ratio_q16 = ((up.min(1 << 36) << 16) / down.max(1)).min(1 << 26);
    (value.min(1 << 36) * ratio_q16) >> 16
}

fn initial_rate(settings: &Settings, rtt_ns: u64) -> Rate {
    rate::floor(INITIAL_WINDOW * settings.packet_bytes, rtt_ns, 0).min(settings.rate_max)
}

/// NetApprox §4.2: up while the loss is within its target, down by Eq. 3 above it.
fn by_target(
    settings: &Settings,
    rate: Rate,
    seen: &EpochSample,
    increased: impl FnOnce() -> Rate,
) -> Rate {
    let loss = seen.count.loss();
    match loss.cmp(&seen.tlr) {
        Ordering::Greater => rate::decreased(rate, loss),
        Ordering::Equal if !settings.rules.has(Rule::RaiseAtTarget) => rate,
        _ if seen.idle => rate,
        _ => increased(),
    }
}

#[cfg(test)]
mod tests;
