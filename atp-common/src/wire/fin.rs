//! FIN and FIN-ACK: the end of a job or of a window, with counts.
//!
//! ```text
//! after the header: window (4), then once per group, 16 bytes:
//!     group (1) | zero (3) | messages (4) | needed (4) | delivered (4)
//! ```
//!
//! In FIN, *delivered* counts the messages with a receipt at the sender. In FIN-ACK it counts those
//! that the receiver has. A job of many groups needs several packets, so that each fits every path:
//! the *pages* of one *attempt*. The fields of each page's header are
//!
//! - message: the number of messages in all groups of all pages;
//! - index: the attempt's number (24 bits, wrapping);
//! - epoch: the page, counted from 0;
//! - count: the number of pages;
//! - slot: the same for all pages of an attempt. Every DATA packet sent before has a smaller one.
//!
//! FIN-ACK answers one page, and echoes these fields. Once the window has ended, it echoes attempt
//! and slot alone: flags and counts are then those of the end, and time that of the receiver's
//! RECEIPTs, in every answer.

/// The most groups of one page. With all headers, such a page fits a path MTU of 576 bytes.
pub const FIN_GROUPS_MAX: usize = 28;

/// The most pages, for 256 groups.
pub const FIN_PAGES_MAX: usize = 256usize.div_ceil(FIN_GROUPS_MAX);

const WINDOW_LEN: usize = 4;
const GROUP_LEN: usize = 16;

/// Bytes of the longest page, without the header.
pub const FIN_BODY_LEN_MAX: usize = WINDOW_LEN + FIN_GROUPS_MAX * GROUP_LEN;

/// The counts of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinGroup {
    /// The group's id.
    pub group: u8,
    /// N: messages of the group.
    pub messages: u32,
    /// `ceil(MSR * N)`.
    pub needed: u32,
    /// Delivered messages, as far as the writing side knows.
    pub delivered: u32,
}

/// The body of a FIN or FIN-ACK, borrowed from a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinBody<'a> {
    window: u32,
    groups: &'a [u8],
}

impl<'a> FinBody<'a> {
    /// Bytes of the body.
    pub const fn bytes(&self) -> usize {
        WINDOW_LEN + self.groups.len()
    }

    /// Bytes of a body with this many groups.
    pub const fn len(groups: usize) -> usize {
        WINDOW_LEN + groups * GROUP_LEN
    }

    /// The window that ends, counted from 0.
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// Reads a body: one to [`FIN_GROUPS_MAX`] groups in ascending order, with possible counts
    /// (`needed` and `delivered` at most `messages`) and zero padding.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (window, groups) = body.split_first_chunk::<WINDOW_LEN>()?;
        let number = groups.len() / GROUP_LEN;
        let complete =
            groups.len().is_multiple_of(GROUP_LEN) && (1..=FIN_GROUPS_MAX).contains(&number);
        let parsed = Self { window: u32::from_be_bytes(*window), groups };
        let possible = |g: FinGroup| g.needed <= g.messages && g.delivered <= g.messages;
        let padded = groups.chunks_exact(GROUP_LEN).all(|chunk| chunk[1..4] == [0; 3]);
        let ascending =
            parsed.groups().zip(parsed.groups().skip(1)).all(|(a, b)| a.group < b.group);
        (complete && padded && ascending && parsed.groups().all(possible)).then_some(parsed)
    }

    /// The groups, in the order in which they were written.
    pub fn groups(&self) -> impl Iterator<Item = FinGroup> + 'a {
        let be32 = |c: &[u8]| u32::from_be_bytes([c[0], c[1], c[2], c[3]]);
        self.groups.chunks_exact(GROUP_LEN).map(move |chunk| FinGroup {
            group: chunk[0],
            messages: be32(&chunk[4..8]),
            needed: be32(&chunk[8..12]),
            delivered: be32(&chunk[12..16]),
        })
    }

    /// Writes `groups` (ascending) into `out` and returns the length; `None` if they don't fit.
    pub fn write(out: &mut [u8], window: u32, groups: &[FinGroup]) -> Option<usize> {
        let len = Self::len(groups.len());
        if groups.is_empty() || groups.len() > FIN_GROUPS_MAX {
            return None;
        }
        let (head, rest) = out.get_mut(..len)?.split_at_mut(WINDOW_LEN);
        head.copy_from_slice(&window.to_be_bytes());
        for (chunk, group) in rest.chunks_exact_mut(GROUP_LEN).zip(groups) {
            chunk[0] = group.group;
            chunk[1..4].fill(0);
            chunk[4..8].copy_from_slice(&group.messages.to_be_bytes());
            chunk[8..12].copy_from_slice(&group.needed.to_be_bytes());
            chunk[12..16].copy_from_slice(&group.delivered.to_be_bytes());
        }
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse__reads_what_write_writes(
            window: u32,
            counts in proptest::collection::btree_map(any::<u8>(), any::<(u32, u32, u32)>(), 1..=FIN_GROUPS_MAX)
        ) {
            let groups: Vec<_> = counts.into_iter().map(|(group, (messages, a, b))| FinGroup {
                group, messages, needed: a.min(messages), delivered: b.min(messages),
            }).collect();
            let mut out = [0xff; FIN_BODY_LEN_MAX];
            let len = FinBody::write(&mut out, window, &groups).unwrap();
            let body = FinBody::parse(&out[..len]).unwrap();
            prop_assert_eq!(body.window(), window);
            prop_assert!(body.groups().eq(groups.iter().copied()));
        }

        // Small numbers, so that some inputs have possible counts in ascending order.
        #[test]
        fn parse__accepts_possible_counts_only(
            groups in proptest::collection::vec((0u8..9, 0u32..4, 0u32..4, 0u32..4), 1..4),
            missing in 0usize..20,
        ) {
            let mut body = vec![0; WINDOW_LEN];
            for (group, messages, needed, delivered) in &groups {
                body.extend([*group, 0, 0, 0]);
                body.extend([messages, needed, delivered].into_iter().flat_map(|n| n.to_be_bytes()));
            }
            let possible = groups.iter().all(|(_, messages, a, b)| a.max(b) <= messages);
            let ascending = groups.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let parsed = FinBody::parse(&body).map(|parsed| parsed.groups().count());
            prop_assert_eq!(parsed, (possible && ascending).then_some(groups.len()));
            body.truncate(body.len() - missing);
            prop_assert!(FinBody::parse(&body).is_none() || missing % GROUP_LEN == 0);
        }
    }

    #[test]
    fn parse__rejects_padding_that_is_not_zero() {
        let groups = [1, 2].map(|group| FinGroup { group, ..FinGroup::default() });
        let mut out = [0; WINDOW_LEN + 2 * GROUP_LEN];
        assert_eq!(FinBody::write(&mut out, 0, &groups), Some(out.len()));
        assert!(FinBody::parse(&out).is_some());
        for at in [1, 2, 3, 17, 18, 19] {
            let mut wrong = out;
            wrong[WINDOW_LEN + at] = 1;
            assert_eq!(FinBody::parse(&wrong), None, "byte {at}");
        }
    }

    #[test]
    fn pages__of_all_groups_fit_the_smallest_mtu() {
        const { assert!(FIN_PAGES_MAX * FIN_GROUPS_MAX >= 256) };
        const { assert!(FIN_BODY_LEN_MAX + super::super::HEADER_LEN + 8 + 40 <= 576) };
    }
}
