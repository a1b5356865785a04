//! What happens to a sender next: its application's steps, and its peer's words.

use arbitrary::Arbitrary;
use atp_common::laws::rtt::Rtt;
use atp_proto::Pace;

pub const JOB: u32 = 7;
pub const COOKIE: u32 = 0x5eed;

/// One step. A `group` is a choice among those that are configured and one that isn't.
#[derive(Debug, Arbitrary)]
pub enum Step {
    Queue {
        group: u8,
        messages: u8,
        len_bytes: u32,
    },
    Send(u8),
    Unsent,
    Control,
    Timeout {
        ms: u16,
    },
    /// Waits until the sender wants to be woken.
    Due,
    Finish,
    FinishWindow,
    EndNow,
    BeginWindow {
        total: Option<u8>,
    },
    SetMsr {
        group: u8,
        parts: u32,
    },
    Narrow {
        bytes: u16,
    },
    Pace {
        group: u8,
        pace: RawPace,
    },
    /// Words of the ring: how far back, whether of this lap, bits.
    Ring(Vec<(u8, bool, u32)>),
    Ack(Ack),
    Receipt(Receipt),
    FinAck(FinAck),
    /// Only if it is sure, since it ends everything.
    Reset {
        sure: u8,
        reason: u16,
    },
    Raw {
        kind: u8,
        bytes: Vec<u8>,
    },
    /// From now on packets of a group get no ACK of their own, or do.
    Probed {
        group: u8,
        on: bool,
    },
    /// A question about the youngest slots leaves.
    Ask {
        group: u8,
        slots: u8,
    },
    /// One of the questions is answered: bits of each word of 32 slots.
    Answer {
        which: u8,
        words: [u32; 8],
    },
    /// The daemon is gone.
    NobodyAsks,
}

/// Round-trip time and backlog, microseconds.
#[derive(Debug, Arbitrary)]
pub struct RawPace {
    smoothed_us: u32,
    variation_us: u32,
    min_us: u32,
    backlog_us: u32,
}

impl From<RawPace> for Pace {
    fn from(raw: RawPace) -> Self {
        // As long as a datapath would ever say.
        let ns = |us: u32| (u64::from(us) * 1_000).min(Rtt::SAMPLE_NS_MAX);
        let rtt = Rtt {
            smoothed_ns: ns(raw.smoothed_us),
            variation_ns: ns(raw.variation_us),
            min_ns: ns(raw.min_us),
        };
        Self { rtt, backlog_ns: ns(raw.backlog_us) }
    }
}

/// An ACK of one of the youngest packets, or of something else.
#[derive(Debug, Arbitrary)]
pub struct Ack {
    pub back: u8,
    /// Changes to what an honest ACK says; mostly none, by the choice of the bits that count.
    pub wrong: u8,
    pub slot: u32,
    pub index: u32,
}

/// A receipt, honest as far as its choices are.
#[derive(Debug, Arbitrary)]
pub struct Receipt {
    pub group: u8,
    pub number: u32,
    /// Of the messages queued, so many of 255; from 250 on anything.
    pub cumulative: u8,
    pub delivered: DeliveredCount,
    pub slot: Option<u32>,
    pub words: Vec<(u8, u8, u64)>,
    pub any: u32,
}

/// What a receipt says is delivered in all.
#[derive(Debug, Arbitrary)]
pub enum DeliveredCount {
    /// What the sender knows, after this receipt at most so many more.
    Known(u8),
    Any(u32),
}

/// An answer to the last FIN.
#[derive(Debug, Arbitrary)]
pub struct FinAck {
    pub ended: bool,
    pub forced: bool,
    /// Of a group's messages, so many of 255.
    pub delivered: u8,
    pub counts: Vec<u8>,
    /// What it answers instead of the last one.
    pub round: Option<u32>,
    pub page: Option<u8>,
    pub window: Option<u32>,
    /// Other messages than were asked about.
    pub messages: Option<u32>,
}
