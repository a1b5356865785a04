//! Records arrivals of DATA with the flag NO_ACK. Most of it comes in GSO or GRO buffers.

use crate::{
    atomic,
    counters::count,
    maps::{ARRIVED, NOTHING_ARRIVED},
    parse::Datagram,
};
use atp_common::{
    maps::{
        Counter,
        arrivals::{self, ARRIVALS_LEN, ArrivalKey, ArrivalStore, RUN_MAX, Run},
    },
    wire::{Flags, Header, ProbeBody},
};
use aya_ebpf::bindings::BPF_NOEXIST;

/// How often an atomic update of a word is tried, while other processors write it.
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

/// Not inlined, because the caller's stack is full.
#[inline(never)]
fn record_in(element: *mut u64, slot: u32, packets: u32, epoch: u16, marked: bool) {
    arrivals::record(&mut Element(element), &Run { slot, packets, epoch, marked });
}

/// Whether a GRO buffer that begins with `first` and ends with `last` holds consecutive packets of
/// one lane and epoch. The packets between are not checked: they could differ only by a duplicate
/// in place of a lost packet.
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

/// The record of this packet's lane; `None` if there is none yet.
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
    // If another processor was first, its element is used.
    let _ = ARRIVED.insert(key, nothing, u64::from(BPF_NOEXIST));
    ARRIVED.get_ptr_mut(key).map(|element| Element(element.cast()))
}

/// The key of this packet's lane.
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

impl ArrivalStore for Element {
    #[inline(always)]
    fn read(&self, index: usize) -> u64 {
        debug_assert!(index < ARRIVALS_LEN);
        // SAFETY: inside the element, as the verifier checks; other processors write it, hence
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
        // The sender takes the arrival for a loss, which the receipt repairs.
        count(Counter::ProbeFailed);
        None
    }
}

/// Writes a PROBE's answer. Not inlined, because the caller's stack is full.
#[inline(never)]
pub fn fill_in(element: &Element, slot: u32, body: &mut ProbeBody) {
    arrivals::fill_in(element, slot, body);
}
