//! Packet kinds, and the flags that each kind may carry.

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// One packet of a message.
    Data = 1,
    /// The packet reached its host: a DATA header sent back, with the ECN mark seen.
    Ack = 2,
    /// Asks the receiver's datapath which of a range of slots arrived: see [`super::ProbeBody`].
    Probe = 3,
    /// Messages are complete and in the receiving library's hands. Made by that library.
    Receipt = 4,
    /// The job or a window has ended, with the sender's counts.
    Fin = 5,
    /// The answer to FIN, with the receiver's counts.
    FinAck = 6,
    /// The receiver rejects the job, for a given reason.
    Reset = 7,
    /// A PROBE, answered in place.
    ProbeAck = 8,
    /// N, MSR and name of each group, from the sender: see [`super::TermsBody`].
    Terms = 9,
    /// The receiver asks for other sampling rates, or for the end: see [`super::RequestBody`].
    Request = 10,
}

impl Kind {
    /// Every kind, by its number.
    pub const ALL: [Self; 10] = [
        Self::Data,
        Self::Ack,
        Self::Probe,
        Self::Receipt,
        Self::Fin,
        Self::FinAck,
        Self::Reset,
        Self::ProbeAck,
        Self::Terms,
        Self::Request,
    ];

    pub(super) const fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Probe,
            4 => Self::Receipt,
            5 => Self::Fin,
            6 => Self::FinAck,
            7 => Self::Reset,
            8 => Self::ProbeAck,
            9 => Self::Terms,
            10 => Self::Request,
            _ => return None,
        })
    }

    /// The name of the kind, as the documentation writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "DATA",
            Self::Ack => "ACK",
            Self::Probe => "PROBE",
            Self::Receipt => "RECEIPT",
            Self::Fin => "FIN",
            Self::FinAck => "FIN-ACK",
            Self::Reset => "RESET",
            Self::ProbeAck => "PROBE-ACK",
            Self::Terms => "TERMS",
            Self::Request => "REQUEST",
        }
    }

    /// Flags that packets of this kind may carry. An ACK echoes the flags of its DATA, and may add
    /// one.
    pub const fn flags(self) -> Flags {
        match self {
            Self::Data => Flags::RETRANSMIT
                .with(Flags::ORDERED)
                .with(Flags::PACKED)
                .with(Flags::BACKLOGGED)
                .with(Flags::NO_ACK)
                .with(Flags::WHOLE_WINDOW)
                .with(Flags::WINDOW),
            Self::Ack => Self::Data.flags().with(Flags::CONGESTION),
            Self::Fin | Self::FinAck => Flags::FORCED.with(Flags::MORE).with(Flags::ENDED),
            Self::Probe | Self::ProbeAck | Self::Receipt | Self::Reset => Flags::NONE,
            Self::Terms | Self::Request => Flags::NONE,
        }
    }

    /// [`Kind::flags`] as bits, by one shift. The verifier has no branches to follow, and no map
    /// holds a table.
    #[inline(always)]
    pub(super) const fn flag_bits(self) -> u8 {
        let position = self as u32 - 1;
        if position < u64::BITS / 8 { (FLAGS_OF_KINDS >> (8 * position)) as u8 } else { 0 }
    }
}

/// [`Kind::flags`] of the kinds 1 to 8, one byte each. Later kinds have no flags.
const FLAGS_OF_KINDS: u64 = {
    let (mut all, mut value) = (0, 1);
    while let Some(kind) = Kind::from_wire(value) {
        if value <= 8 {
            all |= (kind.flags().0 as u64) << (8 * (value - 1));
        } else {
            assert!(kind.flags().0 == 0);
        }
        value += 1;
    }
    all
};

