//! Values with a range, and lists.

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use std::{fmt, time::Duration};

/// A minimal sampling rate, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Msr(pub f64);

impl TryFrom<f64> for Msr {
    type Error = String;

    fn try_from(msr: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&msr) {
            true => Ok(Self(msr)),
            false => Err(format!("the MSR {msr} isn't between 0 and 1")),
        }
    }
}

/// A share above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(pub f64);

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        match share > 0.0 && share < 1.0 {
            true => Ok(Self(share)),
            false => Err(format!("{share} isn't above 0 and below 1")),
        }
    }
}

/// One text, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers(pub Vec<String>);

impl<'de> Deserialize<'de> for Peers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Wanted;

        impl<'de> Visitor<'de> for Wanted {
            type Value = Peers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("HOST:PORT, or a list of them")
            }

            fn visit_str<E: de::Error>(self, peer: &str) -> Result<Peers, E> {
                Ok(Peers(vec![peer.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Peers, A::Error> {
                let mut peers = Vec::new();
                while let Some(peer) = list.next_element()? {
                    peers.push(peer);
                }
                Ok(Peers(peers))
            }
        }

        deserializer.deserialize_any(Wanted)
    }
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// A number that is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct Positive(pub u64);

impl TryFrom<u64> for Positive {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        match number {
            0 => Err("0 isn't allowed: give at least 1".to_owned()),
            number => Ok(Self(number)),
        }
    }
}

/// A time such as `500ms`, `10s`, `5m` or `1h`, more than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` isn't a time: use 500ms, 10s, 5m or 1h");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        match number.checked_mul(unit_ms) {
            None | Some(0) => Err(wrong()),
            Some(ms) => Ok(Self(Duration::from_millis(ms))),
        }
    }
}

impl Span {
    /// Milliseconds.
    pub fn ms(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A number of bytes such as `64MiB`, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` isn't a size: use 64KiB, 16MiB or 1GiB");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = match unit {
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(unit).filter(|bytes| *bytes > 0).map(Self).ok_or_else(wrong)
    }
}
