//! Features that a receiver announces in the epoch field of its RECEIPTs, as bits.

/// A receiving library's features beyond the first version of the protocol, as bits of the epoch
/// field of its receipts. Earlier libraries write 0, and senders ignore unknown bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Features(u16);

impl Features {
    /// It takes packed packets: see [`super::PackedBody`].
    pub const PACKED: Self = Self(1);
    /// It takes DATA flagged [`super::Flags::BACKLOGGED`], and its receipts may carry
    /// [`super::Advice`].
    pub const ADVICE: Self = Self(2);
    /// It takes TERMS, and names the revision that it has in the count field of its receipts: see
    /// [`super::TermsBody`].
    pub const TERMS: Self = Self(4);
    /// It takes DATA flagged [`super::Flags::WINDOW`], and its receipts name their window: see
    /// [`super::Header::window`].
    pub const OVERLAP: Self = Self(8);
    /// It takes TERMS that state an [`super::Order`], or that short messages come first.
    pub const ORDER: Self = Self(16);

    /// The features in the epoch field of a receipt.
    pub const fn from_wire(epoch: u16) -> Self {
        Self(epoch)
    }

    /// The bits for the epoch field of a receipt.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The features of both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every feature of `other` is there.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
