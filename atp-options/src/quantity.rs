//! Parses numbers with units: `200mbit`, `2ms`.

use atp_common::units::Share;
use std::time::Duration;

/// A rate in bytes per second, from `N`, `Nkbit`, `Nmbit` or `Ngbit`: bits per second, as in tc.
pub fn rate_bytes_per_s(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let bits_per_unit = match unit {
        "" | "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(format!("`{text}` has an unknown unit: use bit, kbit, mbit or gbit")),
    };
    let bytes = number * bits_per_unit / 8.0;
    if (1_000.0..=50e9).contains(&bytes) {
        Ok(bytes.round() as u64)
    } else {
        Err(format!("`{text}` is outside the range 8kbit to 400gbit"))
    }
}

/// A duration, from `Nus`, `Nms` or `Ns`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("`{text}` needs a unit: us, ms or s")),
    };
    Duration::try_from_secs_f64(number * seconds_per_unit)
        .map_err(|error| format!("`{text}` is not a duration: {error}"))
}

/// A minimal sampling rate (MSR), from `0` to `1`.
pub fn msr(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(msr) if (0.0..=1.0).contains(&msr) => Ok(msr),
        _ => Err(format!("`{text}` is not an MSR: use a number between 0 and 1")),
    }
}

/// A share from `0.0001` to `1`.
pub fn positive_share(text: &str) -> Result<Share, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0001..=1.0).contains(&share) => {
            Ok(Share::from_q16((share * Q16_ONE).round() as u32))
        }
        _ => Err(format!("`{text}` is not a share: use a number from 0.0001 to 1")),
    }
}

/// The text of a share, which [`positive_share`] reads as the same share.
pub fn share_text(share: Share) -> String {
    (f64::from(share.q16()) / Q16_ONE).to_string()
}

/// One as the Q16 value of a share.
const Q16_ONE: f64 = 65_536.0;

fn split(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    match number.parse::<f64>() {
        Ok(number) => Ok((number, unit)),
        Err(_) => Err(format!("`{text}` doesn't begin with a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_bytes_per_s__knows_tc_units() {
        assert_eq!(rate_bytes_per_s("200mbit"), Ok(25_000_000));
        assert_eq!(rate_bytes_per_s("1.5gbit"), Ok(187_500_000));
        for bad in ["", "fast", "200", "5parsec", "-1mbit", "900gbit", "nan"] {
            assert!(rate_bytes_per_s(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn duration__needs_a_unit() {
        assert_eq!(duration("2ms"), Ok(Duration::from_millis(2)));
        assert!(duration("2").is_err() && duration("2 ms").is_err());
    }

    #[test]
    fn positive_share__and_back() {
        for q16 in (7..=1 << 16).step_by(97) {
            let share = Share::from_q16(q16);
            assert_eq!(positive_share(&share_text(share)), Ok(share));
        }
        for bad in ["0", "1.01", "nan", "a tenth"] {
            assert!(positive_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn msr__is_between_0_and_1() {
        assert_eq!(msr("0.8"), Ok(0.8));
        for bad in ["1.01", "-0.1", "nan", "all"] {
            assert!(msr(bad).is_err(), "{bad}");
        }
    }
}
