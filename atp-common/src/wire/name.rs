//! The name of a group: a short text for people.

use core::fmt;

/// The name of a group, at most 32 bytes of UTF-8 without control characters. It may be empty.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct GroupName([u8; Self::BYTES_MAX]);

impl GroupName {
    /// The longest name, bytes.
    pub const BYTES_MAX: usize = 32;
    /// No name.
    pub const EMPTY: Self = Self([0; Self::BYTES_MAX]);

    /// A name; `None` if it is too long or has a control character.
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        (!name.chars().any(char::is_control)).then_some(Self(bytes))
    }

    /// A name as it is in a packet: padded with zeros.
    pub fn from_wire(bytes: &[u8; Self::BYTES_MAX]) -> Option<Self> {
        let name = Self(*bytes);
        let text = core::str::from_utf8(&bytes[..name.len()]).ok()?;
        let is_padded = bytes[name.len()..].iter().all(|byte| *byte == 0);
        (is_padded && !text.chars().any(char::is_control)).then_some(name)
    }

    /// The name, padded with zeros.
    pub const fn bytes(&self) -> &[u8; Self::BYTES_MAX] {
        &self.0
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        // Every constructor has checked the text.
        core::str::from_utf8(&self.0[..self.len()]).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::BYTES_MAX)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn from_wire__takes_every_name(name in "\\PC{0,12}") {
            let Some(parsed) = GroupName::new(&name) else {
                prop_assert!(name.len() > GroupName::BYTES_MAX || name.contains(char::is_control));
                return Ok(());
            };
            prop_assert_eq!(parsed.as_str(), &name);
            prop_assert_eq!(GroupName::from_wire(parsed.bytes()), Some(parsed));
        }
    }

    #[test]
    fn from_wire__rejects_what_no_name_is() {
        let padded = |text: &[u8]| {
            let mut bytes = [0; GroupName::BYTES_MAX];
            bytes[..text.len()].copy_from_slice(text);
            bytes
        };
        for wrong in [&b"a\0b"[..], b"\x1b[2J", b"\xff", b"\xc3", "\u{85}".as_bytes()] {
            assert_eq!(GroupName::from_wire(&padded(wrong)), None, "{wrong:?}");
        }
        let longest = "x".repeat(GroupName::BYTES_MAX);
        assert_eq!(GroupName::new(&longest).unwrap().as_str(), longest);
        assert_eq!(GroupName::new(&format!("{longest}x")), None);
        assert_eq!(GroupName::new("a\nb"), None);
    }
}
