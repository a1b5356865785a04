//! Features that a receiver announces in the epoch field of its RECEIPTs, as bits.
//!
//! A sender uses a feature only after a RECEIPT announced it. Unknown bits are ignored.

/// The receiver takes DATA flagged [`super::Flags::BACKLOGGED`], and its RECEIPTs may carry
/// [`super::Advice`].
pub const FEATURE_ADVICE: u16 = 2;