/// Flag bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(pub(super) u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// In an ACK: the DATA packet arrived with the ECN mark "congestion experienced".
    pub const CONGESTION: Self = Self(1);
    /// In DATA: this packet of this segmentation was sent before. In a packed packet: one of its
    /// messages was.
    pub const RETRANSMIT: Self = Self(2);
    /// In DATA: the message is of an exact group. The application gets all its messages, in order.
    pub const ORDERED: Self = Self(4);
    /// In FIN: the job or window ends with the messages delivered so far, because the job was
    /// canceled or the deadline passed. In FIN-ACK: a FIN with this flag ended it.
    pub const FORCED: Self = Self(8);
    /// In DATA: the packet holds several whole messages (see [`super::PackedBody`]). The bit is
    /// FORCED in FIN.
    pub const PACKED: Self = Self(8);
    /// In FIN: a window ends, and another follows. In FIN-ACK: the FIN that ended it said so.
    pub const MORE: Self = Self(16);
    /// In DATA: the lane has more to send than it has sent. Only for receivers that announced
    /// [`super::Features::ADVICE`]. It has the bit of [`Self::MORE`], which DATA doesn't have.
    pub const BACKLOGGED: Self = Self(16);
    /// In DATA: no ACK for this packet. Its sender will send a PROBE (see [`super::ProbeBody`]).
    pub const NO_ACK: Self = Self(32);
    /// In DATA with [`Self::WINDOW`]: the window's number is below [`super::WINDOWS`], so the header
    /// names it in full.
    pub const WHOLE_WINDOW: Self = Self(64);
    /// In DATA of a job that may have several windows: the header names the packet's window. See
    /// [`super::Header::window`].
    /// The bit is ENDED in FIN.
    pub const WINDOW: Self = Self(128);
    /// In FIN-ACK: the receiver accepts nothing more of this window; its counts are final. In FIN:
    /// the sender knows that the job has ended; this FIN gets no answer.
    pub const ENDED: Self = Self(128);

    /// The flags of DATA and ACK with their names, by bit.
    const OF_DATA: &'static [(Self, &'static str)] = &[
        (Self::CONGESTION, "CONGESTION"),
        (Self::RETRANSMIT, "RETRANSMIT"),
        (Self::ORDERED, "ORDERED"),
        (Self::PACKED, "PACKED"),
        (Self::BACKLOGGED, "BACKLOGGED"),
        (Self::NO_ACK, "NO_ACK"),
        (Self::WHOLE_WINDOW, "WHOLE_WINDOW"),
        (Self::WINDOW, "WINDOW"),
    ];
    /// The flags of FIN and FIN-ACK with their names, by bit.
    const OF_FIN: &'static [(Self, &'static str)] =
        &[(Self::FORCED, "FORCED"), (Self::MORE, "MORE"), (Self::ENDED, "ENDED")];

    /// The names of the set flags, by bit, in a packet of `kind`. A bit's flag depends on the kind.
    pub fn names(self, kind: Kind) -> impl Iterator<Item = &'static str> {
        let known = match kind {
            Kind::Fin | Kind::FinAck => Self::OF_FIN,
            _ => Self::OF_DATA,
        };
        known.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| *name)
    }

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of flags in the protocol's documentation.
    #[test]
    fn flags__belong_to_their_kinds() {
        let kinds = [
            (Kind::Data, 0b1111_1110),
            (Kind::Ack, 0b1111_1111),
            (Kind::Probe, 0),
            (Kind::Receipt, 0),
            (Kind::Fin, 0b1001_1000),
            (Kind::FinAck, 0b1001_1000),
            (Kind::Reset, 0),
            (Kind::ProbeAck, 0),
            (Kind::Terms, 0),
            (Kind::Request, 0),
        ];
        for (kind, flags) in kinds {
            assert_eq!(kind.flags(), Flags(flags), "{kind:?}");
            assert_eq!(kind.flag_bits(), flags, "{kind:?}");
        }
    }

    #[test]
    fn names__of_every_kind_by_bit() {
        for kind in Kind::ALL {
            let all = kind.flags();
            assert_eq!(all.names(kind).count(), all.0.count_ones() as usize, "{kind}");
        }
        let all = |kind: Kind| kind.flags().names(kind).collect::<Vec<_>>();
        assert_eq!(all(Kind::FinAck), ["FORCED", "MORE", "ENDED"]);
        let of_data =
            ["RETRANSMIT", "ORDERED", "PACKED", "BACKLOGGED", "NO_ACK", "WHOLE_WINDOW", "WINDOW"];
        assert_eq!(all(Kind::Data), of_data);
    }
}
