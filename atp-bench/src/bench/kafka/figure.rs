//! A figure of the table: the median of a scheme's rounds, with their range.

use crate::median::{median, percentile};

/// Values that a median needs at least, and that a 99th percentile does: of fewer, it would be the
/// largest one.
const VALUES_MIN: (usize, usize) = (20, 100);

/// The median of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub median: f64,
    /// The least and the largest one; `None` of a single round.
    range: Option<(f64, f64)>,
}

impl Figure {
    /// `None` without values.
    pub fn over(values: impl IntoIterator<Item = f64>) -> Option<Figure> {
        let values: Vec<f64> = values.into_iter().collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = (values.len() > 1).then_some((least, most));
        Some(Figure { median: median(values)?, range })
    }

    /// The median and its unit, and the range in a second line, unless it is a point.
    pub fn text(self, number: impl Fn(f64) -> String, unit: &str) -> String {
        let median = number(self.median);
        let range = self.range.map(|(least, most)| (number(least), number(most)));
        match range.filter(|(least, most)| least != most) {
            Some((least, most)) => format!("{median}{unit}\n{least}-{most}"),
            None => format!("{median}{unit}"),
        }
    }
}

/// The 50th and the 99th percentile, of enough values.
pub fn percentiles(values: &[f64]) -> (Option<f64>, Option<f64>) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |share: f64, values_min: usize| {
        percentile(&values, share).filter(|_| values.len() >= values_min)
    };
    (at(0.5, VALUES_MIN.0), at(0.99, VALUES_MIN.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure__a_range_of_several_rounds() {
        let text = |values: &[f64]| {
            Figure::over(values.iter().copied()).map(|f| f.text(|ms| format!("{ms:.0}"), " ms"))
        };
        assert_eq!(text(&[7.0]).as_deref(), Some("7 ms"));
        assert_eq!(text(&[9.0, 7.0, 8.0]).as_deref(), Some("8 ms\n7-9"));
        assert_eq!(text(&[7.1, 7.2, 7.0]).as_deref(), Some("7 ms"));
        assert_eq!(text(&[]), None);
    }

    #[test]
    fn percentiles__of_enough_values() {
        let some = |number: u32| percentiles(&(1..=number).map(f64::from).collect::<Vec<_>>());
        assert_eq!(some(200), (Some(100.0), Some(198.0)));
        assert_eq!(some(99), (Some(50.0), None));
        assert_eq!(some(19), (None, None));
    }
}
