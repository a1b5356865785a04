//! The shortest messages and the longest, through the kernel's datapath.

use crate::library::LibraryJob;
use anyhow::Result;
use approxlib::JobBuilder;
use atp_tests::hosts::{Family, Pair};

crate::trials! {
    sizes__one_byte,
    sizes__64_mib,
}

const LONGEST_BYTES: usize = 64 << 20;

fn sizes__one_byte() -> Result<()> {
    for family in [Family::V4, Family::V6] {
        for msr in [1.0, 0.5] {
            run(family, 2_000, msr, |id| vec![(id ^ id >> 8) as u8], |builder| builder)?;
        }
    }
    Ok(())
}

/// Longer than the sender's buffer, unless it is told; where half may be left out, all are in it at once.
fn sizes__64_mib() -> Result<()> {
    run(Family::V6, 2, 1.0, long, |builder| builder)?;
    let all = |builder: JobBuilder| builder.buffer_bytes(4 * LONGEST_BYTES as u64);
    run(Family::V4, 4, 0.5, long, all)
}

fn run(
    family: Family,
    messages: u32,
    msr: f64,
    message: fn(u32) -> Vec<u8>,
    options: fn(JobBuilder) -> JobBuilder,
) -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let (from, to) = ((&pair.a, &a), (&pair.b, &b));
    LibraryJob { from, to, family, messages, msr, message, options }.run().map(drop)
}

/// No part of it is another part of it, or of another one.
fn long(id: u32) -> Vec<u8> {
    let (mut data, mut state) = (vec![0; LONGEST_BYTES], u64::from(id));
    for chunk in data.chunks_exact_mut(8) {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    data
}
