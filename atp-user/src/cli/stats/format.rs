//! Numbers for people: three digits and a unit.

/// A rate in bits per second.
pub fn rate(bytes_per_s: u64) -> String {
    let bits = bytes_per_s as f64 * 8.0;
    scaled(bits, &[(1e9, " Gbit/s"), (1e6, " Mbit/s"), (1e3, " kbit/s"), (1.0, " bit/s")])
}

/// A count: exact up to 9999.
pub fn count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        _ => scaled(count as f64, &[(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]),
    }
}

/// Events per second.
pub fn per_second(per_s: f64) -> String {
    match per_s {
        0.0 => "0/s".into(),
        _ => scaled(per_s, &[(1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")]),
    }
}

/// A time that is given in microseconds.
pub fn time_us(us: f64) -> String {
    scaled(us, &[(1e6, " s"), (1e3, " ms"), (1.0, " us")])
}

/// The sum of rates in bytes per second, some of which may be unknown.
pub fn rates(rates: impl Iterator<Item = Option<u64>> + Clone) -> String {
    let known = rates.clone().flatten().reduce(u64::saturating_add);
    match (known, rates.clone().any(|rate| rate.is_none())) {
        (None, true) => "-".into(),
        (sum, false) => rate(sum.unwrap_or(0)),
        (Some(sum), true) => format!(">{}", rate(sum)),
    }
}

/// A share from 0 to 1, in percent.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        100.0.. => "100%".into(),
        percent => format!("{percent:.1}%"),
    }
}

/// A duration of seconds to days.
pub fn duration(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min {:02} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {:02} min", s / 3_600, s / 60 % 60),
        _ => format!("{} d {:02} h", s / 86_400, s / 3_600 % 24),
    }
}

/// Three digits of `value`, in the largest unit that it fills, or in the last one.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let fits = |(size, _): &&(f64, &str)| value >= size * 0.9995;
    let Some((size, unit)) = units.iter().find(fits).or(units.last()) else {
        return String::new();
    };
    let value = value / size;
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled__has_three_digits() {
        assert_eq!(rate(1_543_210), "12.3 Mbit/s");
        assert_eq!(rate(124_999_999), "1.00 Gbit/s");
        assert_eq!(rate(0), "0.00 bit/s");
        assert_eq!([count(9_999), count(10_000), count(12_345_678)], ["9999", "10.0k", "12.3M"]);
        assert_eq!([time_us(99.96), time_us(1_234.5)], ["100 us", "1.23 ms"]);
        assert_eq!([percent(0.0), percent(0.1234), percent(1.0)], ["0.0%", "12.3%", "100%"]);
        assert_eq!(per_second(0.25), "0.25/s");
    }

    #[test]
    fn rates__says_what_is_unknown() {
        let sums = [vec![], vec![None], vec![Some(125), None], vec![Some(125), Some(125)]];
        let texts = sums.map(|sum| rates(sum.into_iter()));
        assert_eq!(texts, ["0.00 bit/s", "-", ">1.00 kbit/s", "2.00 kbit/s"]);
    }

    #[test]
    fn duration__has_two_units() {
        assert_eq!(
            [59.9, 61.0, 7_260.0, 90_000.0].map(duration),
            ["59 s", "1 min 01 s", "2 h 01 min", "1 d 01 h"]
        );
    }
}
