//! One message that is not whole yet.
//!
//! All packets of a message but the last have one length. The first of them to arrive says which;
//! from then on every packet has its place, in whatever order they come. The last packet may come
//! before the length is known: it is kept aside.

use crate::packets::PacketSet;
use atp_common::wire::SEGMENTATION_BITS;

/// One packet of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) message: u32,
    pub(crate) group: u8,
    pub(crate) index: u32,
    pub(crate) count: u32,
    /// Which cut of the message it is of.
    pub(crate) cut: u8,
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

/// What is here of one message.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) group: u8,
    pub(crate) message: u32,
    /// Bytes that this message counts for.
    pub(crate) cost_bytes: u64,
    /// When its first packet came, and its last so far.
    pub(crate) begun_ns: u64,
    pub(crate) touched_ns: u64,
    cut: u8,
    count: u32,
    here: PacketSet,
    here_number: u32,
    /// The length of every packet but the last; 0 while unknown.
    piece_bytes: u32,
    /// All pieces in their places; empty while `piece_bytes` is unknown.
    data: Vec<u8>,
    /// The last piece, while `piece_bytes` is unknown; afterwards empty.
    last: Vec<u8>,
    /// The last piece's length, once it is here.
    last_bytes: u32,
}

impl Partial {
    /// The message of `piece`, which isn't in it yet.
    pub(crate) fn new(now_ns: u64, piece: &Piece<'_>, cost_bytes: u64) -> Self {
        Self {
            group: piece.group,
            message: piece.message,
            cost_bytes,
            begun_ns: now_ns,
            touched_ns: now_ns,
            cut: piece.cut,
            count: piece.count,
            here: PacketSet::empty(piece.count),
            here_number: 0,
            piece_bytes: 0,
            data: Vec::new(),
            last: Vec::new(),
            last_bytes: 0,
        }
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        self.here.contains(index)
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.here_number == self.count
    }

    /// Whether the length of the packets is known, and there is room for all of them.
    pub(crate) fn has_places(&self) -> bool {
        self.piece_bytes != 0
    }

    /// Every packet but the last has `piece_bytes`: makes room for all of them.
    pub(crate) fn make_places(&mut self, piece_bytes: u32) {
        self.piece_bytes = piece_bytes;
        // Zeroed memory that the system gives page by page, as it is touched.
        self.data = vec![0; self.count as usize * piece_bytes as usize];
        let last = std::mem::take(&mut self.last);
        let start = (self.count - 1) as usize * piece_bytes as usize;
        self.data[start..start + last.len()].copy_from_slice(&last);
    }

    /// How long the message is if `piece` is its last one.
    pub(crate) fn end_bytes(&self, piece: &Piece<'_>) -> u64 {
        u64::from(self.count - 1) * u64::from(self.piece_bytes.max(1)) + piece.data.len() as u64
    }

    pub(crate) fn contradicts(&self, piece: &Piece<'_>) -> bool {
        let len = piece.data.len() as u32;
        let wrong_length = if piece.is_last() {
            // Here already with another length, or longer than the others.
            self.last_bytes != 0 && self.last_bytes != len
                || self.piece_bytes != 0 && len > self.piece_bytes
        } else {
            self.piece_bytes != 0 && self.piece_bytes != len || self.last_bytes > len
        };
        wrong_length || self.count != piece.count
    }

    /// How many cuts of the message later a piece is than what is here; less than 0: it is older.
    pub(crate) fn cuts_behind(&self, piece: &Piece<'_>) -> i8 {
        const UNUSED_BITS: u32 = u8::BITS - SEGMENTATION_BITS;
        (piece.cut.wrapping_sub(self.cut) << UNUSED_BITS) as i8 >> UNUSED_BITS
    }

    /// Keeps a piece that is new and doesn't contradict. Without places only the last can come.
    pub(crate) fn put(&mut self, piece: &Piece<'_>) {
        self.here.insert(piece.index);
        self.here_number += 1;
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
