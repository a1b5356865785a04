//! The size of a figure's or map's runs: complete, or quick.

use crate::{experiment::NetworkSpec, net::topology::LeafSpine};
use serde::{Deserialize, Serialize};

/// The size of the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The paper's network, and by default three seeds.
    #[default]
    Full,
    /// A network of 12 hosts and by default one seed, to check in seconds that everything runs.
    Quick,
}

impl Extent {
    /// The suffix of a title.
    pub const fn note(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Quick => " (quick: a small network, a fifth of the duration)",
        }
    }

    /// The number of seeds, unless another number is chosen.
    pub const fn default_seeds(self) -> u64 {
        match self {
            Self::Full => 3,
            Self::Quick => 1,
        }
    }

    pub(super) fn network_spec(self) -> NetworkSpec {
        match self {
            Self::Full => NetworkSpec::default(),
            Self::Quick => {
                NetworkSpec::LeafSpine(LeafSpine { leaves: 3, hosts_per_leaf: 4, spines: 2 })
            }
        }
    }

    pub(super) fn hosts(self) -> u32 {
        match self {
            Self::Full => 192,
            Self::Quick => 12,
        }
    }

    pub(super) fn shortened_us(self, duration_us: u64) -> u64 {
        match self {
            Self::Full => duration_us,
            Self::Quick => duration_us / 5,
        }
    }
}
