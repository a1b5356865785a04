//! RECEIPT: tells the sender which messages are complete in the receiving library.
//!
//! ```text
//! after the header: cumulative (4) | delivered (4) | packets arrived (4) | words, 12 bytes each:
//!                   group (1) | word index (3) |
//!                   bits (8): message 64 * index + i of the group is complete if bit i is set
//! ```
//!
//! *cumulative* applies to the header's group; *delivered* counts all groups of the current window.
//! The header's epoch field holds the receiver's [`super::Features`]. Its time field holds the
//! receiver's clock when it got the run's first packet, which tells its process from another one.
//!
//! Receipts carry state, not events: a word has the state of all its 64 messages, and every receipt
//! repeats words of earlier ones. A lost receipt therefore costs nothing.

/// The most words of a body. With header and UDP/IPv6 it stays below 1,280 bytes.
pub const RECEIPT_WORDS_MAX: usize = 96;

/// The greatest message id that a receipt can name: 24 bits of word index.
pub const RECEIPT_MESSAGE_MAX: u32 = (64 << 24) - 1;

const FIXED_LEN: usize = 12;
const WORD_LEN: usize = 12;

/// The state of 64 messages of a group, from `64 * index` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptWord {
    /// The group.
    pub group: u8,
    /// The index of the word; 24 bits.
    pub index: u32,
    /// Bit `i` set: message `64 * index + i` is complete.
    pub bits: u64,
}

/// A receipt's body, borrowed from a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptBody<'a> {
    /// Every message below this id, of the header's group, is complete.
    pub cumulative: u32,
    /// Complete messages in all groups of the current window.
    pub delivered: u32,
    /// DATA packets that arrived, duplicates included, wrapping.
    pub packets_arrived: u32,
    words: &'a [u8],
}

impl<'a> ReceiptBody<'a> {
    /// Reads a body; `None` if its length is not that of a receipt.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (fixed, words) = body.split_at_checked(FIXED_LEN)?;
        if !words.len().is_multiple_of(WORD_LEN) || words.len() / WORD_LEN > RECEIPT_WORDS_MAX {
            return None;
        }
        Some(Self {
            cumulative: be32(fixed, 0)?,
            delivered: be32(fixed, 4)?,
            packets_arrived: be32(fixed, 8)?,
            words,
        })
    }

    /// The words, in the order in which they were written.
    pub fn words(&self) -> impl Iterator<Item = ReceiptWord> + 'a {
        self.words.chunks_exact(WORD_LEN).map(|chunk| ReceiptWord {
            group: chunk[0],
            index: u32::from_be_bytes([0, chunk[1], chunk[2], chunk[3]]),
            bits: u64::from_be_bytes([
                chunk[4], chunk[5], chunk[6], chunk[7], chunk[8], chunk[9], chunk[10], chunk[11],
            ]),
        })
    }

    /// Writes a body into `out` and returns its length; `None` if it doesn't fit or has too many
    /// words.
    pub fn write(
        out: &mut [u8],
        cumulative: u32,
        delivered: u32,
        packets_arrived: u32,
        words: &[ReceiptWord],
    ) -> Option<usize> {
        let len = FIXED_LEN + words.len() * WORD_LEN;
        if words.len() > RECEIPT_WORDS_MAX {
            return None;
        }
        let out = out.get_mut(..len)?;
        let (fixed, rest) = out.split_at_mut(FIXED_LEN);
        fixed[0..4].copy_from_slice(&cumulative.to_be_bytes());
        fixed[4..8].copy_from_slice(&delivered.to_be_bytes());
        fixed[8..12].copy_from_slice(&packets_arrived.to_be_bytes());
        for (chunk, word) in rest.chunks_exact_mut(WORD_LEN).zip(words) {
            chunk[..4].copy_from_slice(&word.index.to_be_bytes());
            chunk[0] = word.group;
            chunk[4..].copy_from_slice(&word.bits.to_be_bytes());
        }
        Some(len)
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse__reads_what_write_writes(
            (cumulative, delivered, arrived) in any::<(u32, u32, u32)>(),
            words in proptest::collection::vec(any::<(u8, u32, u64)>(), 0..=RECEIPT_WORDS_MAX),
        ) {
            let word = |(group, index, bits)| ReceiptWord { group, index: index >> 8, bits };
            let words: Vec<_> = words.into_iter().map(word).collect();
            let mut out = [0; 1280];
            let len = ReceiptBody::write(&mut out, cumulative, delivered, arrived, &words).unwrap();
            let body = ReceiptBody::parse(&out[..len]).unwrap();
            prop_assert_eq!(body.cumulative, cumulative);
            prop_assert_eq!(body.delivered, delivered);
            prop_assert_eq!(body.packets_arrived, arrived);
            prop_assert!(body.words().eq(words.iter().copied()));
        }

        #[test]
        fn parse__rejects_wrong_lengths(bytes in proptest::collection::vec(any::<u8>(), 0..1400)) {
            let fits = bytes.len() >= 12 && bytes.len() % 12 == 0
                && bytes.len() / 12 - 1 <= RECEIPT_WORDS_MAX;
            prop_assert_eq!(ReceiptBody::parse(&bytes).is_some(), fits);
        }
    }
}
