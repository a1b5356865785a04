//! DATA whose sender will ask: recorded, and up it goes. Most of it comes in superpackets, as its sender
//! made them or as the kernel merged them.

use crate::{
    atomic,
    counters::count,
    maps::{ARRIVED, NOTHING_ARRIVED},
    parse::Datagram,
};
use atp_common::{
    maps::{
        Counter,
        arrivals::{self, ARRIVALS_LEN, ArrivalKey, Memory, RUN_MAX, Run},
    },
    wire::{Flags, Header, ProbeBody},
};
use aya_ebpf::bindings::BPF_NOEXIST;

/// How often a word is tried against other processors that write it.
const TRIES: u32 = 4;

/// Records consecutive packets of one lane, the first of which has this header.
#[inline(always)]
pub fn record(key: &ArrivalKey, first: &Header, packets: u32, marked: bool) {
    let Some(element) = find_or_make(key) else {
        count(Counter::ProbeFailed);
        return;
    };
    record_in(element.0, first.slot(), packets, first.epoch(), marked);
}

/// A function of its own, for the stack's sake.
#[inline(never)]
fn record_in(element: *mut u64, slot: u32, packets: u32, epoch: u16, marked: bool) {
    arrivals::record(&mut Element(element), &Run { slot, packets, epoch, marked });
}

/// Whether a superpacket that begins with `first` and ends with `last` is that many packets of one lane
/// and epoch, one after the other. What is in between is taken for granted: it could differ only by a
/// duplicate that makes up for a loss.
#[inline(always)]
pub fn is_run(first: &Header, last: &Header, packets: u32) -> bool {
    packets <= RUN_MAX
        && first.flags().contains(Flags::NO_ACK)
        && last.flags().contains(Flags::NO_ACK)
        && last.slot().wrapping_sub(first.slot()) == packets - 1
        && last.cookie() == first.cookie()
        && last.group() == first.group()
        && last.epoch() == first.epoch()
}

/// What is known of the lane of this packet; `None` if nothing ever arrived.
#[inline(always)]
pub fn find(datagram: &Datagram, header: &Header) -> Option<Element> {
    ARRIVED.get_ptr_mut(key(datagram, header)).map(|element| Element(element.cast()))
}

#[inline(always)]
fn find_or_make(key: &ArrivalKey) -> Option<Element> {
    if let Some(element) = ARRIVED.get_ptr_mut(key) {
        return Some(Element(element.cast()));
    }
    let nothing = NOTHING_ARRIVED.get(0)?;
    // Another processor may be first: either way there is one now.
    let _ = ARRIVED.insert(key, nothing, u64::from(BPF_NOEXIST));
    ARRIVED.get_ptr_mut(key).map(|element| Element(element.cast()))
}

/// The lane of this packet.
#[inline(always)]
pub fn key(datagram: &Datagram, header: &Header) -> ArrivalKey {
    let (source, _) = datagram.addresses();
    ArrivalKey {
        // SAFETY: both are 16 bytes of plain data.
        source: unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(source) },
        cookie: header.cookie(),
        source_port: datagram.source_port,
        local_port: datagram.destination_port,
        group: u32::from(header.group()),
    }
}

/// A lane's element of the map, [`ARRIVALS_LEN`] words.
pub struct Element(*mut u64);

impl Memory for Element {
    #[inline(always)]
    fn read(&self, index: usize) -> u64 {
        debug_assert!(index < ARRIVALS_LEN);
        // SAFETY: inside the element, as the verifier sees too; other processors write it, hence
        // volatile.
        unsafe { self.0.add(index).read_volatile() }
    }

    #[inline(always)]
    fn update(&mut self, index: usize, next: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        debug_assert!(index < ARRIVALS_LEN);
        // SAFETY: as in `read`.
        let word = unsafe { self.0.add(index) };
        for _ in 0..TRIES {
            // SAFETY: as in `read`.
            let old = unsafe { word.read_volatile() };
            let new = next(old)?;
            // SAFETY: aligned and in the map.
            if unsafe { atomic::replace(word, old, new) } {
                return Some((old, new));
            }
        }
        // Its sender takes it for a loss; the receipt repairs that.
        count(Counter::ProbeFailed);
        None
    }
}

/// Fills in an answer. A function of its own, for the stack's sake.
#[inline(never)]
pub fn fill_in(element: &Element, slot: u32, body: &mut ProbeBody) {
    arrivals::fill_in(element, slot, body);
}
