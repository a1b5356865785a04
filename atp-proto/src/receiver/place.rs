//! Names one of the windows that are open, and compares windows of which only the number modulo
//! [`WINDOWS`] is known.

use atp_common::wire::WINDOWS;

/// One of the open windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Present,
    Closing,
}

/// How the number of the current window is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Not in full: it is that of the last DATA, modulo [`WINDOWS`]. No DATA is taken.
    Modulo,
    /// DATA named it in full, so it is below [`WINDOWS`]. The job may have gone on to any other.
    ByData,
    /// A FIN or TERMS told it, or this process has followed the job from there.
    Told,
}

/// How far a window is ahead of another, both modulo [`WINDOWS`]: -32 to 31.
pub(crate) fn ahead(of: u32, window: u32) -> i32 {
    let ahead = (of.wrapping_sub(window) % WINDOWS) as i32;
    if ahead < WINDOWS as i32 / 2 { ahead } else { ahead - WINDOWS as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ahead__wraps() {
        assert_eq!([ahead(3, 3), ahead(4, 67), ahead(3, 4), ahead(63, 64)], [0, 1, -1, -1]);
        assert_eq!((ahead(64, 63), ahead(u32::MAX, 0), ahead(40, 0)), (1, -1, -24));
    }
}
