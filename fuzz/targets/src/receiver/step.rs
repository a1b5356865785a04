//! The steps of a hostile sender. Most values are small or close, so packets often meet.

use arbitrary::{Arbitrary, Result, Unstructured};
use atp_common::wire::{
    FIN_BODY_LEN_MAX, Fields, FinBody, FinGroup, Flags, Header, Kind, U24_MAX, member_header,
};

pub const JOB: u32 = 7;
pub const COOKIE: u32 = 0x5eed;
/// The used groups: neighbors, and the last one.
pub const GROUPS: [u8; 5] = [0, 1, 2, 30, 255];

/// One step.
#[derive(Debug, Arbitrary)]
pub enum Step {
    /// One DATA packet.
    Data(Data),
    /// A DATA packet for this many messages in a row.
    Repeat(u8, Data),
    /// One page of a FIN.
    Fin(Fin),
    /// A pause, milliseconds.
    Wait(u8),
    /// A receipt now, due or not, with room for 44 bytes and eight times this many.
    Receipt(u8),
    /// A PROBE about a group.
    Probe(Probe),
}

/// The slot that a packet claims.
#[derive(Clone, Copy, Debug, Default)]
pub enum Slot {
    /// The slot after the last one, as a correct sender claims it.
    #[default]
    Next,
    /// This many before the last.
    Before(u8),
    /// This many after the last. The next ones continue from there.
    After(u32),
}

impl Slot {
    fn read(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match u.int_in_range(0..=15u8)? {
            0..=11 => Self::Next,
            12..=14 => Self::Before(u.arbitrary()?),
            _ => Self::After(u.arbitrary()?),
        })
    }

    fn of(self, last: &mut u32) -> u32 {
        match self {
            Self::Next => *last = last.wrapping_add(1),
            Self::Before(slots) => return last.wrapping_sub(slots.into()),
            Self::After(slots) => *last = last.wrapping_add(slots),
        }
        *last
    }
}

/// The bit of [`Flags::ORDERED`].
const ORDERED: u8 = 4;
/// The bit of [`Flags::WINDOW`].
const WINDOW: u8 = 128;

/// One DATA packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Data {
    pub message: u32,
    pub group: u8,
    pub count: u32,
    pub index: u32,
    pub segmentation: u8,
    pub flags: Flags,
    pub foreign: bool,
    pub len_bytes: u16,
    pub slot: Slot,
}

impl<'a> Arbitrary<'a> for Data {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let odd: u8 = u.arbitrary()?;
        let group = *u.choose(&GROUPS)?;
        let message = if odd & 1 == 0 { u32::from(u8::arbitrary(u)?) } else { u.arbitrary()? };
        let count = match odd >> 1 & 3 {
            0 => 1,
            1 => 1 + u32::from(u8::arbitrary(u)? % 4),
            2 => 1 + u32::from(u8::arbitrary(u)?),
            _ => u.int_in_range(1..=(1 << 18) - 1)?,
        };
        let index = if count == 1 { 0 } else { u.int_in_range(0..=count - 1)? };
        // Odd groups are exact, unless the sender contradicts itself.
        let exact = (group % 2 == 1) != (odd & 8 != 0 && odd & 16 != 0);
        let bits = if odd & 32 == 0 { 0 } else { u.arbitrary()? };
        let others = crate::wire::flags(Kind::Data, bits & !(ORDERED | WINDOW));
        let flags = if exact { others.with(Flags::ORDERED) } else { others };
        let segmentation = if odd & 64 == 0 { 0 } else { u.int_in_range(0..=63)? };
        let len_bytes = if odd & 128 == 0 { 8 } else { u.int_in_range(0..=1_400)? };
        let foreign = odd == 0xff;
        Ok(Self {
            message,
            group,
            count,
            index,
            segmentation,
            flags,
            foreign,
            len_bytes,
            slot: Slot::read(u)?,
        })
    }
}

impl Data {
    pub fn header(&self, last_slot: &mut u32) -> Header {
        let count = self.count.max(1);
        let slot = self.slot.of(last_slot);
        Header::new(&Fields {
            flags: self.flags,
            group: self.group,
            job: JOB,
            cookie: if self.foreign { !COOKIE } else { COOKIE },
            message: self.message,
            index: self.index,
            count,
            // 64 slots per epoch, and close epochs.
            epoch: (slot / 64) as u16,
            slot,
            ..Fields::of(Kind::Data)
        })
        .with_segmentation(self.segmentation)
    }

