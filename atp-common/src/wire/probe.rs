//! PROBE and PROBE-ACK: acknowledgment on demand.
//!
//! DATA with the flag NO_ACK gets no ACK: the receiving datapath only records it. From time to time
//! the sender requests the record of 256 slots with a PROBE. The answer is the same packet, filled
//! in place, so it needs no memory and no extra length. Its contents are absolute (delivery bits,
//! counts since the epoch began), so a duplicate or late answer changes nothing.
//!
//! ```text
//! header: slot     the first slot of the 256, a multiple of 32
//!         message  the slot after the last NO_ACK packet of the lane
//!         index    the probe's number
//!         count    0
//!         epoch    the lane's
//! body:   8 words of 32 delivery bits, lowest slot in the lowest bit
//!         4 times: epoch (16 bits), zero (16 bits), arrived, marked (32 bits each)
//! ```

use bytemuck::{Pod, Zeroable};

use super::{HEADER_LEN, Header};

/// Words of 32 delivery bits in an answer.
pub const PROBE_WORDS: usize = 8;
/// Slots that one PROBE covers.
pub const PROBE_SLOTS: u32 = 32 * PROBE_WORDS as u32;
/// Epochs whose counts are in an answer.
pub const PROBE_EPOCHS: usize = 4;
/// Words of 32 bits in the body of a PROBE.
pub const PROBE_BODY_WORDS: usize = PROBE_WORDS + COUNT_WORDS * PROBE_EPOCHS;
/// UDP payload of a PROBE and of its answer, bytes.
pub const PROBE_LEN: usize = HEADER_LEN + size_of::<ProbeBody>();

/// The body of a PROBE (all zero) and of its answer, in words as they are in the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ProbeBody([u32; PROBE_BODY_WORDS]);

/// Words of an epoch's count in a body.
pub const COUNT_WORDS: usize = 3;

const _: () = assert!(size_of::<ProbeBody>() == 80);

/// The arrivals of one epoch of a lane, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochArrivals {
    /// The epoch, as the packets' headers named it.
    pub epoch: u16,
    /// Packets that arrived, each slot once.
    pub arrived: u32,
    /// Packets that arrived with the ECN mark; a part of `arrived`.
    pub marked: u32,
}

impl EpochArrivals {
    /// The three words of the count in a body.
    #[inline(always)]
    pub const fn words(&self) -> [u32; COUNT_WORDS] {
        [(self.epoch as u32) << 16, self.arrived, self.marked]
    }
}

impl ProbeBody {
    /// Reads the bytes after the header of a PROBE or PROBE-ACK; `None` if their length is wrong.
    pub fn parse(body: &[u8]) -> Option<Self> {
        bytemuck::try_pod_read_unaligned(body).ok()
    }

    /// The bytes of the body.
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }

    /// The delivery bits of the `index`-th 32 slots.
    #[inline(always)]
    pub const fn word(&self, index: usize) -> u32 {
        u32::from_be(self.0[index])
    }

    /// Sets a word of the body. The first eight are delivery bits; each count has three.
    #[inline(always)]
    pub const fn set_word(&mut self, index: usize, bits: u32) {
        self.0[index] = bits.to_be();
    }

    /// The `index`-th count; `None` if it is empty.
    #[inline(always)]
    pub const fn epoch(&self, index: usize) -> Option<EpochArrivals> {
        let at = PROBE_WORDS + COUNT_WORDS * index;
        let count = EpochArrivals {
            epoch: (u32::from_be(self.0[at]) >> 16) as u16,
            arrived: u32::from_be(self.0[at + 1]),
            marked: u32::from_be(self.0[at + 2]),
        };
        if count.arrived == 0 { None } else { Some(count) }
    }

    /// Sets the `index`-th count.
    #[inline(always)]
    pub const fn set_epoch(&mut self, index: usize, count: EpochArrivals) {
        let at = PROBE_WORDS + COUNT_WORDS * index;
        let [epoch, arrived, marked] = count.words();
        self.0[at] = epoch.to_be();
        self.0[at + 1] = arrived.to_be();
        self.0[at + 2] = marked.to_be();
    }
}

/// A PROBE with this header and a zero body.
pub fn probe_packet(header: &Header) -> [u8; PROBE_LEN] {
    let mut packet = [0; PROBE_LEN];
    packet[..HEADER_LEN].copy_from_slice(header.as_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse__returns_what_was_set(
            words: [u32; PROBE_WORDS],
            counts: [(u16, u32, u32); PROBE_EPOCHS],
        ) {
            let epochs = counts.map(|(epoch, arrived, marked)| EpochArrivals { epoch, arrived, marked });
            let mut body = ProbeBody::default();
            for (i, word) in words.iter().enumerate() {
                body.set_word(i, *word);
            }
            for (i, count) in epochs.iter().enumerate() {
                body.set_epoch(i, *count);
            }
            let read = ProbeBody::parse(body.as_bytes()).unwrap();
            for (i, word) in words.iter().enumerate() {
                prop_assert_eq!(read.word(i), *word);
            }
            for (i, count) in epochs.iter().enumerate() {
                prop_assert_eq!(read.epoch(i), (count.arrived > 0).then_some(*count));
            }
        }

        #[test]
        fn parse__accepts_exactly_its_length(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let right = bytes.len() == PROBE_LEN - HEADER_LEN;
            let body = ProbeBody::parse(&bytes);
            prop_assert_eq!(body.is_some(), right);
            if let Some(body) = body {
                prop_assert_eq!(body.as_bytes(), &bytes[..]);
            }
        }
    }
}
