//! Epoch and departure time, written into the header of a packet that its socket has finished.

use crate::{
    packet::{load_u16, store_u64},
    parse::{Datagram, UDP_LEN},
    verdict::Refusal,
};
use atp_common::{checksum, maps::Counter, wire::Header};
use aya_ebpf::{bindings::BPF_F_MARK_MANGLED_0, programs::TcContext};

/// Where the checksum stands in a UDP header.
pub const UDP_CHECKSUM: usize = 6;
/// Where the stamped half of an ATP header begins.
const STAMPED: usize = 16;

/// Stamps the packet and mends its UDP checksum if it has one. Moves the packet: no address into it
/// is good afterwards.
#[inline(always)]
pub fn write(
    ctx: &TcContext,
    datagram: &Datagram,
    old: &Header,
    epoch: u16,
    departure_ns: u64,
) -> Result<(), Refusal> {
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
    // Without BPF_F_PSEUDO_HDR this mends a finished checksum and leaves alone one that hardware, or
    // a later software fallback, is still to finish (CHECKSUM_PARTIAL): that one covers the pseudo
    // header only, which hasn't changed. MARK_MANGLED_0 keeps a sum of 0 from reading as "none".
    let difference = difference(old_words, new_words);
    let flags = u64::from(BPF_F_MARK_MANGLED_0);
    ctx.l4_csum_replace(datagram.udp_offset() + UDP_CHECKSUM, 0, difference, flags)
        .map_err(|_| Refusal::Drop(Counter::Unsendable))
}

#[inline(always)]
fn stamped_half(header: &Header) -> [u64; 2] {
    // SAFETY: `Header` is 32 bytes of plain data; the copy needs no alignment.
    let words: [u64; 4] = unsafe { core::mem::transmute(*header) };
    [words[2], words[3]]
}

/// The one's-complement sum of what came minus what went (RFC 1624), in the packet's byte order: the
/// sum is the same in either (RFC 1071 §2B).
#[inline(always)]
fn difference(old: [u64; 2], new: [u64; 2]) -> u64 {
    let sum = words_of(!old[0]) + words_of(!old[1]) + words_of(new[0]) + words_of(new[1]);
    u64::from(checksum::fold(sum))
}

/// Its four 16-bit words, added up.
#[inline(always)]
pub const fn words_of(word: u64) -> u64 {
    (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48)
}
