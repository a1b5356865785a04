//! The header.
//!
//! ```text
//! byte  0        1         2         3
//!    0  magic    ver|kind  flags     group
//!    4  job
//!    8  cookie
//!   12  message
//!   16  packet index        (24 bits) | segmentation (6 bits), packet count ...
//!       or window (6 bits), index (18 bits)
//!   20  ... packet count    (18 bits) | epoch
//!   24  slot
//!   28  send time
//! ```

use super::{
    features::Features,
    kind::{Flags, Kind},
};
use bytemuck::{Pod, Zeroable};

/// Bytes of a header.
pub const HEADER_LEN: usize = 32;
/// The only version.
pub const VERSION: u8 = 1;
/// The greatest number of 24 bits: a packet index, and the numbers of receipts and FINs.
pub const U24_MAX: u32 = (1 << 24) - 1;
/// The greatest packet count: 64 MiB in packets of the smallest path MTU need 18 bits.
pub const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
/// Bits of a message's segmentation number.
pub const SEGMENTATION_BITS: u32 = 6;

const COUNT_BITS: u32 = 24 - SEGMENTATION_BITS;
const WINDOW_BITS: u32 = 24 - COUNT_BITS;
/// A header names a window modulo this number.
pub const WINDOWS: u32 = 1 << WINDOW_BITS;

const MAGIC: u8 = 0xa7;
/// A unit of the header's time is 2^10 ns.
const TIME_SHIFT: u32 = 10;

/// A header as it is in a packet. `Display` prints it as one readable line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    magic: u8,
    version_kind: u8,
    flags: u8,
    group: u8,
    job: [u8; 4],
    cookie: [u8; 4],
    message: [u8; 4],
    index: [u8; 3],
    count: [u8; 3],
    epoch: [u8; 2],
    slot: [u8; 4],
    time: [u8; 4],
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN && align_of::<Header>() == 1);

/// The reason why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Fewer than 32 bytes.
    Short,
    /// The first byte is not ATP's.
    NotAtp,
    /// An unknown version.
    Version,
    /// An unknown kind.
    Kind,
    /// A flag that this kind of packet doesn't have.
    Flags,
    /// DATA or ACK whose packet index is not below its packet count.
    Index,
    /// A PROBE, or its answer, whose first slot is not a multiple of 32.
    Slot,
}

/// The fields of a header, to build one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The packet's kind.
    pub kind: Kind,
    /// Flag bits.
    pub flags: Flags,
    /// The message's group.
    pub group: u8,
    /// The job's id.
    pub job: u32,
    /// The sender's secret, echoed by every answer.
    pub cookie: u32,
    /// The message's id, counted from 0 by its sender, in its group and window.
    pub message: u32,
    /// Which packet of the message, below `count`; 24 bits.
    pub index: u32,
    /// Packets of the message; 18 bits.
    pub count: u32,
    /// The lane's epoch in which the packet was sent.
    pub epoch: u16,
    /// The slot in which the delivery of this packet is recorded: see [`crate::maps::ack_ring`].
    pub slot: u32,
    /// Send time in units of 1,024 ns, wrapping.
    pub time: u32,
}

impl Fields {
    /// The fields of a packet of this kind: no flags, and 0 in all others. DATA and ACK need a
    /// count besides.
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            flags: Flags::NONE,
            group: 0,
            job: 0,
            cookie: 0,
            message: 0,
            index: 0,
            count: 0,
            epoch: 0,
            slot: 0,
            time: 0,
        }
    }
}

impl Header {
    /// Reads a header from the start of a UDP payload, and rejects anything else.
    pub fn parse(payload: &[u8]) -> Result<(Self, Kind), ParseError> {
        let Some(bytes) = payload.first_chunk::<HEADER_LEN>() else {
            return Err(ParseError::Short);
        };
        let header: Self = bytemuck::cast(*bytes);
        header.kind().map(|kind| (header, kind))
    }

    /// Checks everything that a header alone can show, and returns the packet's kind.
    #[inline(always)]
    pub const fn kind(&self) -> Result<Kind, ParseError> {
        if self.magic != MAGIC {
            return Err(ParseError::NotAtp);
        }
        if self.version_kind >> 4 != VERSION {
            return Err(ParseError::Version);
        }
        let Some(kind) = Kind::from_wire(self.version_kind & 0xf) else {
            return Err(ParseError::Kind);
        };
        if self.flags & !kind.flag_bits() != 0 {
            return Err(ParseError::Flags);
        }
        if matches!(kind, Kind::Data | Kind::Ack) && self.index() >= self.count() {
            return Err(ParseError::Index);
        }
        if matches!(kind, Kind::Probe | Kind::ProbeAck) && !self.slot().is_multiple_of(32) {
            return Err(ParseError::Slot);
        }
        Ok(kind)
    }

