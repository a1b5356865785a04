//! Cuts a TCP stream into frames.

use crate::framing::Framing;

/// The longest frame, bytes. A longer one is no frame.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

impl Framing {
    /// The length of the first frame with its head, once `bytes` contain it. `seen` of them were
    /// looked at before. The error says why the stream has another framing.
    fn frame_len(self, bytes: &[u8], seen: usize) -> Result<Option<usize>, String> {
        let len = match self {
            Self::Lines => {
                let end = bytes[seen..].iter().position(|byte| *byte == b'\n');
                match end {
                    Some(end) => seen + end + 1,
                    None if bytes.len() > FRAME_BYTES_MAX => bytes.len(),
                    None => return Ok(None),
                }
            }
            Self::U32Length => match bytes.first_chunk::<4>() {
                Some(len) => (u32::from_be_bytes(*len) as usize).saturating_add(4),
                None => return Ok(None),
            },
            Self::Syslog => match syslog_len(bytes)? {
                Some(len) => len,
                None => return Ok(None),
            },
        };
        if len > FRAME_BYTES_MAX {
            return Err(format!("a frame is longer than {FRAME_BYTES_MAX} bytes"));
        }
        Ok(Some(len))
    }
}

/// The length of a frame of syslog with its head.
fn syslog_len(bytes: &[u8]) -> Result<Option<usize>, String> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = digits <= 7 && bytes.first().is_none_or(|first| matches!(first, b'1'..=b'9'));
    let is_followed = bytes.get(digits).is_none_or(|after| digits > 0 && *after == b' ');
    if !is_number || !is_followed {
        return Err("a frame begins without a length and a space".to_owned());
    }
    let len = bytes[..digits].iter().fold(0, |len, digit| len * 10 + usize::from(digit - b'0'));
    Ok((digits < bytes.len()).then_some(digits + 1 + len))
}

/// Cuts a stream into frames.
pub struct Cutter {
    framing: Framing,
    bytes: Vec<u8>,
    /// The first byte that is in no frame yet.
    start: usize,
    /// Bytes from `start` on that were looked at before.
    seen: usize,
}

impl Cutter {
    pub fn new(framing: Framing) -> Self {
        Self { framing, bytes: Vec::new(), start: 0, seen: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame. After an error the rest begins with what is no frame.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, String> {
        let rest = &self.bytes[self.start..];
        let len = self.framing.frame_len(rest, self.seen)?.filter(|len| *len <= rest.len());
        let Some(len) = len else {
            self.seen = rest.len();
            return Ok(None);
        };
        let frame = self.start..self.start + len;
        (self.start, self.seen) = (frame.end, 0);
        Ok(Some(&self.bytes[frame]))
    }

    /// The bytes after the last whole frame.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames of a stream that comes in pieces of `piece` bytes, its rest, and the error.
    fn cut(framing: Framing, stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, Vec<u8>, String) {
        let (mut cutter, mut frames) = (Cutter::new(framing), Vec::new());
        for bytes in stream.chunks(piece) {
            cutter.push(bytes);
            loop {
                match cutter.next_frame() {
                    Ok(Some(frame)) => frames.push(frame.to_vec()),
                    Ok(None) => break,
                    Err(error) => return (frames, cutter.rest().to_vec(), error),
                }
            }
        }
        (frames, cutter.rest().to_vec(), String::new())
    }

    #[test]
    fn next_frame__cuts_at_any_piece() {
        for (framing, frames, rest) in [
            (Framing::Lines, &[&b"a\n"[..], b"\n", b"long line\n"][..], &b"rest"[..]),
            (Framing::U32Length, &[b"\0\0\0\x01x", b"\0\0\0\0"], b"\0\0\0\x02y"),
            (Framing::Syslog, &[b"3 a\nb", b"11 hello world"], b"5 x"),
        ] {
            let stream = [&frames.concat(), rest].concat();
            for piece in 1..=stream.len() {
                let (got, got_rest, error) = cut(framing, &stream, piece);
                assert_eq!((&got[..], &got_rest[..]), (&*owned(frames), rest), "{framing:?}");
                assert_eq!(error, "", "{framing:?}, pieces of {piece}");
            }
        }
    }

    fn owned(frames: &[&[u8]]) -> Vec<Vec<u8>> {
        frames.iter().map(|frame| frame.to_vec()).collect()
    }

    #[test]
    fn next_frame__loses_no_byte_of_another_framing() {
        for (framing, stream, words) in [
            (Framing::Syslog, &b"2 ok<34>Oct 11"[..], "without a length"),
            (Framing::Syslog, b"2 ok0 x", "without a length"),
            (Framing::Syslog, b"2 ok12x", "without a length"),
            (Framing::Syslog, b"2 ok12345678 x", "without a length"),
            (Framing::Syslog, b"2 ok9999999 x", "longer than"),
            (Framing::U32Length, b"\0\0\0\0GET / HTTP/1.1", "longer than"),
        ] {
            for piece in 1..=stream.len() {
                let (frames, rest, error) = cut(framing, stream, piece);
                assert!(error.contains(words), "{framing:?}: {error:?}");
                let cut: Vec<u8> = frames.concat().into_iter().chain(rest).collect();
                assert!(frames.len() == 1 && stream.starts_with(&cut), "{framing:?}: {cut:?}");
            }
        }
    }

    #[test]
    fn next_frame__refuses_an_endless_line() {
        let (frames, rest, error) = cut(Framing::Lines, &[b'a'; FRAME_BYTES_MAX + 1], 65_536);
        assert!(frames.is_empty() && rest.len() == FRAME_BYTES_MAX + 1, "{} bytes", rest.len());
        assert!(error.contains("longer than 1048576 bytes"), "{error}");
    }
}