    /// A packed packet holds its message as often as it claims: the copies are duplicates.
    pub fn body(&self) -> Vec<u8> {
        let data = vec![self.message as u8; self.len_bytes.into()];
        if !self.flags.contains(Flags::PACKED) || self.count > 255 {
            return data;
        }
        let member = [&member_header(self.message, 8)[..], &[self.message as u8; 8]].concat();
        [member.repeat(self.count as usize), data].concat()
    }
}

/// A PROBE.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub group: u8,
    pub slot: Slot,
}

impl<'a> Arbitrary<'a> for Probe {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { group: *u.choose(&GROUPS)?, slot: Slot::read(u)? })
    }
}

impl Probe {
    pub fn header(&self, last_slot: u32) -> Header {
        Header::new(&Fields {
            group: self.group,
            job: JOB,
            cookie: COOKIE,
            message: last_slot.wrapping_add(1),
            // A PROBE takes no slot of its own.
            slot: self.slot.of(&mut last_slot.clone()) & !31,
            ..Fields::of(Kind::Probe)
        })
    }
}

/// One page of a FIN.
#[derive(Clone, Debug, Default)]
pub struct Fin {
    /// The window that it ends.
    pub window: Option<u32>,
    pub groups: Vec<FinGroup>,
    /// Added to the sum of the groups' messages.
    pub surplus: u32,
    pub flags: Flags,
    pub attempt: u32,
    pub page: u16,
    pub pages: u32,
    pub slot: Slot,
}

impl<'a> Arbitrary<'a> for Fin {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let odd: u8 = u.arbitrary()?;
        let window = match odd & 7 {
            0..=5 => u32::from(odd & 3),
            _ => u.arbitrary()?,
        };
        let chosen: u8 = u.arbitrary()?;
        let mut groups = Vec::new();
        for (at, &group) in GROUPS.iter().enumerate() {
            if chosen >> at & 1 == 1 {
                let messages = if odd & 8 == 0 { u8::arbitrary(u)?.into() } else { u.arbitrary()? };
                let needed = if odd & 16 == 0 { 0 } else { u.int_in_range(0..=messages)? };
                let delivered = if odd & 32 == 0 { 0 } else { u.int_in_range(0..=messages)? };
                groups.push(FinGroup { group, messages, needed, delivered });
            }
        }
        let (attempt, page, pages, surplus) = match odd >> 6 {
            0 | 1 => (u8::arbitrary(u)?.into(), 0, 1, 0),
            2 => {
                let pages = u.int_in_range(1..=3)?;
                let page = u.int_in_range(0..=pages - 1)?;
                (u8::arbitrary(u)?.into(), page as u16, pages, u8::arbitrary(u)?.into())
            }
            _ => (
                u32::arbitrary(u)? & U24_MAX,
                u.arbitrary()?,
                u.int_in_range(0..=(1 << 18) - 1)?,
                u.arbitrary()?,
            ),
        };
        let flags = crate::wire::flags(Kind::Fin, u.arbitrary()?);
        let slot = Slot::read(u)?;
        Ok(Self { window: Some(window), groups, surplus, flags, attempt, page, pages, slot })
    }
}

impl Fin {
    fn groups_or_one(&self) -> Vec<FinGroup> {
        if self.groups.is_empty() { vec![FinGroup::default()] } else { self.groups.clone() }
    }

    pub fn header(&self, last_slot: &mut u32) -> Header {
        let groups = self.groups_or_one();
        let messages = groups.iter().fold(0u32, |sum, group| sum.wrapping_add(group.messages));
        Header::new(&Fields {
            flags: self.flags,
            group: groups[0].group,
            job: JOB,
            cookie: COOKIE,
            message: messages.wrapping_add(self.surplus),
            index: self.attempt,
            count: self.pages.max(1),
            epoch: self.page,
            slot: self.slot.of(last_slot),
            ..Fields::of(Kind::Fin)
        })
    }

    pub fn body(&self) -> Vec<u8> {
        let mut out = vec![0; FIN_BODY_LEN_MAX];
        let window = self.window.unwrap_or_default();
        let len = FinBody::write(&mut out, window, &self.groups_or_one()).expect("five groups fit");
        out.truncate(len);
        out
    }
}
