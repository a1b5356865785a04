//! REQUEST: the receiver asks for other sampling rates, or for the end of the job.
//!
//! ```text
//! after the header: end (4, 0 or 1), then once per group, 8 bytes:
//!     group (1) | zero (3) | MSR (4)
//! ```
//!
//! A REQUEST holds everything that the receiver has asked for and that no TERMS has answered. The
//! header's *time* is the receiver's own clock when it asked last, and orders REQUESTs, also those
//! of a process that was restarted. A repetition has the same time.

use crate::units::Msr;

/// The most groups of one REQUEST. With all headers, it fits a path MTU of 576 bytes.
pub const REQUEST_GROUPS_MAX: usize = 60;

/// Bytes of a body without groups.
pub const REQUEST_LEN_MIN: usize = 4;
/// Bytes of each group.
pub const REQUEST_GROUP_LEN: usize = 8;

/// Bytes of the longest body.
pub const REQUEST_BODY_LEN_MAX: usize = REQUEST_LEN_MIN + REQUEST_GROUPS_MAX * REQUEST_GROUP_LEN;

/// The body of a REQUEST, borrowed from a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestBody<'a> {
    /// The receiver has enough: the job should end now.
    pub end: bool,
    groups: &'a [u8],
}

impl<'a> RequestBody<'a> {
    /// Reads a body: at most [`REQUEST_GROUPS_MAX`] groups in ascending order, with valid rates and
    /// zero padding, and at least one group or the end.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (fixed, groups) = body.split_first_chunk::<REQUEST_LEN_MIN>()?;
        let end = match u32::from_be_bytes(*fixed) {
            0 => false,
            1 => true,
            _ => return None,
        };
        let number = groups.len() / REQUEST_GROUP_LEN;
        let is_complete =
            groups.len().is_multiple_of(REQUEST_GROUP_LEN) && number <= REQUEST_GROUPS_MAX;
        let mut chunks = groups.chunks_exact(REQUEST_GROUP_LEN);
        let ids = groups.chunks_exact(REQUEST_GROUP_LEN).map(|chunk| chunk[0]);
        let is_ascending = ids.clone().zip(ids.skip(1)).all(|(a, b)| a < b);
        let is_valid = is_complete && is_ascending && chunks.all(|chunk| group(chunk).is_some());
        (is_valid && (end || number > 0)).then_some(Self { end, groups })
    }

    /// The groups with the asked rates.
    pub fn groups(&self) -> impl Iterator<Item = (u8, Msr)> + 'a {
        self.groups.chunks_exact(REQUEST_GROUP_LEN).filter_map(group)
    }

    /// Writes `groups` (ascending) into `out` and returns the length; `None` if they don't fit.
    pub fn write(
        out: &mut [u8],
        end: bool,
        groups: impl ExactSizeIterator<Item = (u8, Msr)>,
    ) -> Option<usize> {
        if groups.len() > REQUEST_GROUPS_MAX || groups.len() == 0 && !end {
            return None;
        }
        let len = REQUEST_LEN_MIN + groups.len() * REQUEST_GROUP_LEN;
        let (fixed, rest) = out.get_mut(..len)?.split_at_mut(REQUEST_LEN_MIN);
        fixed.copy_from_slice(&u32::from(end).to_be_bytes());
        for (chunk, (group, msr)) in rest.chunks_exact_mut(REQUEST_GROUP_LEN).zip(groups) {
            chunk[0] = group;
            chunk[1..4].fill(0);
            chunk[4..8].copy_from_slice(&msr.parts_per_billion().to_be_bytes());
        }
        Some(len)
    }
}

/// The group of a chunk of [`REQUEST_GROUP_LEN`] bytes, if it is valid.
fn group(chunk: &[u8]) -> Option<(u8, Msr)> {
    let msr = u32::from_be_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
    let msr = Msr::from_parts_per_billion(msr)?;
    (chunk[1..4] == [0; 3]).then_some((chunk[0], msr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse__reads_what_write_writes_and_one_form_only(
            end: bool,
            groups in proptest::collection::btree_map(any::<u8>(), 0u32..=1_000_000_000, 0..=60),
            at: prop::sample::Index,
            value: u8,
        ) {
            let groups: Vec<_> = groups.into_iter()
                .map(|(group, msr)| (group, Msr::from_parts_per_billion(msr).unwrap()))
                .collect();
            let mut out = [0xff; REQUEST_BODY_LEN_MAX];
            let Some(len) = RequestBody::write(&mut out, end, groups.iter().copied()) else {
                prop_assert!(groups.is_empty() && !end);
                return Ok(());
            };
            let body = RequestBody::parse(&out[..len]).unwrap();
            prop_assert_eq!(body.end, end);
            prop_assert!(body.groups().eq(groups));
            let damaged = &mut out[..len];
            damaged[at.index(len)] = value;
            if let Some(body) = RequestBody::parse(damaged) {
                let mut again = [0; REQUEST_BODY_LEN_MAX];
                let groups: Vec<_> = body.groups().collect();
                let written = RequestBody::write(&mut again, body.end, groups.into_iter());
                prop_assert_eq!(&again[..written.unwrap()], damaged);
            }
        }
    }

    #[test]
    fn parse__rejects_an_empty_request() {
        assert_eq!(RequestBody::parse(&[0; 4]), None);
        assert_eq!(RequestBody::parse(&[0, 0, 0, 2]), None);
        assert!(RequestBody::parse(&[0, 0, 0, 1]).is_some());
        const { assert!(REQUEST_BODY_LEN_MAX + super::super::HEADER_LEN + 8 + 40 <= 576) };
    }
}
