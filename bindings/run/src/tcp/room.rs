//! The room for frames at a program of the listening end, as both ends count it.

/// The bytes of frames that may wait for a program. A frame is shorter by far.
pub const ROOM_BYTES: u64 = 4 << 20;

/// Frames, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    pub frames: u64,
    pub bytes: u64,
}

impl Taken {
    pub const LEN: usize = 16;

    pub fn with(self, frames: u64, bytes: usize) -> Self {
        Self { frames: self.frames + frames, bytes: self.bytes + bytes as u64 }
    }

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.frames.to_be_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_be_bytes());
        bytes
    }

    pub fn of([frames @ .., a, b, c, d, e, f, g, h]: [u8; Self::LEN]) -> Self {
        let bytes = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self { frames: u64::from_be_bytes(frames), bytes }
    }
}

/// The client's count. A lost frame is never taken. The room that it holds is free again once its
/// window has ended and the program has all frames that were delivered.
#[derive(Default)]
pub struct Room {
    sent: Taken,
    /// Bytes of frames that were lost, as far as that is known.
    lost_bytes: u64,
    taken: Taken,
    /// The frames delivered and the bytes sent by the end of the last window.
    ended: Taken,
}

impl Room {
    pub fn note_sent(&mut self, frame: &[u8]) {
        self.sent = self.sent.with(1, frame.len());
    }

    /// A window has ended, and `delivered` frames of all windows so far have arrived.
    pub fn note_end(&mut self, delivered: u64) {
        self.ended = Taken { frames: delivered, bytes: self.sent.bytes };
        self.forget_lost();
    }

    /// The other program has taken so much. More than was sent is nothing that its library says.
    pub fn note_taken(&mut self, taken: Taken) {
        if taken.frames > self.sent.frames || taken.bytes > self.sent.bytes {
            return;
        }
        self.taken = taken;
        self.forget_lost();
    }

    pub fn is_there(&self, frame: &[u8]) -> bool {
        self.outstanding_bytes() + frame.len() as u64 <= ROOM_BYTES
    }

    fn outstanding_bytes(&self) -> u64 {
        self.sent.bytes.saturating_sub(self.lost_bytes + self.taken.bytes)
    }

    /// If the program has all frames delivered in the windows that have ended, only later ones are
    /// outstanding.
    fn forget_lost(&mut self) {
        if self.taken.frames >= self.ended.frames {
            let later_bytes = self.sent.bytes - self.ended.bytes;
            self.lost_bytes += self.outstanding_bytes().saturating_sub(later_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn to_bytes__are_read_again() {
        let taken = Taken { frames: 7, bytes: u64::MAX };
        assert_eq!(Taken::of(taken.to_bytes()), taken);
    }

    /// A server that tells more than it was sent gets no more than there is room for.
    #[test]
    fn note_taken__of_more_than_was_sent_gives_no_room() {
        let (mut room, frame) = (Room::default(), vec![0; ROOM_BYTES as usize]);
        room.note_sent(&frame);
        for (frames, bytes) in [(1, u64::MAX), (u64::MAX, ROOM_BYTES), (1, ROOM_BYTES + 1)] {
            room.note_taken(Taken { frames, bytes });
            room.note_end(1);
            assert!(!room.is_there(&[0]), "{frames} frames, {bytes} bytes");
        }
        room.note_taken(Taken { frames: 1, bytes: ROOM_BYTES });
        assert!(room.is_there(&frame));
    }

    /// Frames of which each `lost`th is lost, a program that takes some at a time, and a client
    /// that ends its window when it has no room: it is never stuck, and the bytes that wait are
    /// within the room.
    #[test]
    fn is_there__never_too_much_and_never_for_ever() {
        const FRAMES: u64 = 5_000;
        for lost in [2, 3, 10, u64::MAX] {
            for taken_at_once in [1, 100, 100_000] {
                let (mut room, mut waiting) = (Room::default(), VecDeque::new());
                let (mut taken, mut delivered, mut number) = (Taken::default(), 0, 0);
                let mut rounds_left = 10 * FRAMES;
                while number < FRAMES {
                    rounds_left -= 1;
                    assert!(rounds_left > 0, "stuck at frame {number}, {lost}, {taken_at_once}");
                    let frame = vec![0; 1 + (number * 7_919 % 5_000) as usize];
                    if room.is_there(&frame) {
                        room.note_sent(&frame);
                        number += 1;
                        if number % lost != 0 {
                            delivered += 1;
                            waiting.push_back(frame.len());
                        }
                    } else {
                        room.note_end(delivered);
                        for len in waiting.drain(..taken_at_once.min(waiting.len())) {
                            taken = taken.with(1, len);
                        }
                        room.note_taken(taken);
                    }
                    let bytes: usize = waiting.iter().sum();
                    assert!(number % 97 > 0 || bytes as u64 <= ROOM_BYTES, "{bytes} bytes wait");
                }
            }
        }
    }
}
