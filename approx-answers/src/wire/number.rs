//! Numbers that may be infinite, which JSON has no numbers for.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Other(Other),
}

#[derive(Deserialize, Serialize)]
enum Other {
    #[serde(rename = "inf")]
    Infinity,
    #[serde(rename = "-inf")]
    NegativeInfinity,
    #[serde(rename = "nan")]
    Nan,
}

pub(crate) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let other = match *number {
        f64::INFINITY => Other::Infinity,
        f64::NEG_INFINITY => Other::NegativeInfinity,
        number if number.is_nan() => Other::Nan,
        number => return Number::Finite(number).serialize(serializer),
    };
    other.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(match Number::deserialize(deserializer)? {
        Number::Finite(number) => number,
        Number::Other(Other::Infinity) => f64::INFINITY,
        Number::Other(Other::NegativeInfinity) => f64::NEG_INFINITY,
        Number::Other(Other::Nan) => f64::NAN,
    })
}
