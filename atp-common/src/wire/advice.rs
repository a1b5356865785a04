//! Receiver advice: the rate at which a receiving host can take a lane's data, in the message field
//! of a RECEIPT.

/// Bytes per second of one unit on the wire.
const UNIT_BYTES_PER_S: u64 = 64;

/// Advice to one lane: bytes per second of its DATA on the wire, all frames counted as
/// [`Advice::wire_bytes`] does. It has units of 64 bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Advice(u32);

impl Advice {
    /// No advice.
    pub const NONE: Self = Self(0);

    /// Advice of this rate, rounded down, but at least one unit. It saturates at 2 Tbit/s.
    pub const fn of(bytes_per_s: u64) -> Self {
        let units = bytes_per_s / UNIT_BYTES_PER_S;
        match units {
            0 => Self(1),
            _ if units > u32::MAX as u64 => Self(u32::MAX),
            _ => Self(units as u32),
        }
    }

    /// From the message field of a RECEIPT.
    pub const fn from_wire(message: u32) -> Self {
        Self(message)
    }

    /// The message field of a RECEIPT.
    pub const fn to_wire(self) -> u32 {
        self.0
    }

    /// The rate; 0 for no advice.
    pub const fn bytes_per_s(self) -> u64 {
        self.0 as u64 * UNIT_BYTES_PER_S
    }

    /// The bytes that an IP packet of `ip_bytes` takes on an Ethernet line: 14 of header, 4 of
    /// checksum, 20 of preamble and gap. Shorter frames are padded to 64 bytes.
    #[inline(always)]
    pub const fn wire_bytes(ip_bytes: u32) -> u32 {
        let bytes = ip_bytes + 38;
        if bytes < 84 { 84 } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of__rounds_down_to_units(bytes_per_s in 64u64..1 << 38) {
            let advice = Advice::of(bytes_per_s);
            prop_assert_eq!(Advice::from_wire(advice.to_wire()), advice);
            let read = advice.bytes_per_s();
            prop_assert!(read <= bytes_per_s && bytes_per_s - read < 64);
        }
    }

    #[test]
    fn of__is_never_none_and_saturates() {
        assert_eq!(Advice::of(0), Advice(1));
        assert_eq!(Advice::of(u64::MAX), Advice(u32::MAX));
        assert_eq!(Advice::NONE.bytes_per_s(), 0);
    }

    #[test]
    fn wire_bytes__of_short_and_full_packets() {
        assert_eq!((Advice::wire_bytes(28), Advice::wire_bytes(1_500)), (84, 1_538));
    }
}
