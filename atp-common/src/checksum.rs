//! Computes the Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! eBPF and its tests share this code.

/// The checksum after a 16-bit word of the covered bytes changed from `old` to `new`
/// (RFC 1624, Eq. 3: `HC' = ~(~HC + ~m + m')`). All values are read from the packet in the same
/// byte order.
pub const fn replace_word(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    !fold(sum as u64)
}

/// Folds a one's-complement sum to 16 bits.
pub const fn fold(sum: u64) -> u16 {
    // A 64-bit sum needs at most four folds: 48, 33, 18 and 17 bits are left after each.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// The sum of the big-endian words of `bytes`, not yet folded. An odd last byte is padded with a
/// zero.
pub fn sum(bytes: &[u8]) -> u64 {
    let mut total = 0;
    let mut words = bytes.chunks_exact(2);
    for word in &mut words {
        total += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = words.remainder() {
        total += u64::from(*last) << 8;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn replace_word__same_as_a_new_sum(
            mut bytes in proptest::collection::vec(any::<u8>(), 20),
            at in 0usize..10,
            new: u16,
        ) {
            let before = !fold(sum(&bytes));
            let old = u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
            bytes[2 * at..2 * at + 2].copy_from_slice(&new.to_be_bytes());
            let after = !fold(sum(&bytes));
            let updated = replace_word(before, old, new);
            // 0 and 0xffff are the same number in one's complement.
            prop_assert!(updated == after || (updated ^ after) == 0xffff && (after == 0 || updated == 0));
        }
    }
}
