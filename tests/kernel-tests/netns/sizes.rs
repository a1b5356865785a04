//! Tests the shortest and the longest messages on the kernel datapath.

use crate::library::LibraryJob;
use anyhow::Result;
use approxlib::JobBuilder;
use testbed::{Family, Pair};

crate::trials! {
    sizes__one_byte,
    sizes__64_mib,
}

const LONGEST_BYTES: usize = 64 << 20;

fn sizes__one_byte() -> Result<()> {
    let message = |id| vec![(id ^ id >> 8) as u8];
    on_a_cable(|job| {
        for family in [Family::V4, Family::V6] {
            for msr in [1.0, 0.5] {
                LibraryJob { family, messages: 2_000, msr, message, ..job }.run()?;
            }
        }
        Ok(())
    })
}

/// A message exceeds the sender's default buffer. The job of MSR 0.5 has a buffer for all messages.
fn sizes__64_mib() -> Result<()> {
    let message = long;
    let options = |builder: JobBuilder| builder.buffer_bytes(4 * LONGEST_BYTES as u64);
    on_a_cable(|job| {
        LibraryJob { family: Family::V6, messages: 2, msr: 1.0, message, ..job }.run()?;
        LibraryJob { messages: 4, msr: 0.5, message, options, ..job }.run().map(drop)
    })
}

fn on_a_cable(jobs: impl FnOnce(LibraryJob<'_>) -> Result<()>) -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    jobs(LibraryJob::new((&pair.a, &a), (&pair.b, &b)))
}

/// A message of pseudorandom bytes: no two parts of messages are equal.
fn long(id: u32) -> Vec<u8> {
    let (mut data, mut state) = (vec![0; LONGEST_BYTES], u64::from(id));
    for chunk in data.chunks_exact_mut(8) {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    data
}
