//! Random orders of many rows.

use rand::{Rng, seq::SliceRandom};

/// So many rows are shuffled at once: their numbers fit a processor's cache.
const ROWS_MAX: usize = 1 << 16;
/// A byte names a bucket.
const BUCKETS: usize = 256;

/// The numbers of so many rows in a random order, all orders alike.
///
/// Swaps across a table of millions of rows wait for memory. So each row is first put into a random
/// bucket, and then each bucket is shuffled (Rao 1961, Sandelius 1962).
pub fn random_order(rows: usize, draws: &mut impl Rng) -> Vec<u64> {
    if rows <= ROWS_MAX {
        let mut order: Vec<u64> = (0..rows as u64).collect();
        order.shuffle(draws);
        return order;
    }
    let mut buckets = vec![0u8; rows];
    draws.fill_bytes(&mut buckets);
    let mut sizes = [0; BUCKETS];
    buckets.iter().for_each(|bucket| sizes[usize::from(*bucket)] += 1);
    let begins = sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(*end - size)
    });
    let mut places: Vec<usize> = begins.collect();
    let mut order = vec![0; rows];
    for (row, bucket) in (0..).zip(buckets) {
        let place = &mut places[usize::from(bucket)];
        order[*place] = row;
        *place += 1;
    }
    let mut rest = &mut order[..];
    for size in sizes {
        let (bucket, after) = rest.split_at_mut(size);
        bucket.shuffle(draws);
        rest = after;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Each sixteenth of the rows is spread over the sixteenths of the order as chance has it.
    #[test]
    fn random_order__puts_rows_everywhere_alike() {
        const PARTS: usize = 16;
        for rows in [40_000, 200_000] {
            let order = random_order(rows, &mut ChaCha8Rng::seed_from_u64(1));
            let mut counts = [[0.0; PARTS]; PARTS];
            for (place, row) in order.iter().enumerate() {
                counts[place * PARTS / rows][*row as usize * PARTS / rows] += 1.0;
            }
            let expected = rows as f64 / (PARTS * PARTS) as f64;
            let square = |count: &f64| (count - expected).powi(2) / expected;
            let chi: f64 = counts.iter().flatten().map(square).sum();
            // 225 degrees of freedom, with a standard deviation of 21. The seed is fixed.
            assert!((140.0..330.0).contains(&chi), "{chi}");
            let mut sorted = order;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..rows as u64));
        }
    }

    /// No order is more likely than another: the neighbors of a row are any rows.
    #[test]
    fn random_order__leaves_no_neighbors_together() {
        let order = random_order(200_000, &mut ChaCha8Rng::seed_from_u64(2));
        let neighbors = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        // Two are expected.
        assert!(neighbors < 15, "{neighbors}");
    }
}
