//! What the ends say to each other: one type for each scheme's packets.

use atp_common::wire::Header;

/// What is in a packet, as far as a scheme looks at it.
#[derive(Clone, Debug)]
pub enum Body {
    /// ATP's own header, and the body of a control packet. Messages have lengths, no content.
    Atp {
        /// As on the wire.
        header: Header,
        /// Bytes of a message that it carries.
        payload_bytes: u32,
        /// What follows the header of a receipt, a FIN or its answer.
        control: Option<Box<[u8]>>,
    },
    /// UDP's: one datagram of a message.
    Datagram {
        /// The message.
        message: u32,
        /// Which of its datagrams.
        number: u32,
        /// Of how many datagrams it is.
        count: u32,
    },
    /// DCTCP's segments and acknowledgements.
    Dctcp(Dctcp),
    /// pFabric's.
    PFabric(PFabric),
    /// NDP's.
    Ndp(Ndp),
    /// MLT's.
    Mlt(Mlt),
    /// Of Aeolus over ExpressPass.
    Aeolus(Aeolus),
}

impl Body {
    /// NDP's switches may cut off what it carries, and its ends know what to make of the rest.
    pub const fn is_trimmable(&self) -> bool {
        matches!(self, Self::Ndp(Ndp::Data(NdpData { trimmed: false, .. })))
    }

    /// NDP's switches let it go before data: a header, or what NDP's ends say to each other.
    pub const fn is_urgent(&self) -> bool {
        matches!(self, Self::Ndp(_)) && !self.is_trimmable()
    }
}

/// A byte stream's packets.
#[derive(Clone, Copy, Debug)]
pub enum Dctcp {
    /// Bytes of the stream.
    Segment {
        /// Where they begin.
        sequence: u64,
        /// How many.
        bytes: u32,
        /// Messages that end in or before it.
        messages: u32,
        /// Which transmission of the flow it is.
        turn: u64,
        /// When it left, picoseconds.
        sent_ps: u64,
    },
    /// What has come of it.
    Ack {
        /// All bytes below are here.
        cumulative: u64,
        /// Where the segment that it answers began.
        sequence: u64,
        /// It was marked.
        echo: bool,
        /// Which transmission it answers.
        turn: u64,
        /// When that had left.
        sent_ps: u64,
    },
}

/// What pFabric's ends say of the message that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PFabric {
    /// A part of it.
    Segment {
        /// Which.
        number: u32,
        /// Of how many.
        count: u32,
    },
    /// Does anything come through?
    Probe,
    /// A part, or a probe, is here.
    Ack {
        /// Which part; of a probe, none.
        number: Option<u32>,
    },
}

/// What NDP's ends say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ndp {
    /// Part of the flow's stream of messages.
    Data(NdpData),
    /// The packet of this number is here.
    Ack {
        /// Which.
        number: u32,
        /// How many packets the receiver has asked for so far.
        pulled: u32,
    },
    /// The header of the packet of this number is here.
    Nack {
        /// Which.
        number: u32,
        /// As in an acknowledgement.
        pulled: u32,
    },
    /// More is asked for.
    Pull {
        /// As in an acknowledgement.
        pulled: u32,
    },
    /// Nothing more comes, whatever is missing: to whom still asks.
    End,
}

/// A packet of NDP's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpData {
    /// What is in it.
    pub cut: Cut,
    /// When it left, its sender had nothing after it.
    pub last: bool,
    /// A switch has cut off its payload.
    pub trimmed: bool,
}

/// What a packet carries of a stream of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Its number in its flow.
    pub number: u32,
    /// How many messages are in it from beginning to end.
    pub whole: u32,
    /// What it has of messages that are in several packets: one that began before it, one that goes on.
    pub parts: [Option<Part>; 2],
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its message.
    pub message: u32,
    /// In how many packets that is.
    pub packets: u32,
}

/// What the ends of a bounded-loss transport in the manner of MLT say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mlt {
    /// Part of the flow's stream of messages.
    Data {
        /// What is in it.
        cut: Cut,
        /// Which transmission of the flow it is.
        turn: u64,
    },
    /// A packet is here.
    Ack {
        /// Which transmission.
        turn: u64,
        /// What it took on the wire.
        wire_bytes: u32,
        /// It was marked.
        echo: bool,
    },
    /// All was sent: what is missing?
    Probe {
        /// Which probe it is.
        probe: u32,
        /// How many packets there are.
        packets: u32,
    },
    /// Packets that are missing.
    Missing {
        /// Which probe it answers.
        probe: u32,
        /// Their numbers.
        numbers: Box<[u32]>,
    },
    /// Enough is here.
    Stop,
}

/// What the ends say to each other under Aeolus over ExpressPass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aeolus {
    /// Bytes of the stream.
    Segment {
        /// Where they begin.
        sequence: u64,
        /// How many.
        bytes: u32,
        /// Messages that end in or before it.
        messages: u32,
        /// Counts what the sender sends.
        turn: u64,
        /// The credit that it answers, and when that had left, picoseconds; none if it is unscheduled.
        credit: Option<(u32, u64)>,
    },
    /// The sender has data, and asks for credits.
    Request {
        /// Counts what the sender sends.
        turn: u64,
    },
    /// The last of a burst of unscheduled packets has left.
    Probe {
        /// Counts what the sender sends.
        turn: u64,
    },
    /// The sender has nothing to send, and wants no more credits.
    Stop {
        /// Counts what the sender sends.
        turn: u64,
    },
    /// One packet may be sent.
    Credit {
        /// Which one of the flow.
        number: u32,
        /// When it left, picoseconds.
        sent_ps: u64,
        /// What is here.
        report: AeolusReport,
    },
    /// An unscheduled segment, or a packet without data, is here.
    Ack {
        /// Where the segment began.
        sequence: Option<u64>,
        /// What counted the packet.
        turn: u64,
        /// What is here.
        report: AeolusReport,
    },
}

/// What an Aeolus receiver has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AeolusReport {
    /// All bytes below are here.
    pub cumulative: u64,
    /// None from there to here is.
    pub hole_end: u64,
    /// The latest turn of a packet that came.
    pub turn: u64,
}
