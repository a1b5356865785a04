//! Converts minimal sampling rates (MSR) from and to fractions. The laws use integers.

use atp_common::units::Msr;

const PARTS: f64 = 1e9;

/// The MSR nearest to a fraction of messages, in parts per billion; `None` outside 0 to 1.
pub fn msr_from_fraction(fraction: f64) -> Option<Msr> {
    let parts = (0.0..=1.0).contains(&fraction).then(|| (fraction * PARTS).round() as u32)?;
    Msr::from_parts_per_billion(parts)
}

/// The fraction of messages that an MSR requires.
pub fn fraction_from_msr(msr: Msr) -> f64 {
    f64::from(msr.parts_per_billion()) / PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msr_from_fraction__is_the_nearest_one() {
        for parts in [0, 1, 3, 299_999_999, 700_000_000, 999_999_999, 1_000_000_000] {
            let msr = Msr::from_parts_per_billion(parts).unwrap();
            assert_eq!(msr_from_fraction(fraction_from_msr(msr)), Some(msr));
        }
        // A sum of tenths is slightly below nine tenths.
        let tenths = (0..9).map(|_| 0.1).sum::<f64>();
        assert_eq!(msr_from_fraction(tenths), Msr::from_parts_per_billion(900_000_000));
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(msr_from_fraction(wrong), None, "{wrong}");
        }
    }
}