    /// Builds a header. Index and count must fit 24 and 18 bits; only their low bits are kept.
    /// Flags that the kind doesn't have make a header that every parser rejects.
    pub const fn new(fields: &Fields) -> Self {
        Self {
            magic: MAGIC,
            version_kind: VERSION << 4 | fields.kind as u8,
            flags: fields.flags.0,
            group: fields.group,
            job: fields.job.to_be_bytes(),
            cookie: fields.cookie.to_be_bytes(),
            message: fields.message.to_be_bytes(),
            index: u24(fields.index),
            count: u24(fields.count & COUNT_MAX),
            epoch: fields.epoch.to_be_bytes(),
            slot: fields.slot.to_be_bytes(),
            time: fields.time.to_be_bytes(),
        }
    }

    /// The header's 32 bytes.
    pub fn as_bytes(&self) -> &[u8; HEADER_LEN] {
        bytemuck::cast_ref(self)
    }

    /// Sets the segmentation number (6 bits, wrapping): how often the message was divided into
    /// packets anew because the path's MTU became smaller. Packets of different segmentations don't
    /// fit together.
    pub const fn with_segmentation(mut self, segmentation: u8) -> Self {
        self.count = u24(self.count() | (segmentation as u32) << COUNT_BITS & U24_MAX);
        self
    }

    /// Sets the number of a DATA packet's window in the high bits of the index, and the flags that
    /// say so.
    pub const fn with_window(mut self, window: u32) -> Self {
        self.flags |= Flags::WINDOW.0;
        if window < WINDOWS {
            self.flags |= Flags::WHOLE_WINDOW.0;
        }
        self.index = u24(self.index() | window << COUNT_BITS & U24_MAX);
        self
    }

    /// The number of the window, modulo [`WINDOWS`]: in DATA and ACK flagged WINDOW, and in
    /// RECEIPTs of receivers with [`super::Features::OVERLAP`], which have it in place of the
    /// segmentation.
    pub const fn window(&self) -> Option<u32> {
        if self.names_window() {
            Some(self.index[0] as u32 >> (8 - WINDOW_BITS))
        } else if self.version_kind & 0xf == Kind::Receipt as u8
            && Features::from_wire(self.epoch()).contains(Features::OVERLAP)
        {
            Some(self.segmentation() as u32)
        } else {
            None
        }
    }

    /// Whether DATA can be of the window with this full number. DATA of a job without windows names
    /// none, and is of window 0.
    pub const fn may_be_of_window(&self, number: u32) -> bool {
        let is_whole = self.flags & Flags::WHOLE_WINDOW.0 != 0;
        match self.window() {
            Some(named) => named == number % WINDOWS && is_whole == (number < WINDOWS),
            None => number == 0,
        }
    }

    /// The full number of DATA's window, if the header tells it.
    pub const fn whole_window(&self) -> Option<u32> {
        match self.window() {
            Some(named) if self.flags & Flags::WHOLE_WINDOW.0 != 0 => Some(named),
            Some(_) => None,
            None => Some(0),
        }
    }

    #[inline(always)]
    const fn names_window(&self) -> bool {
        let kind = self.version_kind & 0xf;
        let is_data = kind == Kind::Data as u8 || kind == Kind::Ack as u8;
        is_data && self.flags & Flags::WINDOW.0 != 0
    }

    /// The number of the message's segmentation into packets.
    pub const fn segmentation(&self) -> u8 {
        self.count[0] >> (8 - SEGMENTATION_BITS)
    }

    /// Turns a DATA header into the ACK that answers it. The ACK echoes the other fields, so the
    /// sender needs no state of the receiver to match it.
    #[inline(always)]
    pub const fn into_ack(mut self, congestion: bool) -> Self {
        self.version_kind = VERSION << 4 | Kind::Ack as u8;
        self.flags = if congestion { self.flags | Flags::CONGESTION.0 } else { self.flags };
        self
    }

    /// Turns the header of a PROBE into that of its answer.
    #[inline(always)]
    pub const fn into_probe_ack(mut self) -> Self {
        self.version_kind = VERSION << 4 | Kind::ProbeAck as u8;
        self
    }

    /// Marks a DATA packet as one without an ACK, and sets the epoch in which it leaves. Egress
    /// cannot stamp either into every segment of a GSO buffer.
    pub const fn set_no_ack(&mut self, epoch: u16) {
        self.flags |= Flags::NO_ACK.0;
        self.epoch = epoch.to_be_bytes();
    }

