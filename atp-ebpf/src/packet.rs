//! Loads and stores packet memory, with one instruction each.
//!
//! Headers have no alignment. For memory of alignment 1 the compiler would load byte by byte: a
//! 64-bit word in 22 instructions. The kernel allows unaligned packet access wherever the processor
//! does. With inline assembly, no misaligned reference exists in Rust.

use core::arch::asm;

macro_rules! load {
    ($name:ident, $value:ty, $width:literal) => {
        /// Reads a native-endian word.
        ///
        /// # Safety
        /// All its bytes are inside the packet, or the verifier rejects the program.
        #[inline(always)]
        pub unsafe fn $name(at: usize) -> $value {
            let value: u64;
            // SAFETY: one load from memory that the caller, and again the verifier, proved to be
            // inside the packet.
            unsafe {
                asm!(
                    concat!("{value} = *(", $width, " *)({at} + 0)"),
                    value = lateout(reg) value,
                    at = in(reg) at,
                    options(readonly, nostack, preserves_flags),
                );
            }
            value as $value
        }
    };
}

macro_rules! store {
    ($name:ident, $value:ty, $width:literal) => {
        /// Writes a native-endian word.
        ///
        /// # Safety
        /// All its bytes are inside the packet, or the verifier rejects the program. The packet is
        /// writable: a tc program's prologue ensures that.
        #[inline(always)]
        pub unsafe fn $name(at: usize, value: $value) {
            // SAFETY: one store to memory that the caller, and again the verifier, proved to be
            // inside the packet.
            unsafe {
                asm!(
                    concat!("*(", $width, " *)({at} + 0) = {value}"),
                    at = in(reg) at,
                    value = in(reg) u64::from(value),
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

load!(load_u16, u16, "u16");
load!(load_u32, u32, "u32");
load!(load_u64, u64, "u64");
store!(store_u16, u16, "u16");
store!(store_u32, u32, "u32");
store!(store_u64, u64, "u64");

/// Reads one byte.
///
/// # Safety The byte is inside the packet, or the verifier rejects the program.
#[inline(always)]
pub unsafe fn load_u8(at: usize) -> u8 {
    // SAFETY: as the caller promises; a byte is always aligned.
    unsafe { core::ptr::read_volatile(at as *const u8) }
}

/// Keeps the compiler from computing this address again in another register. The verifier knows the
/// bounds only of the register that was compared with the packet's end, not of an equal one.
#[inline(always)]
pub fn keep(mut at: usize) -> usize {
    // SAFETY: moves a register to itself.
    unsafe { asm!("{0} = {0}", inout(reg) at, options(pure, nomem, nostack, preserves_flags)) }
    at
}
