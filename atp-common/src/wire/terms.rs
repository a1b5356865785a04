//! TERMS: N, MSR, order and name of each group, from the sender to the receiver.
//!
//! ```text
//! after the header: window (4) | answered (4), then once per group, 44 bytes:
//!     group (1) | flags (1) | order (1) | buffer (1) | messages (4) | MSR (4) | name (32)
//! ```
//!
//! All groups of a job are the *terms*. They need several packets if there are many groups: the
//! *pages* of one *revision*. The fields of each page's header are
//!
//! - index: the revision's number (18 bits, never 0);
//! - epoch: the page, counted from 0;
//! - count: the number of pages;
//! - slot: the latest slot that the sender has used.
//!
//! A receiver confirms a revision in the count field of its RECEIPTs, so that a receiving process
//! that was restarted gets the terms again.

use super::{name::GroupName, order::Order};
use crate::units::Msr;

/// The most groups of one page. With all headers, such a page fits a path MTU of 576 bytes.
pub const TERMS_GROUPS_MAX: usize = 11;

/// The most pages, for 256 groups.
pub const TERMS_PAGES_MAX: usize = 256usize.div_ceil(TERMS_GROUPS_MAX);

const FIXED_LEN: usize = 8;
const GROUP_LEN: usize = 12 + GroupName::BYTES_MAX;

/// Bytes of the longest page, without the header.
pub const TERMS_BODY_LEN_MAX: usize = FIXED_LEN + TERMS_GROUPS_MAX * GROUP_LEN;

/// N is announced.
const KNOWN: u8 = 1;
/// The group is exact: its messages are delivered in order.
const EXACT: u8 = 2;
/// Messages of fewer packets are sent first, and the messages differ in their number of packets.
const SHORTEST_FIRST: u8 = 4;

/// The terms of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermsGroup {
    /// The group's id.
    pub group: u8,
    /// Whether the group's messages are delivered in order.
    pub exact: bool,
    /// N, if it is known.
    pub messages: Option<u32>,
    /// The minimal sampling rate.
    pub msr: Msr,
    /// The order of the messages.
    pub order: Order,
    /// Messages of fewer packets are sent first, and those queued so far differ in their number of
    /// packets: the messages that arrive are no fair sample.
    pub shortest_first: bool,
    /// The name, which may be empty.
    pub name: GroupName,
}

/// The body of a TERMS packet, borrowed from a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermsBody<'a> {
    /// The window, counted from 0.
    pub window: u32,
    /// The time field of the latest REQUEST that the sender has handled; 0 before the first.
    pub answered: u32,
    groups: &'a [u8],
}

impl<'a> TermsBody<'a> {
    /// Bytes of the body.
    pub const fn bytes(&self) -> usize {
        FIXED_LEN + self.groups.len()
    }

    /// Reads a body: one to [`TERMS_GROUPS_MAX`] groups in ascending order, with valid rates,
    /// orders and names. N is 0 where it is unknown.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (fixed, groups) = body.split_first_chunk::<FIXED_LEN>()?;
        let number = groups.len() / GROUP_LEN;
        let is_complete =
            groups.len().is_multiple_of(GROUP_LEN) && (1..=TERMS_GROUPS_MAX).contains(&number);
        let parsed = Self { window: be32(&fixed[..4]), answered: be32(&fixed[4..]), groups };
        let mut chunks = groups.chunks_exact(GROUP_LEN);
        let is_ascending = || {
            let ids = groups.chunks_exact(GROUP_LEN).map(|chunk| chunk[0]);
            ids.clone().zip(ids.skip(1)).all(|(a, b)| a < b)
        };
        let is_valid = is_complete && chunks.all(|chunk| group(chunk).is_some()) && is_ascending();
        is_valid.then_some(parsed)
    }

    /// The groups, in the order in which they were written.
    pub fn groups(&self) -> impl Iterator<Item = TermsGroup> + 'a {
        self.groups.chunks_exact(GROUP_LEN).filter_map(group)
    }

    /// Writes `groups` (ascending) into `out` and returns the length; `None` if they don't fit.
    pub fn write(
        out: &mut [u8],
        window: u32,
        answered: u32,
        groups: impl ExactSizeIterator<Item = TermsGroup>,
    ) -> Option<usize> {
        if groups.len() == 0 || groups.len() > TERMS_GROUPS_MAX {
            return None;
        }
        let len = FIXED_LEN + groups.len() * GROUP_LEN;
        let (fixed, rest) = out.get_mut(..len)?.split_at_mut(FIXED_LEN);
        fixed[..4].copy_from_slice(&window.to_be_bytes());
        fixed[4..].copy_from_slice(&answered.to_be_bytes());
        for (chunk, group) in rest.chunks_exact_mut(GROUP_LEN).zip(groups) {
            let known = if group.messages.is_some() { KNOWN } else { 0 };
            chunk[0] = group.group;
            let exact = if group.exact { EXACT } else { 0 };
            chunk[1] = known | exact | if group.shortest_first { SHORTEST_FIRST } else { 0 };
            chunk[2..4].copy_from_slice(&group.order.to_wire());
            chunk[4..8].copy_from_slice(&group.messages.unwrap_or(0).to_be_bytes());
            chunk[8..12].copy_from_slice(&group.msr.parts_per_billion().to_be_bytes());
            chunk[12..].copy_from_slice(group.name.bytes());
        }
        Some(len)
    }
}

