//! Sampling rates as the shares that people write: the laws' own units are whole numbers.

use atp_common::units::Msr;

const PARTS: f64 = 1e9;

/// The sampling rate of a share of messages, to the nearest part in a billion; `None` but for 0 to 1.
pub fn msr_of_share(share: f64) -> Option<Msr> {
    let parts = (0.0..=1.0).contains(&share).then(|| (share * PARTS).round() as u32)?;
    Msr::from_parts_per_billion(parts)
}

/// The share of messages that a sampling rate is.
pub fn share_of_msr(msr: Msr) -> f64 {
    f64::from(msr.parts_per_billion()) / PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msr_of_share__is_the_nearest_and_nothing_beyond() {
        for parts in [0, 1, 3, 299_999_999, 700_000_000, 999_999_999, 1_000_000_000] {
            let msr = Msr::from_parts_per_billion(parts).unwrap();
            assert_eq!(msr_of_share(share_of_msr(msr)), Some(msr));
        }
        // Slightly less than nine tenths, as it comes out of a sum.
        let tenths = (0..9).map(|_| 0.1).sum::<f64>();
        assert_eq!(msr_of_share(tenths), Msr::from_parts_per_billion(900_000_000));
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(msr_of_share(wrong), None, "{wrong}");
        }
    }
}
