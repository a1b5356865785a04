//! The id of a job, given as a number or as a name.

use std::{convert::Infallible, fmt, str::FromStr};

/// The id of a job: any 32-bit number. Its sender and its receiver use the same.
///
/// A name stands for the FNV-1a hash of its UTF-8 bytes, so that hosts agree on the id without
/// asking each other. Two names among a thousand have the same id once in ten thousand times.
///
/// A decimal number as text is that number.
///
/// ```
/// use approxlib::JobId;
///
/// assert_eq!(JobId::from("7"), JobId::from(7));
/// assert_eq!(JobId::from("training").number(), 0x7b9b_7437);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u32);

impl JobId {
    /// The id as a number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl From<u32> for JobId {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl From<&str> for JobId {
    fn from(name: &str) -> Self {
        // Not "+7" or "007": a number has one form.
        if let Ok(number) = name.parse::<u32>()
            && number.to_string() == name
        {
            return Self(number);
        }
        let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        Self(name.bytes().fold(0x811c_9dc5, step))
    }
}

impl From<String> for JobId {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}

impl FromStr for JobId {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other implementations must agree. The values are those of the FNV reference.
    #[test]
    fn from__is_fnv_1a_of_a_name() {
        for (name, number) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(JobId::from(name).number(), number, "{name}");
        }
    }

    #[test]
    fn from__a_decimal_number_is_an_id() {
        for number in [0, 7, u32::MAX] {
            let text = number.to_string();
            assert_eq!(JobId::from(text.as_str()).number(), number);
            assert_eq!(text.parse(), Ok::<JobId, Infallible>(number.into()));
        }
        for name in ["+7", "007", "-7", "4294967296"] {
            assert_ne!(JobId::from(name).number(), 7, "{name} is a name");
        }
    }
}
