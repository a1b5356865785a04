//! One incomplete message.
//!
//! All packets of a message but the last have one length. The first of them to arrive shows that
//! length. From then on every packet has a fixed offset, in any order of arrival. If the last
//! packet comes before the length is known, it is kept separately.

use crate::packets::PacketSet;
use atp_common::wire::SEGMENTATION_BITS;

/// One packet of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) message: u32,
    pub(crate) group: u8,
    pub(crate) index: u32,
    pub(crate) count: u32,
    /// The number of the message's segmentation.
    pub(crate) segmentation: u8,
    pub(crate) data: &'a [u8],
}

impl Piece<'_> {
    pub(crate) fn key(&self) -> (u8, u32) {
        (self.group, self.message)
    }

    pub(crate) fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }
}

/// The arrived packets of one message.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) group: u8,
    pub(crate) message: u32,
    /// The bytes that this message counts for in the limits.
    pub(crate) cost_bytes: u64,
    /// When its first packet came.
    pub(crate) begun_ns: u64,
    /// When its latest packet came.
    pub(crate) touched_ns: u64,
    segmentation: u8,
    count: u32,
    arrived: PacketSet,
    arrived_number: u32,
    /// The length of every packet but the last; 0 while unknown.
    piece_bytes: u32,
    /// All pieces at their offsets; empty while `piece_bytes` is unknown.
    data: Vec<u8>,
    /// The last piece while `piece_bytes` is unknown; empty afterwards.
    last: Vec<u8>,
    /// The last piece's length; 0 until it has arrived.
    last_bytes: u32,
}

impl Partial {
    /// The message of `piece`, without that piece.
    pub(crate) fn new(now_ns: u64, piece: &Piece<'_>, cost_bytes: u64) -> Self {
        Self {
            group: piece.group,
            message: piece.message,
            cost_bytes,
            begun_ns: now_ns,
            touched_ns: now_ns,
            segmentation: piece.segmentation,
            count: piece.count,
            arrived: PacketSet::empty(piece.count),
            arrived_number: 0,
            piece_bytes: 0,
            data: Vec::new(),
            last: Vec::new(),
            last_bytes: 0,
        }
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        self.arrived.contains(index)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.arrived_number == self.count
    }

    /// Whether the length of the packets is known, and memory for all of them allocated.
    pub(crate) fn is_allocated(&self) -> bool {
        self.piece_bytes != 0
    }

    /// Allocates memory for all packets: every packet but the last has `piece_bytes`.
    pub(crate) fn allocate(&mut self, piece_bytes: u32) {
        self.piece_bytes = piece_bytes;
        // Zeroed memory, which the system provides page by page when it is touched.
        self.data = vec![0; self.count as usize * piece_bytes as usize];
        let last = std::mem::take(&mut self.last);
        let start = (self.count - 1) as usize * piece_bytes as usize;
        self.data[start..start + last.len()].copy_from_slice(&last);
    }

    /// The length of the message if `piece` is its last one.
    pub(crate) fn end_bytes(&self, piece: &Piece<'_>) -> u64 {
        u64::from(self.count - 1) * u64::from(self.piece_bytes.max(1)) + piece.data.len() as u64
    }

    pub(crate) fn contradicts(&self, piece: &Piece<'_>) -> bool {
        let len = piece.data.len() as u32;
        let wrong_length = if piece.is_last() {
            // It has arrived already with another length, or it is longer than the others.
            self.last_bytes != 0 && self.last_bytes != len
                || self.piece_bytes != 0 && len > self.piece_bytes
        } else {
            self.piece_bytes != 0 && self.piece_bytes != len || self.last_bytes > len
        };
        wrong_length || self.count != piece.count
    }

    /// How many segmentations later a piece is than the arrived ones; negative for an earlier
    /// piece.
    pub(crate) fn segmentations_behind(&self, piece: &Piece<'_>) -> i8 {
        const UNUSED_BITS: u32 = u8::BITS - SEGMENTATION_BITS;
        (piece.segmentation.wrapping_sub(self.segmentation) << UNUSED_BITS) as i8 >> UNUSED_BITS
    }

    /// Keeps a piece that is new and doesn't contradict the others. Before [`Partial::allocate`] it
    /// must be the last one.
    pub(crate) fn put(&mut self, piece: &Piece<'_>) {
        self.arrived.insert(piece.index);
        self.arrived_number += 1;
        if piece.is_last() {
            self.last_bytes = piece.data.len() as u32;
        }
        if self.piece_bytes == 0 {
            self.last = piece.data.to_vec();
            return;
        }
        let start = piece.index as usize * self.piece_bytes as usize;
        self.data[start..start + piece.data.len()].copy_from_slice(piece.data);
    }

    pub(crate) fn into_data(mut self) -> Vec<u8> {
        let len = (self.count - 1) as usize * self.piece_bytes as usize + self.last_bytes as usize;
        self.data.truncate(len);
        self.data
    }
}
