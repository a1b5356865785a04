//! How a program divides a TCP stream into messages.

use anyhow::{Result, bail};

/// Where a frame of a stream begins and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Framing {
    /// Each frame ends with a line feed.
    Lines,
    /// A length in four bytes, the highest first, then so many bytes.
    U32Length,
    /// Octet counting of syslog (RFC 6587, 3.4.1): a decimal length, a space, then so many bytes.
    Syslog,
}

impl Framing {
    pub fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "lines" => Self::Lines,
            "u32-length" => Self::U32Length,
            "syslog" => Self::Syslog,
            _ => bail!("tcp has the framings lines, u32-length or syslog, not {text:?}"),
        })
    }
}