    /// Writes the lane's epoch and the departure time, which only the datapath knows.
    #[inline(always)]
    pub const fn stamp(&mut self, epoch: u16, departure_ns: u64) {
        self.epoch = epoch.to_be_bytes();
        self.time = Self::time_of(departure_ns).to_be_bytes();
    }

    /// The 32-bit wire time of a clock reading: units of 1,024 ns, wrapping every 73 minutes.
    pub const fn time_of(now_ns: u64) -> u32 {
        (now_ns >> TIME_SHIFT) as u32
    }

    /// The time from `earlier` to `later`, both wire times, nanoseconds. `None` if it is more than
    /// half the wrap-around, so that `earlier` is later.
    #[inline(always)]
    pub const fn time_between_ns(earlier: u32, later: u32) -> Option<u64> {
        let units = later.wrapping_sub(earlier);
        if units > u32::MAX / 2 { None } else { Some((units as u64) << TIME_SHIFT) }
    }

    /// How long ago this header was stamped, in nanoseconds. `None` if the age is more than half
    /// the wrap-around, so that the stamp must be wrong.
    #[inline(always)]
    pub const fn age_ns(&self, now_ns: u64) -> Option<u64> {
        Self::time_between_ns(self.time(), Self::time_of(now_ns))
    }

    /// The time from this header's stamp to the packet's arrival, each by its own host's clock, in
    /// units of 1,024 ns, wrapping. Only differences between packets mean anything.
    #[inline(always)]
    pub const fn forward_delay(&self, arrived: Option<u32>) -> Option<u32> {
        match arrived {
            Some(arrived) => Some(arrived.wrapping_sub(self.time())),
            None => None,
        }
    }

    /// The flag bits.
    pub const fn flags(&self) -> Flags {
        Flags(self.flags)
    }
    /// The message's group.
    pub const fn group(&self) -> u8 {
        self.group
    }
    /// The job's id.
    pub const fn job(&self) -> u32 {
        u32::from_be_bytes(self.job)
    }
    /// The sender's secret.
    pub const fn cookie(&self) -> u32 {
        u32::from_be_bytes(self.cookie)
    }
    /// The message's id.
    pub const fn message(&self) -> u32 {
        u32::from_be_bytes(self.message)
    }
    /// Which packet of the message.
    #[inline(always)]
    pub const fn index(&self) -> u32 {
        let index = from_u24(self.index);
        if self.names_window() { index & COUNT_MAX } else { index }
    }
    /// Packets of the message.
    pub const fn count(&self) -> u32 {
        from_u24(self.count) & COUNT_MAX
    }
    /// The lane's epoch at departure.
    pub const fn epoch(&self) -> u16 {
        u16::from_be_bytes(self.epoch)
    }
    /// The delivery slot.
    pub const fn slot(&self) -> u32 {
        u32::from_be_bytes(self.slot)
    }
    /// A number for the gap after this packet. It differs from packet to packet and from flow to
    /// flow.
    pub const fn pacing_number(&self) -> u32 {
        self.slot() ^ self.cookie()
    }
    /// The send time, in units of 1,024 ns.
    pub const fn time(&self) -> u32 {
        u32::from_be_bytes(self.time)
    }
}

const fn u24(value: u32) -> [u8; 3] {
    let [_, a, b, c] = value.to_be_bytes();
    [a, b, c]
}

