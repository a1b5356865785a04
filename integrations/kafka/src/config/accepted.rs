//! An accepted error in place of a rate.

use super::types::Share;
use approx_windows::Accepted;
use serde::Deserialize;

/// The error that is accepted of an average.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedConfig {
    /// How far an interval of the average may reach, as a share of it.
    pub error: Share,
    /// The confidence of the interval.
    #[serde(default = "confidence_default")]
    pub confidence: Share,
    /// The number in each record.
    pub number: NumberConfig,
}

/// Where a record's number is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "`number` is a JSON pointer such as \"/temperature\", or \
                               { f64_at = 0 }"
)]
pub enum NumberConfig {
    /// A JSON pointer (RFC 6901) into the value. An empty one is the whole value.
    Json(String),
    /// The first byte of a big-endian double in the value.
    Bytes(F64At),
}

/// The place of a big-endian double in a value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct F64At {
    /// The first of the eight bytes.
    pub f64_at: usize,
}

fn confidence_default() -> Share {
    Share(0.95)
}

impl AcceptedConfig {
    /// The error for windows.
    ///
    /// # Errors
    /// A sentence: the error or the confidence is out of range, or the pointer is none.
    pub fn accepted(&self) -> Result<Accepted, String> {
        if let NumberConfig::Json(pointer) = &self.number
            && !pointer.is_empty()
            && !pointer.starts_with('/')
        {
            return Err(format!(
                "`number` of [sampling.accepted] is no JSON pointer: write \"/{pointer}\""
            ));
        }
        Accepted::relative(self.error.0, self.confidence.0).map_err(|error| error.to_string())
    }
}

impl NumberConfig {
    /// The number in a record's value, if there is one.
    pub fn of(&self, value: &[u8]) -> Option<f64> {
        let number = match self {
            Self::Json(pointer) => {
                let json: serde_json::Value = serde_json::from_slice(value).ok()?;
                json.pointer(pointer)?.as_f64()?
            }
            Self::Bytes(F64At { f64_at }) => {
                let (bytes, _) = value.get(*f64_at..)?.split_first_chunk()?;
                f64::from_be_bytes(*bytes)
            }
        };
        // An integer that is read as a double is nearly always one that isn't normal.
        (number == 0.0 || number.is_normal()).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<AcceptedConfig, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn of__is_the_number_at_the_place() {
        let json = config("error = 0.02\nnumber = \"/room/t\"").unwrap().number;
        assert_eq!(json.of(br#"{"room": {"t": -1.5}}"#), Some(-1.5));
        for none in [&br#"{"room": {"t": "x"}}"#[..], b"{}", b"", b"\xff", b"{\"room\": 1e999}"] {
            assert_eq!(json.of(none), None, "{none:?}");
        }
        assert_eq!(NumberConfig::Json(String::new()).of(b"7"), Some(7.0));
        let bytes = config("error = 0.02\nnumber = { f64_at = 1 }").unwrap().number;
        let value = [&[9u8][..], &2.5f64.to_be_bytes(), b"rest"].concat();
        assert_eq!(bytes.of(&value), Some(2.5));
        assert_eq!(bytes.of(&value[..8]), None);
        assert_eq!(bytes.of(&[&[9u8][..], &1_000i64.to_be_bytes()].concat()), None);
        assert_eq!(bytes.of(&[&[9u8][..], &f64::NAN.to_be_bytes()].concat()), None);
        assert_eq!(NumberConfig::Bytes(F64At { f64_at: usize::MAX }).of(&value), None);
    }

    #[test]
    fn accepted__names_what_is_wrong() {
        let accepted = |text: &str| config(text).and_then(|config| config.accepted());
        accepted("error = 0.02\nconfidence = 0.99\nnumber = \"\"").unwrap();
        for (text, said) in [
            ("error = 0.02\nnumber = \"t\"", "write \"/t\""),
            ("error = 0.0\nnumber = \"/t\"", "above 0 and below 1"),
            ("error = 1.5\nnumber = \"/t\"", "above 0 and below 1"),
            ("error = 0.02\nconfidence = 95.0\nnumber = \"/t\"", "above 0 and below 1"),
            ("error = 0.02\nnumber = 7", "JSON pointer"),
            ("error = 0.02\nnumber = { f32_at = 0 }", "JSON pointer"),
            ("error = 0.02", "number"),
            ("error = 0.02\nnumber = \"/t\"\nfield = 1", "field"),
        ] {
            let refusal = accepted(text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(refusal.contains(said), "{text}: {refusal}");
        }
    }
}
