//! Prints a header as one readable line: the fields that mean something for its kind.
//!
//! The cookie is left out: it is a secret, and lines like these end up in logs.

use super::{Advice, Flags, Header, Kind, PROBE_SLOTS, ParseError, ResetReason};
use core::fmt::{self, Display, Formatter};

impl Display for Header {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind() {
            Ok(kind) => kind,
            Err(error) => return write!(f, "invalid header: {error}"),
        };
        write!(f, "{kind}")?;
        let mut separator = " ";
        for name in self.flags().names(kind) {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        write!(f, " job {} group {}", self.job(), self.group())?;
        match kind {
            Kind::Data | Kind::Ack => self.fmt_data(f),
            Kind::Probe | Kind::ProbeAck => self.fmt_probe(f),
            Kind::Receipt => self.fmt_receipt(f),
            Kind::Fin | Kind::FinAck => self.fmt_fin(f),
            Kind::Reset => self.fmt_reset(f),
            Kind::Terms => self.fmt_terms(f),
            Kind::Request => write!(f, " slot {} time {}", self.slot(), self.time()),
        }
    }
}

impl Header {
    fn fmt_data(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.flags().contains(Flags::PACKED) {
            write!(f, " {} messages from {}", self.count(), self.message())?;
        } else {
            write!(f, " message {} packet {}/{}", self.message(), self.index(), self.count())?;
            write!(f, " segmentation {}", self.segmentation())?;
        }
        if let Some(window) = self.window() {
            write!(f, " window {window}")?;
        }
        write!(f, " slot {}", self.slot())?;
        write!(f, " epoch {} time {}", self.epoch(), self.time())
    }

    fn fmt_probe(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (first, end) = (self.slot(), self.slot().wrapping_add(PROBE_SLOTS));
        write!(f, " number {} slots {first}..{end}", self.index())?;
        write!(f, " next slot {} epoch {} time {}", self.message(), self.epoch(), self.time())
    }

    fn fmt_receipt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " number {}", self.index())?;
        if let Some(window) = self.window() {
            write!(f, " window {window}")?;
        }
        write!(f, " slot {} time {}", self.slot(), self.time())?;
        if self.epoch() != 0 {
            write!(f, " features {}", self.epoch())?;
        }
        if self.count() != 0 {
            write!(f, " terms {}", self.count())?;
        }
        match Advice::from_wire(self.message()) {
            Advice::NONE => Ok(()),
            advice => write!(f, " advice {} bytes/s", advice.bytes_per_s()),
        }
    }

    fn fmt_fin(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " attempt {} page {}/{}", self.index(), self.epoch(), self.count())?;
        write!(f, " messages {} slot {} time {}", self.message(), self.slot(), self.time())
    }

    fn fmt_terms(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " revision {} page {}/{}", self.index(), self.epoch(), self.count())?;
        write!(f, " slot {} time {}", self.slot(), self.time())
    }

    fn fmt_reset(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " message {} slot {} reason ", self.message(), self.slot())?;
        match ResetReason::from_wire(self.epoch()) {
            Some(reason) => write!(f, "{} ({})", self.epoch(), reason.explain()),
            None => write!(f, "{} (unknown)", self.epoch()),
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for ParseError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "shorter than 32 bytes",
            Self::NotAtp => "the first byte is not ATP's",
            Self::Version => "unknown version",
            Self::Kind => "unknown kind",
            Self::Flags => "a flag that this kind does not have",
            Self::Index => "packet index not below packet count",
            Self::Slot => "slot not a multiple of 32",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Features, Fields, Flags};
    use super::*;

    fn header(kind: Kind, flags: Flags, epoch: u16) -> Header {
        Header::new(&Fields {
            kind,
            flags,
            group: 9,
            job: 1,
            cookie: 2,
            message: if kind == Kind::Receipt { 0 } else { 3 },
            index: 4,
            count: 5,
            epoch,
            slot: 64,
            time: 8,
        })
    }

    #[test]
    fn header__prints_one_line_for_each_kind() {
        let data = header(Kind::Data, Flags::BACKLOGGED.with(Flags::NO_ACK), 6);
        let data = data.with_segmentation(2);
        let data_line = "DATA BACKLOGGED|NO_ACK job 1 group 9 message 3 packet 4/5 segmentation 2 \
                         slot 64 epoch 6 time 8";
        let ack_line = "ACK CONGESTION|BACKLOGGED|NO_ACK job 1 group 9 message 3 packet 4/5 \
                        segmentation 2 slot 64 epoch 6 time 8";
        let packed = header(Kind::Data, Flags::PACKED.with(Flags::WHOLE_WINDOW), 6);
        let packed_line =
            "DATA PACKED|WHOLE_WINDOW job 1 group 9 5 messages from 3 slot 64 epoch 6 time 8";
        assert_eq!(packed.to_string(), packed_line);
        let fin = header(Kind::Fin, Flags::FORCED, 2);
        let fin_ack = header(Kind::FinAck, Flags::FORCED.with(Flags::ENDED), 2);
        let none = |kind, epoch| header(kind, Flags::NONE, epoch);
        let lines = [
            (data, data_line),
            (data.into_ack(true), ack_line),
            (
                none(Kind::Probe, 6),
                "PROBE job 1 group 9 number 4 slots 64..320 next slot 3 epoch 6 time 8",
            ),
            (none(Kind::Receipt, 0), "RECEIPT job 1 group 9 number 4 slot 64 time 8 terms 5"),
            (fin, "FIN FORCED job 1 group 9 attempt 4 page 2/5 messages 3 slot 64 time 8"),
            (
                fin_ack,
                "FIN-ACK FORCED|ENDED job 1 group 9 attempt 4 page 2/5 messages 3 slot 64 time 8",
            ),
            (
                none(Kind::Reset, 1),
                "RESET job 1 group 9 message 3 slot 64 \
                 reason 1 (the receiver does not accept this job)",
            ),
            (
                none(Kind::ProbeAck, 6),
                "PROBE-ACK job 1 group 9 number 4 slots 64..320 next slot 3 epoch 6 time 8",
            ),
            (none(Kind::Terms, 2), "TERMS job 1 group 9 revision 4 page 2/5 slot 64 time 8"),
            (none(Kind::Request, 0), "REQUEST job 1 group 9 slot 64 time 8"),
        ];
        for ((header, line), kind) in lines.into_iter().zip(Kind::ALL) {
            assert_eq!(header.kind(), Ok(kind));
            assert_eq!(header.to_string(), line);
        }
    }

    #[test]
    fn header__prints_features_and_advice_of_a_receipt() {
        let header = Header::new(&Fields {
            group: 9,
            job: 1,
            cookie: 2,
            message: Advice::of(125_000_000).to_wire(),
            index: 4,
            epoch: Features::ADVICE.bits(),
            slot: 64,
            time: 8,
            ..Fields::of(Kind::Receipt)
        });
        let line = "RECEIPT job 1 group 9 number 4 slot 64 time 8 features 2 \
                    advice 125000000 bytes/s";
        assert_eq!(header.to_string(), line);
    }

    #[test]
    fn header__prints_an_unknown_reason_by_its_number() {
        let reset = header(Kind::Reset, Flags::NONE, 77).to_string();
        assert_eq!(reset, "RESET job 1 group 9 message 3 slot 64 reason 77 (unknown)");
    }

    #[test]
    fn header__prints_why_it_is_invalid() {
        let foreign = header(Kind::Probe, Flags::MORE, 0);
        let line = "invalid header: a flag that this kind does not have";
        assert_eq!(foreign.to_string(), line);
    }
}
