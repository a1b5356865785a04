//! Stamps epoch and departure time into the header of a packet, after its socket computed the
//! checksum.

use crate::{
    packet::{load_u16, store_u64},
    parse::{Datagram, UDP_LEN},
    verdict::Verdict,
};
use atp_common::{checksum, maps::Event, wire::Header};
use aya_ebpf::{bindings::BPF_F_MARK_MANGLED_0, programs::TcContext};

/// The offset of the checksum in a UDP header.
pub const UDP_CHECKSUM: usize = 6;
/// The offset of the stamped half of an ATP header.
const STAMPED: usize = 16;

/// Stamps the packet and updates its UDP checksum if it has one. The packet may move: addresses
/// into it are invalid afterwards.
#[inline(always)]
pub fn write(
    ctx: &TcContext,
    datagram: &Datagram,
    old: &Header,
    epoch: u16,
    departure_ns: u64,
) -> Result<(), Verdict> {
    let mut new = *old;
    new.stamp(epoch, departure_ns);
    let (old_words, new_words) = (stamped_half(old), stamped_half(&new));
    let at = datagram.udp + UDP_LEN + STAMPED;
    // SAFETY: the datagram's header was read, so its bytes were checked.
    let sum = unsafe {
        store_u64(at, new_words[0]);
        store_u64(at + 8, new_words[1]);
        load_u16(datagram.udp + UDP_CHECKSUM)
    };
    if sum == 0 {
        return Ok(());
    }
    // Without BPF_F_PSEUDO_HDR, this call updates a complete checksum. It leaves alone a checksum
    // that hardware, or its software fallback, completes later (CHECKSUM_PARTIAL). Such a checksum
    // covers only the pseudo header, which hasn't changed. With MARK_MANGLED_0, a sum of 0 doesn't
    // become "no checksum".
    let difference = difference(old_words, new_words);
    let flags = u64::from(BPF_F_MARK_MANGLED_0);
    ctx.l4_csum_replace(datagram.udp_offset() + UDP_CHECKSUM, 0, difference, flags)
        .map_err(|_| Verdict::Drop(Event::NoChecksum))
}

#[inline(always)]
fn stamped_half(header: &Header) -> [u64; 2] {
    // SAFETY: `Header` is 32 bytes of plain data; the copy needs no alignment.
    let words: [u64; 4] = unsafe { core::mem::transmute(*header) };
    [words[2], words[3]]
}

/// The one's-complement sum of the new words minus the old ones (RFC 1624), in the packet's byte
/// order: the sum is the same in either (RFC 1071 §2B).
#[inline(always)]
fn difference(old: [u64; 2], new: [u64; 2]) -> u64 {
    let sum =
        sum_of_words(!old[0]) + sum_of_words(!old[1]) + sum_of_words(new[0]) + sum_of_words(new[1]);
    u64::from(checksum::fold(sum))
}

/// The sum of the word's four 16-bit words.
#[inline(always)]
pub const fn sum_of_words(word: u64) -> u64 {
    (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48)
}
