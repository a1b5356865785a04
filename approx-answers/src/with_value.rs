//! Records without a value are left out.

/// The records that have a value, and the number of those without.
pub(crate) fn with_value<Q>(
    records: impl IntoIterator<Item = (Q, impl Into<Option<f64>>)>,
) -> (Vec<(Q, f64)>, u64) {
    let mut missing = 0;
    let with_value = records.into_iter().filter_map(|(key, value)| {
        let value = value.into();
        missing += u64::from(value.is_none());
        Some((key, value?))
    });
    (with_value.collect(), missing)
}
