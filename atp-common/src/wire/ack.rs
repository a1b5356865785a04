//! An ACK: the echo of a DATA header, and when that packet arrived.
//!
//! ```text
//! header   32  of the DATA, with the kind changed and the ECN mark added
//! arrived   4  the receiver's monotonic clock in units of 1,024 ns, wrapping
//! ```
//!
//! The two hosts' clocks have nothing to do with each other. But from packet to packet the sender
//! sees how much longer one took than another, and so whether the packet waited on its way or the
//! ACK.
//!
//! An answer is never longer than what it answers, so DATA of fewer than 36 bytes gets the header
//! alone. Earlier versions sent no time at all.

use super::{HEADER_LEN, Header};
use bytemuck::{Pod, Zeroable};

/// The length of an ACK with its packet's arrival time, bytes.
pub const ACK_LEN: usize = HEADER_LEN + 4;

/// An ACK as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Ack {
    header: Header,
    arrived: [u8; 4],
}

const _: () = assert!(size_of::<Ack>() == ACK_LEN);

impl Ack {
    /// The answer to `data`, which came at `now_ns`. `congestion`: with the ECN mark "congestion
    /// experienced".
    #[inline(always)]
    pub const fn answering(data: Header, congestion: bool, now_ns: u64) -> Self {
        Self { header: data.into_ack(congestion), arrived: Header::time_of(now_ns).to_be_bytes() }
    }

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of the answer to DATA of `data_len` bytes, the header included.
    pub fn bytes(&self, data_len: usize) -> &[u8] {
        &bytemuck::bytes_of(self)[..Self::len(data_len)]
    }

    /// The length of the ACK of `data_len` bytes of DATA, its header included.
    #[inline(always)]
    pub const fn len(data_len: usize) -> usize {
        if data_len < ACK_LEN { HEADER_LEN } else { ACK_LEN }
    }
}

/// When the packet arrived, by the receiver's clock in units of 1,024 ns. `body`: what follows an
/// ACK's header. `None` if the receiver didn't say it.
pub fn arrival(body: &[u8]) -> Option<u32> {
    body.first_chunk().map(|time| u32::from_be_bytes(*time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Fields, Kind};

    #[test]
    fn answering__echoes_the_header_and_adds_the_time() {
        let data = Header::new(&Fields {
            group: 1,
            job: 2,
            cookie: 3,
            message: 4,
            count: 1,
            epoch: 5,
            slot: 6,
            time: 7,
            ..Fields::of(Kind::Data)
        });
        let ack = Ack::answering(data, true, 0x1234_5678 << 10);
        assert_eq!(*ack.header(), data.into_ack(true));
        for (data_len, time) in
            [(32, None), (35, None), (36, Some(0x1234_5678)), (99, Some(0x1234_5678))]
        {
            let bytes = ack.bytes(data_len);
            assert!(bytes.len() <= data_len);
            assert_eq!(Header::parse(bytes).unwrap(), (data.into_ack(true), Kind::Ack));
            assert_eq!(arrival(&bytes[HEADER_LEN..]), time);
        }
    }

    #[test]
    fn arrival__of_earlier_versions_is_unknown() {
        assert_eq!(arrival(&[]), None);
        assert_eq!(arrival(&[1, 2, 3]), None);
        // Later versions may add fields.
        assert_eq!(arrival(&[0, 0, 1, 0, 9]), Some(256));
    }
}
