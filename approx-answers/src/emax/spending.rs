//! Alpha spending: how much of the risk of a wrong interval each look may use.

use statrs::distribution::{ContinuousCDF, Normal};

/// A plan may use this share of the risk that is left. If a plan turns out to need more messages
/// at its last look, the next one has the rest.
const PLAN_SHARE: f64 = 0.9;

/// The risk that is left, over the looks of one plan or several.
///
/// The spending function is that of O'Brien and Fleming's type (Lan and DeMets 1983). Each look
/// spends the growth of the function since the previous look. So any number of looks together stays
/// below alpha. The information fraction is the variance that the plan wants, divided by the
/// current variance (Mehta and Tsiatis 2001).
#[derive(Clone, Copy, Debug)]
pub(super) struct Spending {
    left: f64,
    /// The risk that the current plan has spent.
    spent: f64,
}

impl Spending {
    pub fn new(alpha: f64) -> Self {
        Self { left: alpha, spent: 0.0 }
    }

    /// The risk of the current plan's last look, if it had no look before.
    pub fn plan(&self) -> f64 {
        PLAN_SHARE * self.left
    }

    /// The risk that a look at this fraction of the information may take. A look at 1 or more is
    /// the last one of its plan.
    pub fn look(&mut self, fraction: f64) -> f64 {
        let plan = self.plan();
        let cumulative = spent(plan, fraction.clamp(0.0, 1.0)).max(self.spent);
        let alpha = cumulative - self.spent;
        self.spent = cumulative;
        if fraction >= 1.0 {
            self.left -= plan;
            self.spent = 0.0;
        }
        alpha
    }

    /// All that is left, for a look after which none can come.
    pub fn last(&mut self) -> f64 {
        let alpha = self.left - self.spent;
        self.left = self.spent;
        alpha
    }
}

/// `2 - 2 Phi(z / sqrt(t))`: little at first, and alpha at t = 1.
fn spent(alpha: f64, fraction: f64) -> f64 {
    if fraction <= 0.0 {
        return 0.0;
    }
    let z = Normal::standard().inverse_cdf(1.0 - alpha / 2.0);
    2.0 * Normal::standard().sf(z / fraction.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spent__is_the_published_function() {
        // Lan and DeMets' values for alpha = 0.05, two-sided.
        let table = [(0.25, 0.00009), (0.5, 0.00557), (0.75, 0.02363), (1.0, 0.05), (0.0, 0.0)];
        for (fraction, expected) in table {
            assert!((spent(0.05, fraction) - expected).abs() < 1e-5, "{fraction}");
        }
    }

    #[test]
    fn look__all_looks_together_stay_below_alpha() {
        for fractions in
            [vec![0.1, 0.4, 1.0], vec![1.5; 20], vec![0.9; 9], vec![0.5, 0.2, 1.0, 0.3]]
        {
            let mut spending = Spending::new(0.05);
            let looks: f64 = fractions.iter().map(|&fraction| spending.look(fraction)).sum();
            let total = looks + spending.last();
            assert!((total - 0.05).abs() < 1e-9, "{fractions:?}: {total}");
            assert_eq!(spending.last(), 0.0);
        }
    }

    #[test]
    fn look__the_last_one_has_nearly_all() {
        let mut spending = Spending::new(0.05);
        assert!(spending.look(0.25) < 1e-4);
        assert!(spending.look(1.0) > 0.0448);
    }
}
