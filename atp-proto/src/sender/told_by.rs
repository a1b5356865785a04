//! Which processes of the receiver have named messages of a window, or stated its end.

/// A process that is restarted lacks the messages that the one before has named, and may have as
/// many others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToldBy {
    #[default]
    Nobody,
    /// The process that began at this time of its clock.
    One(u32),
    Several,
}

impl ToldBy {
    /// Notes a RECEIPT of the process that began then, or an end that it states.
    pub(super) fn note(&mut self, begun: u32) {
        *self = match *self {
            Self::Nobody => Self::One(begun),
            Self::One(known) if known == begun => Self::One(known),
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}
