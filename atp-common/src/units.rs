//! Types for quantities that must not be mixed up: shares, minimal sampling rates, sending rates.

use bytemuck::{Pod, Zeroable};

/// A boolean as plain data: the state of a law may lie in memory shared with other processes, where
/// any bytes must be valid. It has eight bytes, so that no padding is needed around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct PodBool(u64);

impl PodBool {
    /// False.
    pub const FALSE: Self = Self(0);
    /// True.
    pub const TRUE: Self = Self(1);

    /// Whether it is true: any number but 0.
    pub const fn is_true(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for PodBool {
    fn from(value: bool) -> Self {
        if value { Self::TRUE } else { Self::FALSE }
    }
}

/// A share between 0 and 1 in Q16 fixed point: a loss rate, a target loss rate, or a mark rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Share(u32);

impl Share {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// One.
    pub const ONE: Self = Self(1 << 16);

    /// A share from its Q16 value; more than one becomes one.
    pub const fn from_q16(q16: u32) -> Self {
        if q16 > Self::ONE.0 { Self::ONE } else { Self(q16) }
    }

    /// The Q16 value, 0 to 65,536.
    pub const fn q16(self) -> u32 {
        self.0
    }

    /// `part / total`, rounded down, at most one; zero if both are 0.
    ///
    /// Exact up to a total of 2^48: the shift below would overflow beyond it.
    pub const fn of(part: u64, total: u64) -> Self {
        if total == 0 {
            Self::ZERO
        } else if part >= total {
            Self::ONE
        } else {
            Self(((part << 16) / total) as u32)
        }
    }

    /// One minus this share.
    pub const fn complement(self) -> Self {
        Self(Self::ONE.0 - self.0)
    }
}

/// The minimal sampling rate of a group (MSR, NetApprox §3.3.2) in parts per billion.
///
/// It is decimal on purpose: 0.8 of ten messages is eight, while a binary fraction would ask for
/// nine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Msr(u32);

impl Msr {
    const UNIT: u32 = 1_000_000_000;

    /// Every message is needed: an exact group.
    pub const EXACT: Self = Self(Self::UNIT);
    /// No message is needed.
    pub const NONE: Self = Self(0);
    /// The highest rate of a group that isn't exact.
    pub const BELOW_EXACT: Self = Self(Self::UNIT - 1);

    /// From parts per billion; `None` above one.
    pub const fn from_parts_per_billion(parts: u32) -> Option<Self> {
        if parts > Self::UNIT { None } else { Some(Self(parts)) }
    }

    /// Parts per billion, 0 to 1,000,000,000.
    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }

    /// Whether no message may be lost.
    pub const fn is_exact(self) -> bool {
        self.0 == Self::UNIT
    }

    /// `ceil(MSR * N)`: how many of `total` messages must be delivered.
    ///
    /// No overflow: 2^32 messages times 10^9 parts stay below 2^62.
    pub const fn needed(self, total: u32) -> u32 {
        let parts = total as u64 * self.0 as u64;
        parts.div_ceil(Self::UNIT as u64) as u32
    }

    /// `(1 - MSR) * N` in Q16 messages: how many of `total` may be lost.
    pub const fn slack_q16(self, total: u32) -> u64 {
        let parts = total as u64 * (Self::UNIT - self.0) as u64;
        let integer = parts / Self::UNIT as u64;
        let rest = parts % Self::UNIT as u64;
        (integer << 16) + (rest << 16) / Self::UNIT as u64
    }

    /// `1 - MSR` as a share, rounded down.
    pub const fn slack_share(self) -> Share {
        Share::of((Self::UNIT - self.0) as u64, Self::UNIT as u64)
    }
}

/// A sending rate in bytes per second, headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Rate(u64);

impl Rate {
    /// 400 Gbit/s: the highest rate that every law is tested with.
    pub const MAX: Self = Self(50_000_000_000);

    /// A rate in bytes per second; anything above 400 Gbit/s becomes 400 Gbit/s.
    pub const fn from_bytes_per_s(bytes_per_s: u64) -> Self {
        if bytes_per_s > Self::MAX.0 { Self::MAX } else { Self(bytes_per_s) }
    }

