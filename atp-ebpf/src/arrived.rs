//! Records arrivals of DATA with the flag NO_ACK. Most of it comes in GSO or GRO buffers.
//!
//! Any host can send such DATA, so records of strangers must not replace those of others. A source
//! is admitted once the receiving library sends it a RECEIPT, which egress sees: the library has
//! given it a place then. Records of other sources, and further lanes of a source with many, are
//! newcomers. They replace only each other.

use crate::{
    atomic,
    counters::{count, note},
    maps::{ADMITTED, ARRIVED, NEWCOMERS, NOTHING_ARRIVED},
    packet::{load_u32, store_u32},
    parse::Datagram,
};
use atp_common::{
    maps::{
        Counter, Event,
        arrivals::{self, ANY_GROUP, ARRIVALS_LEN, ArrivalKey, ArrivalStore, RUN_MAX, Run},
    },
    wire::{Flags, Header, PROBE_BODY_WORDS},
};
use aya_ebpf::{bindings::BPF_NOEXIST, programs::TcContext};

/// How often an atomic update of a word is tried, while other processors write it.
const TRIES: u32 = 4;

/// Records consecutive packets of one lane, the first of which has this header. `marked`: not 0 if
/// they carry the ECN mark. A `bool` would make the verifier check the recording twice.
#[inline(always)]
pub fn record(ctx: &TcContext, key: &ArrivalKey, first: &Header, packets: u32, marked: u32) {
    let Some(element) = find_or_make(key) else {
        note(ctx, Event::NotRecorded);
        return;
    };
    record_in(element.0, first.slot(), packets, first.epoch(), marked);
}

/// Not inlined, because the caller's stack is full.
#[inline(never)]
fn record_in(element: *mut u64, slot: u32, packets: u32, epoch: u16, marked: u32) {
    let run = Run { slot, packets, epoch, marked: marked != 0 };
    arrivals::record(&mut Element(element), &run);
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

/// The record of this packet's lane; null if there is none yet.
#[inline(always)]
pub fn find(datagram: &Datagram, header: &Header) -> *mut u64 {
    let key = key(datagram, header);
    let element = ARRIVED.get_ptr_mut(key).or_else(|| NEWCOMERS.get_ptr_mut(key));
    element.map_or(core::ptr::null_mut(), |element| element.cast())
}

#[inline(always)]
fn find_or_make(key: &ArrivalKey) -> Option<Element> {
    if let Some(element) = ARRIVED.get_ptr_mut(key) {
        return Some(Element(element.cast()));
    }
    make(key);
    let element = ARRIVED.get_ptr_mut(key).or_else(|| NEWCOMERS.get_ptr_mut(key));
    element.map(|element| Element(element.cast()))
}

/// Makes the record of a lane that isn't in `ARRIVED`. Not inlined, because the caller's stack is
/// full.
#[inline(never)]
fn make(key: &ArrivalKey) {
    let Some(nothing) = NOTHING_ARRIVED.get(0) else { return };
    // If another processor is first with an insertion, its element is used.
    let new = u64::from(BPF_NOEXIST);
    let newcomer = NEWCOMERS.get_ptr_mut(key);
    if !is_admitted(key) {
        if newcomer.is_none() {
            let _ = NEWCOMERS.insert(key, nothing, new);
        }
        return;
    }
    let Some(before) = newcomer else {
        let _ = ARRIVED.insert(key, nothing, new);
        return;
    };
    // SAFETY: an element of a map, which stays valid for this run of the program. Arrivals that
    // another processor records in it from now on are lost, and receipts repair that.
    if ARRIVED.insert(key, unsafe { &*before }, new).is_ok() {
        let _ = NEWCOMERS.remove(key);
    }
}

/// Whether a lane may have a record among those of admitted sources. Notes the lane if so.
#[inline(always)]
fn is_admitted(key: &ArrivalKey) -> bool {
    let Some(lanes) = ADMITTED.get_ptr_mut(ArrivalKey { group: ANY_GROUP, ..*key }) else {
        return false;
    };
    for _ in 0..TRIES {
        // SAFETY: an aligned element of a map; other processors write it, hence volatile.
        let old = unsafe { lanes.read_volatile() };
        let Some(new) = arrivals::with_lane(old, key.group as u8) else { return false };
        // SAFETY: as above.
        if new == old || unsafe { atomic::replace(lanes, old, new) } {
            return true;
        }
    }
    false
}

/// Admits the source to which a registered receiver sends this RECEIPT.
#[inline(always)]
pub fn admit(datagram: &Datagram, header: &Header) {
    let (_, destination) = datagram.addresses();
    let key = ArrivalKey {
        // SAFETY: both are 16 bytes of plain data.
        source: unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(destination) },
        cookie: header.cookie(),
        source_port: datagram.destination_port,
        local_port: datagram.source_port,
        group: ANY_GROUP,
    };
    // The lookup also keeps the source among the recently used ones.
    if ADMITTED.get_ptr_mut(key).is_none() {
        let _ = ADMITTED.insert(key, 0, u64::from(BPF_NOEXIST));
    }
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
struct Element(*mut u64);

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

/// Writes the answer to a PROBE over its body in the packet, at `body`. Returns the difference of
/// the sums of the new and the old words. Not inlined, because the caller's stack is full.
///
/// # Safety
/// The body's bytes are inside the packet, or the verifier rejects the program.
#[inline(never)]
pub unsafe fn write_answer(element: *mut u64, slot: u32, body: usize) -> u64 {
    let mut difference = 0;
    let mut put = |index: usize, word: u32| {
        let at = body + 4 * index;
        // SAFETY: as the caller promises.
        unsafe {
            difference += sum_of_words(!load_u32(at)) + sum_of_words(word.to_be());
            store_u32(at, word.to_be());
        }
    };
    if element.is_null() {
        (0..PROBE_BODY_WORDS).for_each(|index| put(index, 0));
    } else {
        arrivals::answer_words(&Element(element), slot, put);
    }
    difference
}

/// The sum of the word's two 16-bit words.
#[inline(always)]
const fn sum_of_words(word: u32) -> u64 {
    (word & 0xffff) as u64 + (word >> 16) as u64
}
