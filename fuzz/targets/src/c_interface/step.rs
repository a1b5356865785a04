//! The calls of an input, and their arguments.

use arbitrary::{Arbitrary, Unstructured};
use atp_c::atp_group;
use std::ffi::c_char;

/// A structure's size as the caller states it.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    Right,
    Longer,
    LongerWithUnknownField,
    Any(usize),
}

impl Arbitrary<'_> for Size {
    /// Mostly right: a wrong size ends a call before it does anything.
    fn arbitrary(bytes: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        Ok(match u8::arbitrary(bytes)? {
            0..=219 => Self::Right,
            220..=231 => Self::Longer,
            232..=243 => Self::LongerWithUnknownField,
            _ => Self::Any(usize::arbitrary(bytes)?),
        })
    }
}

/// A sampling rate, mostly a valid one.
#[derive(Clone, Copy, Debug)]
pub struct Share(pub f64);

impl Arbitrary<'_> for Share {
    fn arbitrary(bytes: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        Ok(Self(match u8::arbitrary(bytes)? {
            share @ 0..=200 => f64::from(share) / 200.0,
            _ => f64::arbitrary(bytes)?,
        }))
    }
}

/// A number or text that is mostly left at its default.
#[derive(Clone, Debug)]
pub struct Rare<T>(pub Option<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Rare<T> {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self((u8::arbitrary(bytes)? > 220).then(|| T::arbitrary(bytes)).transpose()?))
    }
}

impl<T: Copy + Default> Rare<T> {
    pub fn value(&self) -> T {
        self.0.unwrap_or_default()
    }
}

/// A group's id, mostly 0 or 1.
pub fn group_id(drawn: u16) -> u32 {
    if drawn < 60_000 { u32::from(drawn % 2) } else { drawn.into() }
}

#[derive(Arbitrary, Debug)]
pub struct Options {
    pub size: Size,
    pub msr: Share,
    pub messages: Rare<u32>,
    pub flags: Rare<u8>,
    pub peer_timeout_ms: u8,
    pub buffer_bytes: Rare<u16>,
    pub payload_bytes: Rare<u16>,
    pub message_bytes_max: Rare<u16>,
    pub timer_granularity_us: Rare<u16>,
    pub window_deadline_ms: u8,
    pub groups: Rare<Vec<(u16, u8, Share)>>,
    pub id: Rare<Vec<u8>>,
    pub law: Rare<u8>,
    pub requests: Rare<(u8, bool, Share, Share)>,
    pub name: Rare<Vec<u8>>,
}

impl Options {
    /// Options with which every call works.
    pub fn usual() -> Self {
        Self {
            size: Size::Right,
            msr: Share(1.0),
            messages: Rare(None),
            flags: Rare(None),
            peer_timeout_ms: 19,
            buffer_bytes: Rare(None),
            payload_bytes: Rare(None),
            message_bytes_max: Rare(None),
            timer_granularity_us: Rare(None),
            window_deadline_ms: 19,
            groups: Rare(None),
            id: Rare(None),
            law: Rare(None),
            requests: Rare(None),
            name: Rare(None),
        }
    }
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Bind { size: Size, sources_max: Rare<u32>, peer: Rare<Vec<u8>> },
    Connect { deadline: bool, peer: Rare<Vec<u8>>, options: Options },
    Send { on: u8, group: u16, len: u16, null: bool },
    TrySend { on: u8, group: u16, len: u16 },
    SendMany { on: u8, group: u16, lens: Vec<u8>, null: bool },
    SendOwned { on: u8, group: u16, len: u16, null: bool },
    SetMsr { on: u8, group: u16, msr: Share },
    SetMessages { on: u8, group: u16, messages: u32 },
    Progress { on: u8, size: Size },
    Begin { on: u8, cancel: bool },
    TryOutcome { on: u8, size: Size },
    End { on: u8, cancel: bool, size: Size },
    EndWindow { on: u8, size: Size },
    Report { on: u8, index: u8, size: Size },
    Free { on: u8 },
    Recv { on: u8, size: Size },
    RecvBatch { on: u8, size: Size, len: u8 },
    EventGroup { event: u8, index: u8, size: Size },
    EventFree { event: u8 },
    Close { on: u8 },
    Look { on: u8, size: Size, len: u8 },
    EventTerms { event: u8, index: u8, size: Size },
    ReportLost { on: u8, index: u8, len: u8, null: bool },
    RequestMsr { on: u8, event: u8, run: Rare<u32>, group: u16, msr: Share },
    RequestEnd { on: u8, event: u8, run: Rare<u32> },
    Arrivals { on: u8, size: Size, len: u8 },
}

/// A group as C has it.
pub fn to_group((group, messages, msr): &(u16, u8, Share), name: *const c_char) -> atp_group {
    let (struct_size, group, messages) = (size_of::<atp_group>(), group_id(*group), *messages);
    let (order, shuffle_buffer) = (group % 4, group / 4 % 3);
    let messages = messages.into();
    atp_group { struct_size, group, messages, msr: msr.0, name, order, shuffle_buffer }
}
