//! The packet mark by which the egress program recognizes the clones that become ACKs.

use std::ops::RangeInclusive;

/// The values from which the daemon draws its mark.
///
/// The mark lives only from the ingress program to the egress program of one device, which run
/// before all others there. But egress takes any packet with the mark for a clone, so no other
/// program may use it for packets that leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckMark(RangeInclusive<u32>);

impl AckMark {
    /// The default. It has no bit of the marks below, which are those of
    /// <https://github.com/fwmark/registry> that are part of larger masks.
    ///
    /// | software | bits or value |
    /// |---|---|
    /// | Cilium | a value in 0xf00 (`MagicMarkHostMask`), and then others anywhere |
    /// | CNI portmap | 0x2000 |
    /// | Kubernetes (kube-proxy) | 0x4000, 0x8000 |
    /// | Tailscale | 0xff0000 |
    /// | wg-quick | the value 0xca6c |
    ///
    /// Calico takes bits from 0xffff0000, the lowest first. Its installations that use the highest
    /// eight need another range.
    pub const DEFAULT: &str = "0xa7000001..0xa70000ff";

    /// Parses `VALUE`, or `A..B` with both ends, decimal or hexadecimal.
    ///
    /// # Errors
    /// One sentence: the text isn't a number or a range, or the range is empty or holds 0, the mark
    /// of packets without one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let range = number(from)?..=number(to)?;
        if range.is_empty() {
            return Err(format!("the range {text:?} is empty: give the lower end first"));
        }
        if range.contains(&0) {
            return Err("0 is the mark of packets without a mark: give another value".into());
        }
        Ok(Self(range))
    }

    /// A random value of the range.
    pub fn draw(&self) -> u32 {
        rand::random_range(self.0.clone())
    }
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| {
        format!("{text:?} is not a mark: give a number of 32 bits, such as 0xa7000001")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse__default_has_no_bit_of_a_known_mark() {
        let AckMark(range) = AckMark::parse(AckMark::DEFAULT).unwrap();
        for mark in range {
            for known in [0xf00, 0x2000, 0xc000, 0xff_0000] {
                assert_eq!(mark & known, 0, "{mark:#x} has bits of {known:#x}");
            }
            assert_ne!(mark, 0xca6c);
        }
    }

    #[test]
    fn parse__refuses_zero_and_nonsense() {
        for text in ["0", "0x0", "0..7", "7..3", "", "0x", "..", "1..", "mark", "0x100000000", "-1"]
        {
            assert!(AckMark::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn draw__stays_in_the_range() {
        assert_eq!(AckMark::parse("0x10").unwrap().draw(), 16);
        let range = AckMark::parse("5..6").unwrap();
        assert!((0..50).all(|_| (5..=6).contains(&range.draw())));
    }
}
