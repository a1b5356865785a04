//! Moments of squares around a mean that is known only at the end.

use super::Moments;
use crate::total::Total;

/// The messages' records `n`, the sums `s` of their values and `q` of the values' squares, as the
/// moments of pairs. The sum of the squares around any other center is `q - 2 center s + center^2
/// n`, and its moments follow from these.
pub(crate) struct Squares<'a> {
    /// `x = n` and `y = s`.
    pub sums: &'a Moments,
    /// `x = n` and `y = q`.
    pub squares: &'a Moments,
    /// `x = s` and `y = q`.
    pub both: &'a Moments,
    /// `x = n + s` and `y = q`, which tell the third powers `n s q`.
    pub mixed: &'a Moments,
}

impl Squares<'_> {
    /// The moments of `n` and of the squares around a center.
    pub fn around(&self, center: f64) -> Moments {
        let Self { sums, squares, both, mixed } = *self;
        // The squares are q + a s + b n.
        let (a, b) = (-2.0 * center, center * center);
        let [nn, ss, qq] = [sums.squares_x, sums.squares_y, squares.squares_y];
        let [ns, nq, sq] = [sums.products, squares.products, both.products];
        let [nnn, nns, nss, sss] = sums.cubes;
        let [_, nnq, nqq, qqq] = squares.cubes;
        let [_, ssq, sqq, _] = both.cubes;
        let nsq = (mixed.cubes[1] - nnq - ssq) / 2.0;
        let sum = squares.sum_y() + a * sums.sum_y() + b * sums.sum_x();
        let mean = (sums.mean_x, squares.mean_y + a * sums.mean_y + b * sums.mean_x);
        let cubes = [
            nnn,
            nnq + a * nns + b * nnn,
            nqq + a * a * nss + b * b * nnn + 2.0 * (a * nsq + b * nnq + a * b * nns),
            qqq + a * a * a * sss
                + b * b * b * nnn
                + 3.0 * (a * sqq + b * nqq + a * a * ssq + b * b * nnq)
                + 3.0 * a * b * (b * nns + a * nss)
                + 6.0 * a * b * nsq,
        ];
        Moments {
            mean_y: mean.1,
            total_y: Total::of(sum.max(0.0)),
            squares_y: qq + a * a * ss + b * b * nn + 2.0 * (a * sq + b * nq + a * b * ns),
            products: nq + a * ns + b * nn,
            cubes,
            alike: sums.alike.min(squares.alike),
            // The most extreme message isn't known by its squares around this center: the third
            // powers tell of it.
            smallest: mean,
            largest: mean,
            ..*sums
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(messages: &[(f64, f64)]) -> Moments {
        let mut moments = Moments::default();
        messages.iter().for_each(|&(x, y)| moments.push(x, y));
        moments
    }

    proptest! {
        /// As if each message had brought its squares around that center.
        #[test]
        fn around__agrees_with_squares_around_the_center(
            messages in prop::collection::vec(prop::collection::vec(-3.0..3.0, 0..5), 1..40),
            center in -2.0..2.0,
        ) {
            let sums: Vec<[f64; 3]> = messages.iter().map(|values: &Vec<f64>| {
                let squares = values.iter().map(|value| value * value).sum();
                [values.len() as f64, values.iter().sum(), squares]
            }).collect();
            let pairs = |pair: fn(&[f64; 3]) -> (f64, f64)| {
                of(&sums.iter().map(pair).collect::<Vec<_>>())
            };
            let found = Squares {
                sums: &pairs(|[n, s, _]| (*n, *s)),
                squares: &pairs(|[n, _, q]| (*n, *q)),
                both: &pairs(|[_, s, q]| (*s, *q)),
                mixed: &pairs(|[n, s, q]| (n + s, *q)),
            }.around(center);
            let square = |value: &f64| (value - center) * (value - center);
            let expected: Vec<(f64, f64)> = messages.iter().map(|values| {
                (values.len() as f64, values.iter().map(square).sum())
            }).collect();
            let expected = of(&expected);
            let near = |one: f64, other: f64| (one - other).abs() < 1e-9 * (1.0 + other.abs());
            prop_assert!(near(found.mean_x(), expected.mean_x()));
            prop_assert!(near(found.mean_y(), expected.mean_y()));
            prop_assert!(near(found.squares_y, expected.squares_y));
            prop_assert!(near(found.products, expected.products));
            for (one, other) in found.cubes.into_iter().zip(expected.cubes) {
                // Their sum has cancelled from up to 40 messages of 5 values below 25.
                prop_assert!((one - other).abs() < 1e-9 * 40.0 * 125f64.powi(3), "{one} {other}");
            }
        }
    }
}
