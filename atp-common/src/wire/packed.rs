//! Packed DATA: several whole messages of one group in one packet.
//!
//! A message of a few bytes would otherwise pay for a packet of its own. A packed packet has one
//! slot and one ACK; its messages have receipts of their own.
//!
//! ```text
//! header: flags    PACKED, beside the flags of other DATA
//!         message  the id of the first member
//!         index    0
//!         count    members, at least 2
//!         segmentation 0
//! body:   members, one after another: message (4) | length (2) | that many bytes
//!         padding, which receivers ignore: segments of a GSO buffer have one length
//! ```

use super::{Flags, Header, Kind};

/// Bytes in front of each member's data.
pub const MEMBER_HEADER_LEN: usize = 6;

/// The body of a packed packet, borrowed from a payload. All of its members are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedBody<'a> {
    members: &'a [u8],
}

impl<'a> PackedBody<'a> {
    /// Reads the body behind `header`. `None` if the header isn't that of a packed packet, if a
    /// member is incomplete, or if the first one isn't the header's message.
    pub fn parse(header: &Header, body: &'a [u8]) -> Option<Self> {
        let is_packed = matches!(header.kind(), Ok(Kind::Data))
            && header.flags().contains(Flags::PACKED)
            && header.index() == 0
            && header.segmentation() == 0
            && header.count() >= 2;
        let (first, _, _) = split_member(body).filter(|_| is_packed)?;
        if first != header.message() {
            return None;
        }
        let mut rest = body;
        for _ in 0..header.count() {
            (_, _, rest) = split_member(rest)?;
        }
        Some(Self { members: &body[..body.len() - rest.len()] })
    }

    /// The members in the order of the packet: ids and data.
    pub fn members(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let mut rest = self.members;
        core::iter::from_fn(move || {
            let (message, data, behind) = split_member(rest)?;
            rest = behind;
            Some((message, data))
        })
    }

    /// Bytes of the body without padding.
    pub const fn bytes(&self) -> usize {
        self.members.len()
    }
}

/// The bytes in front of the data of a member.
pub const fn member_header(message: u32, len_bytes: u16) -> [u8; MEMBER_HEADER_LEN] {
    let ([a, b, c, d], [e, f]) = (message.to_be_bytes(), len_bytes.to_be_bytes());
    [a, b, c, d, e, f]
}

/// The first member of `bytes`, its data, and the bytes behind it.
fn split_member(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (&[a, b, c, d, e, f], rest) = bytes.split_first_chunk::<MEMBER_HEADER_LEN>()?;
    let (data, rest) = rest.split_at_checked(u16::from_be_bytes([e, f]).into())?;
    Some((u32::from_be_bytes([a, b, c, d]), data, rest))
}

#[cfg(test)]
mod tests {
    use super::super::Fields;
    use super::*;
    use proptest::prelude::*;

    fn header(message: u32, count: u32) -> Header {
        Header::new(&Fields {
            flags: Flags::PACKED,
            group: 1,
            job: 2,
            cookie: 3,
            message,
            count,
            epoch: 4,
            slot: 5,
            time: 6,
            ..Fields::of(Kind::Data)
        })
    }

    fn body(members: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let bytes = |(message, data): &(u32, Vec<u8>)| {
            [&member_header(*message, data.len() as u16)[..], data].concat()
        };
        members.iter().flat_map(bytes).collect()
    }

    fn members() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
        let data = proptest::collection::vec(any::<u8>(), 0..200);
        proptest::collection::vec((any::<u32>(), data), 2..20)
    }

    proptest! {
        #[test]
        fn parse__reads_what_was_written_and_ignores_padding(members in members(), padding in 0usize..9) {
            let mut bytes = body(&members);
            let len = bytes.len();
            bytes.resize(len + padding, 0xff);
            let parsed = PackedBody::parse(&header(members[0].0, members.len() as u32), &bytes).unwrap();
            prop_assert_eq!(parsed.bytes(), len);
            let read: Vec<_> = parsed.members().map(|(id, data)| (id, data.to_vec())).collect();
            prop_assert_eq!(read, members);
        }

        // One byte less, or one member more, and nothing of the packet is taken.
        #[test]
        fn parse__takes_complete_packets_only(members in members(), cut in 1usize..300) {
            let (bytes, number) = (body(&members), members.len() as u32);
            let short = &bytes[..bytes.len().saturating_sub(cut)];
            let first = members[0].0;
            prop_assert_eq!(PackedBody::parse(&header(first, number), short), None);
            prop_assert_eq!(PackedBody::parse(&header(first, number + 1), &bytes), None);
            prop_assert_eq!(PackedBody::parse(&header(first.wrapping_add(1), number), &bytes), None);
        }

        #[test]
        fn parse__never_panics_and_keeps_the_count(
            count in 0u32..=super::super::COUNT_MAX,
            bytes in proptest::collection::vec(0u8..3, 0..400),
        ) {
            let first = bytes.first_chunk().map_or(0, |id| u32::from_be_bytes(*id));
            if let Some(body) = PackedBody::parse(&header(first, count), &bytes) {
                prop_assert_eq!(body.members().count(), count as usize);
                let lens: usize = body.members().map(|(_, data)| MEMBER_HEADER_LEN + data.len()).sum();
                prop_assert_eq!(lens, body.bytes());
                prop_assert!(count >= 2 && body.bytes() <= bytes.len());
            }
        }
    }

    #[test]
    fn parse__rejects_headers_of_other_packets() {
        let bytes = body(&[(7, vec![1]), (8, vec![])]);
        let good = header(7, 2);
        assert!(PackedBody::parse(&good, &bytes).is_some());
        let fields = Fields {
            flags: Flags::PACKED,
            group: 1,
            job: 2,
            cookie: 3,
            message: 7,
            count: 2,
            epoch: 4,
            slot: 5,
            time: 6,
            ..Fields::of(Kind::Data)
        };
        let wrong = [
            Header::new(&Fields { flags: Flags::NONE, ..fields }),
            Header::new(&Fields { index: 1, ..fields }),
            Header::new(&Fields { count: 1, ..fields }),
            good.with_segmentation(1),
            good.into_ack(false),
        ];
        for header in wrong {
            assert_eq!(PackedBody::parse(&header, &bytes), None, "{header}");
        }
    }
}
