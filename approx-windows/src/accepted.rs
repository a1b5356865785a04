//! An accepted error in place of a rate.

use approx_answers::{AcceptedError, AnswerError, Confidence};

/// The error that is accepted of the average of each group of a window.
///
/// Rates are chosen from the numbers of all records, which only their sender knows: so as many are
/// sent as an interval of that width needs, and MSR at least. Records are drawn with the share that
/// the window before needed, or with most of them in a cutter's first window. At a window's end its
/// own need is known, and what is missing is sent.
///
/// Records without a number are left out or sent like others, so that the sample has as many
/// numbers as needed on average only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accepted {
    error: AcceptedError,
    confidence: Confidence,
}

impl Accepted {
    /// An error as a share of the average, such as 0.02, which an interval of this confidence,
    /// such as 0.95, may reach.
    ///
    /// # Errors
    /// The share isn't above 0, or the confidence isn't between 0 and 1.
    pub fn relative(share: f64, confidence: f64) -> Result<Self, AnswerError> {
        let confidence = Confidence::new(confidence)?;
        Ok(Self { error: AcceptedError::relative(share)?, confidence })
    }

    /// The rate of a group of which no window has ended.
    pub(crate) fn first_rate(self) -> f64 {
        self.error.first_msr()
    }
}

/// The numbers of all records of a group, by Welford's method.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Numbers {
    /// Takes a record's number. Those that aren't finite have no average.
    pub(crate) fn push(&mut self, number: f64) {
        if !number.is_finite() {
            return;
        }
        self.count += 1;
        let before = number - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (number - self.mean);
    }

    /// The share of the records that must be sent: all if none has a number.
    pub(crate) fn share_needed(&self, Accepted { error, confidence }: Accepted) -> f64 {
        if self.count == 0 {
            return 1.0;
        }
        let variance = self.squares / (self.count as f64 - 1.0).max(1.0);
        let needed = error.records_needed(self.count, self.mean, variance, confidence);
        needed as f64 / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(numbers: impl IntoIterator<Item = f64>) -> f64 {
        let mut all = Numbers::default();
        numbers.into_iter().for_each(|number| all.push(number));
        all.share_needed(Accepted::relative(0.05, 0.95).unwrap())
    }

    #[test]
    fn share_needed__grows_with_the_variance() {
        let numbers = |spread: f64| (0..10_000).map(move |n| 100.0 + spread * f64::from(n % 3 - 1));
        // 5 % of 100, and a variance of two thirds of the spread's square.
        let [calm, wide, wild] = [1.0, 60.0, 600.0].map(|spread| share(numbers(spread)));
        assert_eq!(calm, 0.003);
        assert!((wide - 370.0 / 10_000.0).abs() < 2e-3 && wild > 0.7, "{wide}, {wild}");
    }

    #[test]
    fn share_needed__all_without_an_average() {
        assert_eq!(share([]), 1.0);
        assert_eq!(share([f64::NAN, f64::INFINITY]), 1.0);
        assert_eq!(share([-1.0, 1.0].repeat(500)), 1.0);
        assert_eq!(share([f64::MAX, -f64::MAX].repeat(500)), 1.0);
    }
}
