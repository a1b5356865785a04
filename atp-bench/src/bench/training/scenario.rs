//! The networks on which trainings are measured, and their exact traffic.

use serde::{Deserialize, Serialize};
use testbed::Options;

use crate::job::exact::{self, Load};
use switch_profiles::Profile;

/// The rate of every port and NIC, but that of a slow rank.
const RATE_BITS_PER_S: u64 = 50_000_000;
/// A slow link's rate is this part of the others'.
const SLOWER: u64 = 4;
/// The share of the last rank's port that light exact traffic uses.
const LIGHT_LOAD: f64 = 0.1;
/// The load of the bursts on the last rank's port. With bursts of this size it makes p99 of a step
/// 3.0 times its p50: gloo, `mlp`, two ranks, 600 steps of six seeds.
const BURSTS_LOAD: f64 = 0.1;
/// The requests of a burst: 0.6 MB, which takes the port for a tenth of a second.
const BURST_REQUESTS: u32 = 40;
/// Hosts beside those of the ranks: one sends light exact traffic, one bursts.
const OTHER_HOSTS: usize = 2;

/// A network, and the traffic on it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// All links have 50 Mbit/s
    Even,
    /// The last rank's link has a quarter of that
    SlowLink,
    /// Bursts of exact traffic pass the last rank's port
    Bursts,
}

impl Scenario {
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Even => "even",
            Scenario::SlowLink => "slow-link",
            Scenario::Bursts => "bursts",
        }
    }

    /// A title for a table.
    pub fn title(self) -> &'static str {
        match self {
            Scenario::Even => "every link 50 Mbit/s",
            Scenario::SlowLink => "the last rank behind 12.5 Mbit/s",
            Scenario::Bursts => "50 Mbit/s, bursts of exact traffic",
        }
    }

    /// The network: the hosts of the first ranks, two others, and the last rank as the receiver.
    pub fn network(self, ranks: usize) -> anyhow::Result<Options> {
        Ok(Options {
            senders: ranks.saturating_sub(1) + OTHER_HOSTS,
            rate_bits_per_s: RATE_BITS_PER_S,
            nic_rate_bits_per_s: RATE_BITS_PER_S,
            receiver_rate_bits_per_s: Some(self.last_rate_bits_per_s()),
            profile: Profile::default(),
        })
    }

    fn last_rate_bits_per_s(self) -> u64 {
        match self {
            Scenario::SlowLink => RATE_BITS_PER_S / SLOWER,
            Scenario::Even | Scenario::Bursts => RATE_BITS_PER_S,
        }
    }

    /// The exact requests whose times are reported.
    pub fn light(self) -> Load {
        self.load(LIGHT_LOAD, 1)
    }

    /// The bursts, if there are any.
    pub fn bursts(self) -> Option<Load> {
        (self == Scenario::Bursts).then(|| self.load(BURSTS_LOAD, BURST_REQUESTS))
    }

    fn load(self, load: f64, at_once: u32) -> Load {
        let rate_bytes_per_s = self.last_rate_bits_per_s() / 8;
        Load { requests_per_s: exact::requests_per_s(load, rate_bytes_per_s), at_once }
    }
}