/// The group of a chunk of [`GROUP_LEN`] bytes, if it is valid.
fn group(chunk: &[u8]) -> Option<TermsGroup> {
    let (flags, messages) = (chunk[1], be32(&chunk[4..8]));
    let is_known = flags & KNOWN != 0;
    let is_known_flags = flags & !(KNOWN | EXACT | SHORTEST_FIRST) == 0;
    let order = Order::from_wire([chunk[2], chunk[3]])?;
    let msr = Msr::from_parts_per_billion(be32(&chunk[8..12]))?;
    let name = GroupName::from_wire(chunk[12..].first_chunk()?)?;
    let (exact, shortest_first) = (flags & EXACT != 0, flags & SHORTEST_FIRST != 0);
    let is_valid = is_known_flags && (is_known || messages == 0);
    let messages = is_known.then_some(messages);
    let group = chunk[0];
    is_valid.then_some(TermsGroup { group, exact, messages, msr, order, shortest_first, name })
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn groups()(
            groups in proptest::collection::btree_map(
                any::<u8>(),
                (
                    (any::<bool>(), any::<bool>()),
                    any::<Option<u32>>(),
                    0u32..=1_000_000_000,
                    0u8..=Order::LOG2_MAX + 2,
                    "[a-zä€ ]{0,10}",
                ),
                1..=TERMS_GROUPS_MAX,
            )
        ) -> Vec<TermsGroup> {
            groups.into_iter().map(|(group, ((exact, shortest_first), messages, msr, order, name))| TermsGroup {
                group,
                exact,
                messages,
                msr: Msr::from_parts_per_billion(msr).unwrap(),
                order: match order {
                    0 => Order::Unknown,
                    1 => Order::Ordered,
                    2 => Order::Shuffled,
                    above => Order::ShuffledAmong { log2_messages: above - 2 },
                },
                shortest_first,
                name: GroupName::new(&name).unwrap(),
            }).collect()
        }
    }

    proptest! {
        #[test]
        fn parse__reads_what_write_writes(window: u32, answered: u32, groups in groups()) {
            let mut out = [0xff; TERMS_BODY_LEN_MAX];
            let written = groups.iter().copied();
            let len = TermsBody::write(&mut out, window, answered, written).unwrap();
            let body = TermsBody::parse(&out[..len]).unwrap();
            prop_assert_eq!((body.window, body.answered, body.bytes()), (window, answered, len));
            prop_assert!(body.groups().eq(groups));
            prop_assert_eq!(TermsBody::parse(&out[..len - 1]), None);
        }

        // A damaged body is rejected, or reads as other terms that write writes the same way.
        #[test]
        fn parse__accepts_one_form_only(groups in groups(), at: prop::sample::Index, value: u8) {
            let mut out = [0; TERMS_BODY_LEN_MAX];
            let len = TermsBody::write(&mut out, 7, 9, groups.into_iter()).unwrap();
            let damaged = &mut out[..len];
            damaged[at.index(len)] = value;
            if let Some(body) = TermsBody::parse(damaged) {
                let mut again = [0; TERMS_BODY_LEN_MAX];
                let groups: Vec<_> = body.groups().collect();
                let (window, answered) = (body.window, body.answered);
                let written = TermsBody::write(&mut again, window, answered, groups.into_iter());
                prop_assert_eq!(&again[..written.unwrap()], damaged);
            }
        }
    }

    #[test]
    fn pages__of_all_groups_fit_the_smallest_mtu() {
        const { assert!(TERMS_PAGES_MAX * TERMS_GROUPS_MAX >= 256) };
        const { assert!(TERMS_BODY_LEN_MAX + super::super::HEADER_LEN + 8 + 40 <= 576) };
    }
}
