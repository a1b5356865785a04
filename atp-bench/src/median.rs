//! Medians and percentiles.

/// The middle value, or the mean of the two middle values; `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// As [`median`], rounded down to a count; 0 without values.
pub fn median_count(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    let Some(upper) = values.get(values.len() / 2) else { return 0 };
    values[(values.len() - 1) / 2].midpoint(*upper)
}

/// The value of the nearest rank; `None` without values. `share` is 0.99 for the 99th percentile.
pub fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median__middle_of_any_number() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
        assert_eq!(median_count(vec![9, 1, 5]), 5);
        assert_eq!(median_count(vec![15_710, 15_584]), 15_647);
        assert_eq!(median_count(vec![4, 1, 2, 3]), 2, "rounded down");
        assert_eq!(median_count(vec![]), 0);
    }

    #[test]
    fn percentile__nearest_ranks() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([0.5, 0.99].map(|share| percentile(&values, share)), [Some(100.0), Some(198.0)]);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
