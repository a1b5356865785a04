//! Messages with content derived from their number, so that a receiver can check them.

use anyhow::{Result, bail, ensure};
use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufWriter, Write},
    ops::Range,
    path::Path,
};

/// The messages of a job.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The number of the first message.
    pub first: u32,
    /// The number of messages.
    pub messages: u32,
    /// The length of each message, at least 8 bytes.
    pub bytes: usize,
    /// Whether each message is a line of the file, rather than a piece of `bytes` bytes.
    pub lines: bool,
}

impl Load {
    /// Messages of one packet, one per line.
    pub const fn lines(messages: u32, bytes: usize) -> Self {
        Self { first: 0, messages, bytes, lines: true }
    }

    /// Messages that are pieces of `bytes` bytes.
    pub const fn pieces(messages: u32, bytes: usize) -> Self {
        Self { first: 0, messages, bytes, lines: false }
    }

    /// The content of message `number`: the number, then letters derived from it.
    pub fn message(&self, number: u32) -> Vec<u8> {
        let mut text = format!("{number:08x}").into_bytes();
        let mut state = u64::from(number) + 1;
        while text.len() < self.bytes {
            // Knuth's MMIX generator; its high bits are the random ones.
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text.push(b'a' + (state >> 59) as u8 % 26);
        }
        text
    }

    /// The numbers of all messages.
    pub const fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.messages
    }

    /// Writes all messages to a file in the format of `atp-user send`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for number in self.numbers() {
            file.write_all(&self.message(number))?;
            if self.lines {
                file.write_all(b"\n")?;
            }
        }
        Ok(file.flush()?)
    }

    /// Counts the messages in the file of `atp-user recv`. Each must be complete, without repeats.
    pub fn count(&self, received: &[u8]) -> Result<u32> {
        if self.lines {
            let received = received.strip_suffix(b"\n").unwrap_or(received);
            self.count_each(received.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()))
        } else {
            self.count_each(received.chunks(self.bytes))
        }
    }

    /// Counts messages. Each must be complete, and none may repeat.
    pub fn count_each<'a>(&self, messages: impl Iterator<Item = &'a [u8]>) -> Result<u32> {
        let mut seen = BTreeSet::new();
        for message in messages {
            let Some(number) = number_of(message).filter(|number| self.numbers().contains(number))
            else {
                bail!("a message was not sent: {:?}", String::from_utf8_lossy(message));
            };
            ensure!(message == self.message(number), "message {number} was altered");
            ensure!(seen.insert(number), "message {number} was delivered twice");
        }
        Ok(seen.len() as u32)
    }
}

fn number_of(message: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(message.get(..8)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count__finds_what_is_wrong() {
        let load = Load::lines(3, 20);
        let (zero, two) = (load.message(0), load.message(2));
        let text = |messages: &[&[u8]]| messages.join(&b'\n');
        assert_eq!(load.count(&text(&[&two, &zero])).unwrap(), 2);
        assert_eq!(load.count(b"").unwrap(), 0);
        assert!(load.count(&text(&[&two, &two])).is_err());
        assert!(load.count(&text(&[&two[..19]])).is_err());
        assert!(load.count(&Load::lines(9, 20).message(3)).is_err());
        let mut altered = two.clone();
        altered[15] ^= 1;
        assert!(load.count(&altered).is_err());
    }

    #[test]
    fn count__cuts_pieces() {
        let load = Load::pieces(2, 50);
        let both = [load.message(1), load.message(0)].concat();
        assert_eq!(load.count(&both).unwrap(), 2);
        assert!(load.count(&both[..99]).is_err());
    }
}