const fn from_u24(bytes: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EMPTY: Header = Header::new(&Fields::of(Kind::Reset));

    fn fields() -> impl Strategy<Value = Fields> {
        let kinds = proptest::sample::select(&Kind::ALL[..]);
        let packet = (1..=COUNT_MAX).prop_flat_map(|count| (0..count, Just(count)));
        let ids = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
        (kinds, any::<u8>(), any::<u8>(), ids, packet, any::<u16>()).prop_map(
            |(kind, flags, group, (job, cookie, message, slot, time), (index, count), epoch)| {
                let probes = matches!(kind, Kind::Probe | Kind::ProbeAck);
                let flags = Flags(flags & kind.flag_bits());
                let slot = if probes { slot & !31 } else { slot };
                Fields { kind, flags, group, job, cookie, message, index, count, epoch, slot, time }
            },
        )
    }

    proptest! {
        #[test]
        fn parse__reads_what_new_writes(
            fields in fields(),
            segmentation in 0u8..1 << SEGMENTATION_BITS,
        ) {
            let built = Header::new(&fields).with_segmentation(segmentation);
            let (header, kind) = Header::parse(built.as_bytes()).unwrap();
            prop_assert_eq!(kind, fields.kind);
            let read = Fields {
                kind,
                flags: header.flags(),
                group: header.group(),
                job: header.job(),
                cookie: header.cookie(),
                message: header.message(),
                index: header.index(),
                count: header.count(),
                epoch: header.epoch(),
                slot: header.slot(),
                time: header.time(),
            };
            prop_assert_eq!((read, header.segmentation()), (fields, segmentation), "{}", built);
        }

        #[test]
        fn parse__never_panics_and_rejects_unknown_bits(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..64),
            kind in 0u8..16,
        ) {
            // Otherwise only one input in eight thousand would pass the first checks.
            bytes.iter_mut().zip([MAGIC, VERSION << 4 | kind]).for_each(|(byte, is)| *byte = is);
            match Header::parse(&bytes) {
                Ok((header, kind)) => {
                    prop_assert_eq!(header.version_kind, 0x10 | kind as u8);
                    let probes = matches!(kind, Kind::Probe | Kind::ProbeAck);
                    prop_assert!(kind.flags().contains(header.flags()), "{}", header);
                    prop_assert!(!probes || header.slot().is_multiple_of(32), "{}", header);
                }
                Err(ParseError::Short) => prop_assert!(bytes.len() < HEADER_LEN),
                Err(_) => {}
            }
        }

        #[test]
        fn kind__rejects_flags_of_other_kinds(fields in fields(), flags: u8) {
            let header = Header { flags, ..Header::new(&fields) };
            let foreign = flags & !fields.kind.flags().0 != 0;
            let expected = if foreign { Err(ParseError::Flags) } else { Ok(fields.kind) };
            prop_assert_eq!(header.kind(), expected, "{}", header);
        }

        #[test]
        fn age_ns__survives_the_wrap(sent_ns: u64, age_ns in 0u64..1 << 40) {
            let sent_ns = sent_ns >> 1;
            let mut header = Header::zeroed();
            header.stamp(0, sent_ns);
            let read = header.age_ns(sent_ns + age_ns).unwrap();
            prop_assert!(read.abs_diff(age_ns) <= 1024);
        }
    }

    #[test]
    fn kind__rejects_each_wrong_byte() {
        let good = Header::new(&Fields {
            job: 1,
            cookie: 2,
            message: 3,
            count: 1,
            ..Fields::of(Kind::Data)
        });
        assert_eq!(good.kind(), Ok(Kind::Data));
        assert_eq!(Header { magic: 0, ..good }.kind(), Err(ParseError::NotAtp));
        assert_eq!(Header { version_kind: 0x21, ..good }.kind(), Err(ParseError::Version));
        assert_eq!(Header { version_kind: 0x1f, ..good }.kind(), Err(ParseError::Kind));
        assert_eq!(Header { count: [0; 3], ..good }.kind(), Err(ParseError::Index));
        let probe = Header { version_kind: 0x13, ..good };
        assert_eq!(probe.kind(), Ok(Kind::Probe));
        assert_eq!(probe.into_probe_ack().kind(), Ok(Kind::ProbeAck));
        assert_eq!(Header { flags: 0x80, ..probe }.kind(), Err(ParseError::Flags));
        assert_eq!(Header { slot: [0, 0, 0, 33], ..probe }.kind(), Err(ParseError::Slot));
    }

    /// The sender accepts every answer of the datapath.
    #[test]
    fn into_ack__of_any_data_is_an_ack() {
        for flags in (0..=u8::MAX).filter(|flags| Kind::Data.flags().contains(Flags(*flags))) {
            let header = Header { flags, count: u24(1), version_kind: 0x11, ..EMPTY };
            assert_eq!(header.kind(), Ok(Kind::Data));
            assert_eq!(header.into_ack(false).kind(), Ok(Kind::Ack), "{header}");
            assert_eq!(header.into_ack(true).kind(), Ok(Kind::Ack), "{header}");
        }
    }

    #[test]
    fn into_ack__echoes_all_but_kind_and_mark() {
        let fields = Fields {
            kind: Kind::Data,
            flags: Flags::RETRANSMIT,
            group: 9,
            job: 1,
            cookie: 2,
            message: 3,
            index: 4,
            count: 5,
            epoch: 6,
            slot: 7,
            time: 8,
        };
        let ack = Header::new(&fields).into_ack(true);
        let expected =
            Fields { kind: Kind::Ack, flags: Flags::RETRANSMIT.with(Flags::CONGESTION), ..fields };
        assert_eq!(ack, Header::new(&expected), "{ack}");
    }
}
