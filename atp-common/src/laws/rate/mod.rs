//! The table of the rate laws, and the dispatch to a lane's law.
//!
//! To add a law, write its file, declare it as a module, and add one row to the table below. If the
//! law has state, the size assertions of `LawState` and `Lane` fail until they are updated.

mod arithmetic;
mod dctcp;
mod frugal;
mod global;
mod none;
mod paper;
mod pi;
mod tfrc;
mod yielding;

use super::sample::EpochSample;
use crate::units::{Rate, Share};
use bytemuck::{Pod, Zeroable};

pub use arithmetic::floor;
use dctcp::Dctcp;
pub use paper::DEFAULT_STEP;

/// A lane's settings for its law, fixed for the lane's life.
#[derive(Clone, Copy, Debug)]
pub(super) struct LawSettings {
    /// The law of the lane if it is approximate.
    pub law: RateLaw,
    /// The lane is exact: its law is DCTCP's.
    pub exact: bool,
    /// Rmax: the rate of the port.
    pub rate_max: Rate,
    /// m of Eq. 2.
    pub step: Share,
    /// Bytes of a full packet.
    pub packet_bytes: u32,
    /// A loss that equals the target raises the rate.
    pub raise_at_target: bool,
}

/// A rate law: its state for one lane, and the rules that set the lane's rate.
///
/// The state is plain data, because lanes lie in a BPF map. Dispatch is static, because eBPF
/// programs run the laws.
trait Law: Pod + Default {
    /// The first rate of a lane. Rmax by default, so that the first RTT is not wasted.
    fn first_rate(lane: &LawSettings) -> Rate {
        lane.rate_max
    }

    /// The rate once the first RTT is known, before any epoch was evaluated.
    fn on_first_rtt(&self, _lane: &LawSettings, rate: Rate, _rtt_ns: u64) -> Rate {
        rate
    }

    /// Skips slow start: the lane continues at a rate from elsewhere.
    fn skip_start(&mut self) {}

    /// The rate after an epoch, at most Rmax. The lane applies the floor.
    fn on_epoch(&mut self, lane: &LawSettings, rate: Rate, sample: &EpochSample) -> Rate;
}

/// Generates [`RateLaw`], [`LawState`] and the dispatch from the table of laws.
macro_rules! rate_laws {
    ($($number:literal: $law:ident($module:ident::$state:ident), $name:literal,
       $description:literal;)+) => {
        /// A law that sets the rate of approximate lanes. Exact lanes use DCTCP under any of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum RateLaw {
            $(#[doc = concat!("`", $name, "`: ", $description, ".")] $law = $number,)+
        }

        impl RateLaw {
            /// Every law with its name.
            pub const ALL: [(Self, &'static str); [$($number),+].len()] =
                [$((Self::$law, $name)),+];

            /// One line for help texts.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$law => $description,)+
                }
            }

            /// The law with this number; the default law for any other number.
            pub(super) const fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$law,)+
                    _ => Self::DEFAULT,
                }
            }
        }

        /// The states of all laws for a lane, side by side. Only the state of the lane's own law
        /// ever changes.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct LawState {
            /// The law of exact lanes.
            pub(super) dctcp: Dctcp,
            $($module: $module::$state,)+
        }

        impl LawState {
            /// The first rate of a lane.
            pub(super) fn first_rate(lane: &LawSettings) -> Rate {
                if lane.exact {
                    return Dctcp::first_rate(lane);
                }
                match lane.law {
                    $(RateLaw::$law => $module::$state::first_rate(lane),)+
                }
            }

            /// The rate once the first RTT is known, before any epoch was evaluated.
            pub(super) fn on_first_rtt(&self, lane: &LawSettings, rate: Rate, rtt_ns: u64) -> Rate {
                if lane.exact {
                    return self.dctcp.on_first_rtt(lane, rate, rtt_ns);
                }
                match lane.law {
                    $(RateLaw::$law => self.$module.on_first_rtt(lane, rate, rtt_ns),)+
                }
            }

            /// Skips slow start: the lane continues at a rate from elsewhere.
            pub(super) fn skip_start(&mut self, lane: &LawSettings) {
                if lane.exact {
                    return self.dctcp.skip_start();
                }
                match lane.law {
                    $(RateLaw::$law => self.$module.skip_start(),)+
                }
            }

            /// [`Self::on_epoch`], in the caller's function.
            fn dispatch_epoch(
                &mut self,
                lane: &LawSettings,
                rate: Rate,
                sample: &EpochSample,
            ) -> Rate {
                if lane.exact {
                    return self.dctcp.on_epoch(lane, rate, sample);
                }
                match lane.law {
                    $(RateLaw::$law => self.$module.on_epoch(lane, rate, sample),)+
                }
            }
        }
    };
}

// Number: variant(module::state), name, description.
rate_laws! {
    0: Paper(paper::Paper), "paper",
        "NetApprox, Eq. 2 and 3";
    1: Frugal(frugal::Frugal), "frugal",
        "the paper's law, with growth bounded by the delivery rate";
    2: Pi(pi::Pi), "pi",
        "proportional steps around the loss of small queues (experimental)";
    3: Tfrc(tfrc::Tfrc), "polite",
        "TFRC (RFC 5348), for networks without priority queues";
    4: None(none::NoLaw), "none",
        "line rate, as in ATP Base";
    5: Yield(yielding::Yield), "yield",
        "polite with few packets in flight, beside exact traffic";
}

impl RateLaw {
    /// The law for priority queues.
    pub const DEFAULT: Self = Self::Paper;
    /// The law for a network of which nothing is known: it may have one queue for all traffic.
    pub const UNKNOWN_NETWORK: Self = Self::Yield;
}

impl Default for RateLaw {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const _: () = assert!(size_of::<LawState>() == 168);

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
