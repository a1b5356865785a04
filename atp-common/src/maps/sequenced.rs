use bytemuck::{Pod, Zeroable};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// A value in shared memory that has one writer and any number of readers. A reader never sees two
/// writes mixed (a sequence lock), and the writer never waits.
///
/// This type only states the layout. [`write_sequenced`] and [`read_sequenced`] access it as words.
#[repr(C)]
pub struct Sequenced<T> {
    /// Odd while the value changes; grows by two with every write.
    pub sequence: u64,
    /// The value, a multiple of eight bytes long.
    pub value: T,
}

/// How often a reader tries again. A write takes well below a microsecond, but a writer may lose
/// its processor in the middle of one.
const ATTEMPTS_MAX: u32 = 1_000;

/// Writes a [`Sequenced`] value, given as its words. Only one thread may write it.
pub fn write_sequenced<T: Pod>(words: &[AtomicU64], value: &T) {
    let Some((sequence, memory)) = words.split_first() else { return };
    let before = sequence.load(Relaxed);
    sequence.store(before | 1, Relaxed);
    // No word of the value may be stored before the odd number.
    fence(Release);
    let bytes = bytemuck::bytes_of(value);
    for (word, bytes) in memory.iter().zip(bytes.as_chunks().0) {
        word.store(u64::from_ne_bytes(*bytes), Relaxed);
    }
    sequence.store((before | 1).wrapping_add(1), Release);
}

/// Reads a [`Sequenced`] value, given as its words. `None` if it changed during every attempt, as
/// it would if its writer was stopped in the middle of a write.
pub fn read_sequenced<T: Pod + Zeroable>(words: &[AtomicU64]) -> Option<T> {
    let (sequence, memory) = words.split_first()?;
    let mut value = T::zeroed();
    for _ in 0..ATTEMPTS_MAX {
        let before = sequence.load(Relaxed);
        if before % 2 == 0 {
            fence(Acquire);
            let bytes = bytemuck::bytes_of_mut(&mut value);
            for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(memory) {
                *bytes = word.load(Relaxed).to_ne_bytes();
            }
            // No word of the value may be loaded after the second look at the number.
            fence(Acquire);
            if sequence.load(Relaxed) == before {
                return Some(value);
            }
        }
        core::hint::spin_loop();
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{sync::atomic::AtomicBool, thread};

    fn memory<const WORDS: usize>() -> [AtomicU64; WORDS] {
        [const { AtomicU64::new(0) }; WORDS]
    }

    #[test]
    fn read_sequenced__never_mixes_two_writes() {
        let memory = memory::<17>();
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=200_000u64 {
                    write_sequenced(&memory, &[number; 16]);
                }
                has_ended.store(true, Release);
            });
            while !has_ended.load(Acquire) {
                if let Some(value) = read_sequenced::<[u64; 16]>(&memory) {
                    assert_eq!(value, [value[0]; 16]);
                }
            }
        });
        assert_eq!(read_sequenced(&memory), Some([200_000u64; 16]));
    }

    #[test]
    fn read_sequenced__ends_if_the_writer_was_stopped() {
        let memory = memory::<2>();
        memory[0].store(7, Relaxed);
        assert_eq!(read_sequenced::<u64>(&memory), None);
        // The next write repairs it.
        write_sequenced(&memory, &9u64);
        assert_eq!(read_sequenced(&memory), Some(9u64));
    }
}
