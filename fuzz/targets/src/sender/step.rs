//! The steps of a sender's application, and of its peer.

use arbitrary::Arbitrary;
use atp_common::laws::{rtt::Rtt, yielding::overdue_ns};
use atp_proto::Pace;

pub const JOB: u32 = 7;
pub const COOKIE: u32 = 0x5eed;

/// One step. A `group` is a choice among the configured groups and an unknown one.
#[derive(Debug, Arbitrary)]
pub enum Step {
    Queue {
        group: u8,
        messages: u8,
        len_bytes: u32,
    },
    Send(u8),
    TakeBack,
    Control,
    Timeout {
        ms: u16,
    },
    /// Waits until a timeout is due.
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
    /// Ends everything, so it happens for one value of `sure` only.
    Reset {
        sure: u8,
        reason: u16,
    },
    Raw {
        kind: u8,
        bytes: Vec<u8>,
    },
    /// Sets whether packets of a group get no ACK of their own from now on.
    NoAck {
        group: u8,
        on: bool,
    },
    /// A PROBE about the latest slots leaves.
    SendProbe {
        group: u8,
        slots: u8,
    },
    /// One of the PROBEs is answered: bits of each word of 32 slots.
    AnswerProbe {
        which: u8,
        words: [u32; 8],
    },
    /// The daemon, which sends PROBEs, is gone.
    StopProbing,
}

/// A round-trip time and a backlog, microseconds, and a window.
#[derive(Debug, Arbitrary)]
pub struct RawPace {
    smoothed_us: u32,
    variation_us: u32,
    min_us: u32,
    backlog_us: u32,
    window_packets: u8,
}

impl From<RawPace> for Pace {
    fn from(raw: RawPace) -> Self {
        // At most the largest value of a datapath.
        let ns = |us: u32| (u64::from(us) * 1_000).min(Rtt::SAMPLE_NS_MAX);
        let rtt = Rtt {
            smoothed_ns: ns(raw.smoothed_us),
            variation_ns: ns(raw.variation_us),
            min_ns: ns(raw.min_us),
        };
        Self {
            rtt,
            backlog_ns: ns(raw.backlog_us),
            window_packets: raw.window_packets.into(),
            overdue_ns: overdue_ns(rtt, 0),
        }
    }
}

/// An ACK of one of the latest packets, or a false one.
#[derive(Debug, Arbitrary)]
pub struct Ack {
    pub back: u8,
    /// The falsified field; most values falsify none.
    pub wrong: u8,
    pub slot: u32,
    pub index: u32,
}

/// A receipt, true or false.
#[derive(Debug, Arbitrary)]
pub struct Receipt {
    pub group: u8,
    pub number: u32,
    /// The share of the queued messages, in parts of 249. A value from 250 on means any number.
    pub cumulative: u8,
    pub delivered: DeliveredCount,
    pub slot: Option<u32>,
    pub words: Vec<(u8, u8, u64)>,
    pub any: u32,
}

/// The number of delivered messages in a receipt.
#[derive(Debug, Arbitrary)]
pub enum DeliveredCount {
    /// The number that the sender knows, and this many more.
    Known(u8),
    Any(u32),
}

/// An answer to the last FIN.
#[derive(Debug, Arbitrary)]
pub struct FinAck {
    pub ended: bool,
    pub forced: bool,
    /// The share of a group's messages, in parts of 255.
    pub delivered: u8,
    pub counts: Vec<u8>,
    /// An attempt other than the last.
    pub attempt: Option<u32>,
    pub page: Option<u8>,
    pub window: Option<u32>,
    /// A number of messages other than the FIN's.
    pub messages: Option<u32>,
}
