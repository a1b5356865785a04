//! Features that a scheme's authors didn't give it. Each isolates one cause of a difference between
//! schemes.

use super::unsent::Order;
use std::fmt;

/// A feature of a scheme's senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Senders begin the shortest waiting message first: ATP's choice of messages (MRDF).
    ShortestFirst,
    /// Switches serve the scheme's data after exact traffic, as they do with ATP's.
    LowPriority,
    /// A host's next transfer to the same host in an all-reduce continues the connection: it keeps
    /// window, marked share and RTT.
    Persistent,
}

impl Feature {
    /// All features, in the order of names and help texts.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::ShortestFirst, "shortest-first"),
        (Self::LowPriority, "low-priority"),
        (Self::Persistent, "persistent"),
    ];

    /// A phrase for help texts.
    pub const fn description(self) -> &'static str {
        match self {
            Self::ShortestFirst => "begins the shortest message first, as ATP does",
            Self::LowPriority => "has a switch queue below exact traffic's, as ATP has",
            Self::Persistent => "keeps its window between steps of an all-reduce",
        }
    }

    /// The name, which may follow a scheme's.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|known| known.0 == self).map_or("?", |known| known.1)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u8);

impl Features {
    /// Parses names, which must be among those of `possible`.
    ///
    /// # Errors
    /// The reason, if a name is unknown or repeated.
    pub fn from_words(words: &[&str], possible: &[Feature]) -> Result<Self, String> {
        let mut features = Self::default();
        for word in words {
            let known = possible.iter().find(|feature| feature.name() == *word);
            let feature = known.copied().ok_or_else(|| match possible {
                [] => format!("{word:?} is too much: this scheme has no features to choose"),
                _ => {
                    let names: Vec<_> = possible.iter().map(|feature| feature.name()).collect();
                    format!("{word:?} is not a feature: choose from {}", names.join(", "))
                }
            })?;
            if features.has(feature) {
                return Err(format!("{word:?} is there twice"));
            }
            features.0 |= feature.bit();
        }
        Ok(features)
    }

    /// Whether the set contains `feature`.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// The order in which senders begin their messages.
    pub const fn order(self) -> Order {
        if self.has(Feature::ShortestFirst) { Order::ShortestFirst } else { Order::Arrival }
    }
}

/// The names of the features, each after a colon.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut here = Feature::ALL.iter().filter(|(feature, _)| self.has(*feature));
        here.try_for_each(|(_, name)| write!(f, ":{name}"))
    }
}