    /// Bytes per second.
    pub const fn bytes_per_s(self) -> u64 {
        self.0
    }

    /// `bytes` in `duration_ns`; less than a microsecond counts as one.
    ///
    /// No overflow: bytes are limited to 2^44, which times 10^6 stays below 2^64. The duration is
    /// rounded down to microseconds.
    pub const fn of(bytes: u64, duration_ns: u64) -> Self {
        let bytes = if bytes > 1 << 44 { 1 << 44 } else { bytes };
        let us = duration_ns / 1_000;
        let us = if us == 0 { 1 } else { us };
        Self::from_bytes_per_s(bytes * 1_000_000 / us)
    }

    /// The time that `bytes` take at this rate, in nanoseconds. A rate of zero counts as one byte
    /// per second. No overflow: 2^34 bytes times 10^9 stay below 2^64.
    pub const fn duration_ns(self, bytes: u32) -> u64 {
        let rate = if self.0 == 0 { 1 } else { self.0 };
        bytes as u64 * 1_000_000_000 / rate
    }

    /// How many bytes fit in `duration_ns` at this rate, at most 2^63.
    ///
    /// The duration is rounded down to microseconds, and limited to a minute: 400 Gbit/s times an
    /// hour would overflow (5 * 10^10 * 3.6 * 10^9 = 1.8 * 10^20 > 2^64).
    pub const fn bytes_in(self, duration_ns: u64) -> u64 {
        let us = duration_ns / 1_000;
        let us = if us > 60_000_000 { 60_000_000 } else { us };
        self.0 * us / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn msr__needed_is_decimal() {
        let msr = Msr::from_parts_per_billion(800_000_000).unwrap();
        assert_eq!(msr.needed(10), 8);
        assert_eq!(msr.needed(11), 9);
        assert_eq!(Msr::EXACT.needed(u32::MAX), u32::MAX);
        assert_eq!(Msr::from_parts_per_billion(1_000_000_001), None);
    }

    proptest! {
        #[test]
        fn rate__of_matches_the_quotient(bytes in 0u64..1 << 44, duration_ns in 1_000_000u64..1 << 50) {
            let expected = (bytes as f64 * 1e9 / duration_ns as f64).min(5e10);
            let found = Rate::of(bytes, duration_ns).bytes_per_s() as f64;
            prop_assert!((found - expected).abs() <= 1.0 + expected * 0.0011, "{found} {expected}");
        }

        #[test]
        fn msr__slack_and_need_cover_the_total(total: u32, parts in 0..=1_000_000_000u32) {
            let msr = Msr::from_parts_per_billion(parts).unwrap();
            let reference = total as f64 * (1.0 - f64::from(parts) / 1e9) * 65536.0;
            prop_assert!((msr.slack_q16(total) as f64 - reference).abs() <= 1.0 + reference * 1e-12);
            let slack_messages = (msr.slack_q16(total) >> 16) as u32;
            prop_assert_eq!(msr.needed(total), total - slack_messages);
        }

        #[test]
        fn share__of_matches_the_quotient(part in 0..1u64 << 48, total in 1..1u64 << 48) {
            let reference = (part as f64 / total as f64).min(1.0);
            let share = f64::from(Share::of(part, total).q16()) / 65536.0;
            prop_assert!(share <= reference + 1e-9 && reference - share <= 1.0 / 65536.0 + 1e-9);
        }

        #[test]
        fn rate__duration_and_bytes_agree(rate in 1_000u64..=50_000_000_000, bytes in 1u32..1 << 20) {
            let rate = Rate::from_bytes_per_s(rate);
            let duration_ns = rate.duration_ns(bytes);
            prop_assume!(duration_ns < 60_000_000_000);
            let back = rate.bytes_in(duration_ns);
            // One microsecond of truncation, in bytes, and one byte of each division.
            prop_assert!(back <= u64::from(bytes));
            prop_assert!(u64::from(bytes) - back <= rate.bytes_per_s() / 1_000_000 + 2);
        }
    }
}
