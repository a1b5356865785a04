//! FIN and FIN-ACK: the end of a job, with counts.
//!
//! ```text
//! after the header, once per group, 16 bytes:
//!     group (1) | zero (3) | messages (4) | needed (4) | delivered (4)
//! ```
//!
//! In FIN, *delivered* is what the sender has receipts for; in FIN-ACK, what the receiver has. The
//! message field of the header holds how many message ids were used, so that the receiver can name
//! every message that it never saw.

/// The most groups that one FIN carries.
pub const FIN_GROUPS_MAX: usize = 64;

const GROUP_LEN: usize = 16;

/// The counts of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinGroup {
    /// The group's id.
    pub group: u8,
    /// N: messages of the group.
    pub messages: u32,
    /// `ceil(MSR * N)`.
    pub needed: u32,
    /// Messages known to be delivered by the side that writes.
    pub delivered: u32,
}

/// The body of a FIN or FIN-ACK, read from a payload that it borrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinBody<'a>(&'a [u8]);

impl<'a> FinBody<'a> {
    /// Bytes of the body.
    pub const fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Reads a body: one to [`FIN_GROUPS_MAX`] groups whose counts can be true
    /// (`needed` and `delivered` at most `messages`).
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let groups = body.len() / GROUP_LEN;
        let whole = body.len().is_multiple_of(GROUP_LEN) && (1..=FIN_GROUPS_MAX).contains(&groups);
        let parsed = Self(body);
        let possible = |g: FinGroup| g.needed <= g.messages && g.delivered <= g.messages;
        (whole && parsed.groups().all(possible)).then_some(parsed)
    }

    /// The groups, in the order in which they were written.
    pub fn groups(&self) -> impl Iterator<Item = FinGroup> + 'a {
        let be32 = |c: &[u8]| u32::from_be_bytes([c[0], c[1], c[2], c[3]]);
        self.0.chunks_exact(GROUP_LEN).map(move |chunk| FinGroup {
            group: chunk[0],
            messages: be32(&chunk[4..8]),
            needed: be32(&chunk[8..12]),
            delivered: be32(&chunk[12..16]),
        })
    }

    /// Writes `groups` into `out` and returns the length; `None` if they don't fit.
    pub fn write(out: &mut [u8], groups: &[FinGroup]) -> Option<usize> {
        let len = groups.len() * GROUP_LEN;
        if groups.is_empty() || groups.len() > FIN_GROUPS_MAX {
            return None;
        }
        for (chunk, group) in out.get_mut(..len)?.chunks_exact_mut(GROUP_LEN).zip(groups) {
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
        fn parse__returns_what_write_was_given(
            counts in proptest::collection::vec(any::<(u8, u32, u32, u32)>(), 1..=FIN_GROUPS_MAX)
        ) {
            let groups: Vec<_> = counts.into_iter().map(|(group, messages, a, b)| FinGroup {
                group, messages, needed: a.min(messages), delivered: b.min(messages),
            }).collect();
            let mut out = [0xff; FIN_GROUPS_MAX * 16];
            let len = FinBody::write(&mut out, &groups).unwrap();
            prop_assert!(FinBody::parse(&out[..len]).unwrap().groups().eq(groups.iter().copied()));
        }

        #[test]
        fn parse__never_accepts_impossible_counts(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            if let Some(body) = FinBody::parse(&bytes) {
                prop_assert!(body.groups().all(|g| g.delivered <= g.messages && g.needed <= g.messages));
            }
        }
    }
}
