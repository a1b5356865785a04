//! Numbers that only the two ends of a connection know, or only one process.

use rand::{TryRng, rngs::SysRng};
use std::io;

/// 64 bits of the kernel's random source. It can't be printed: no log, report or daemon shows it.
///
/// A guess is a message, and no answer tells how much of it is right. The comparison of one word
/// takes the same time for each.
#[derive(Clone, Copy, PartialEq)]
pub struct Secret(u64);

impl Secret {
    pub const LEN: usize = 8;

    /// Draws one. A fork copies the state of a generator in the process, but not the kernel's.
    pub fn draw() -> io::Result<Self> {
        SysRng.try_next_u64().map(Self).map_err(io::Error::other)
    }

    pub fn bytes(self) -> [u8; Self::LEN] {
        self.0.to_be_bytes()
    }

    pub const fn of(bytes: [u8; Self::LEN]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draw__gives_another_one_each_time() {
        let [one, other] = [Secret::draw().unwrap(), Secret::draw().unwrap()];
        assert!(one != other && Secret::of(one.bytes()) == one);
    }
}
